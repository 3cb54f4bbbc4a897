//! Rules for access to the GPU: groups of images, users of services, and commands that a script
//! prints.

use crate::dockerfile::Instruction;
use crate::shell::{ShellCommand, Word};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile if gets_groups(facts, context) => {}
        Kind::Dockerfile => own_group(facts, found),
        Kind::Shell => {
            service_user(facts, found);
            printed(facts, found);
        }
        Kind::Quadlet => separated(facts, found),
        _ => {}
    }
}

/// Names, in lower case, of distributions whose SELinux is on by default.
const WITH_SELINUX: [&str; 9] = [
    "almalinux",
    "bazzite",
    "bluefin",
    "centos",
    "coreos",
    "fedora",
    "kinoite",
    "rhel",
    "silverblue",
];

/// The starts of options that give a container a GPU.
const GPU: [&str; 4] = ["--device=/dev/dri", "--device=/dev/kfd", "--device=nvidia.com", "--gpus"];

/// Checks for a quadlet with a GPU for a host on which SELinux denies the GPU to containers.
fn separated(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = format!("{}\n{}", facts.file, facts.text).to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    if !has(&WITH_SELINUX) || has(&["container_use_devices", "label", "setsebool", "privileged"]) {
        return;
    }
    for container in &facts.containers {
        let is_gpu = |one: &&Word| GPU.iter().any(|start| one.text.starts_with(start));
        // The image can be that of a distribution.
        let image = container.image.as_ref().map_or("", |one| one.text.as_str());
        let rest = lower.replace(&image.to_ascii_lowercase(), "");
        let is_host = WITH_SELINUX.iter().any(|name| rest.contains(name));
        if let Some(option) = container.options.iter().find(is_gpu).filter(|_| is_host) {
            let message = "SELinux denies containers the GPU, unless the host allows it";
            found.add("selinux-denies", option.line, message);
        }
    }
}

/// Returns whether a compose file or script in the folder of a Dockerfile passes a group of the host
/// other than `video`.
pub(super) fn gets_groups(facts: &Facts<'_>, context: Context<'_>) -> bool {
    let Some(files) = context.exists else { return false };
    let is_passed = files.compose_files(facts.file).iter().any(|text| {
        let compose = Facts::read("compose.yml", text);
        let mut options = compose.containers.iter().flat_map(|one| &one.options);
        options.any(|one| one.text.strip_prefix("--group-add=").is_some_and(|name| name != "video"))
    });
    is_passed || files.beside(facts.file).iter().any(|(_, text)| passes_group(text))
}

/// Returns whether a command in a text passes a group of the host other than `video`: its number, or
/// a variable.
fn passes_group(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split("--group-add").skip(1)).any(|rest| {
        let value = rest.trim_start_matches(['=', ' ', '"', '\'', ',']);
        value.starts_with(|c: char| c.is_ascii_digit() || c == '$') || value.starts_with("keep-")
    })
}

/// Texts that show that the author knows the group of the host.
const KNOWS_GROUP: [&str; 8] = [
    "group-add",
    "group_add",
    "keep-groups",
    "groupmod",
    "render_gid",
    "stat -c",
    "gid_render",
    "renderd128",
];

/// Checks for an image whose user is in the image's own group `render`, which is the only measure.
fn own_group(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.text.to_ascii_lowercase();
    let is_amd = ["rocm", "radeonsi", "mesa-va-drivers"].iter().any(|text| lower.contains(text));
    if !is_amd || KNOWS_GROUP.iter().any(|text| lower.contains(text)) {
        return;
    }
    let texts = |command: &ShellCommand| -> Vec<String> {
        command.words.iter().map(|word| word.text.clone()).collect()
    };
    let names_render =
        |words: &[String]| words.iter().any(|word| word.split(',').any(|group| group == "render"));
    // Another rule reports a fixed GID.
    let makes = |words: &[String]| {
        let has_number = words.iter().any(|word| word == "-g" || word.starts_with("--gid"));
        matches!(&*words[0], "groupadd" | "addgroup") && has_number
    };
    let joins = |words: &[String]| {
        matches!(&*words[0], "usermod" | "useradd" | "adduser" | "gpasswd") && names_render(words)
    };
    let is_made =
        facts.commands.iter().map(texts).any(|words| makes(&words) && names_render(&words));
    let last = facts.stages.len();
    let users = facts.instructions().iter().filter(|one| one.stage == last);
    let mut names = users.filter_map(|Instruction { text, .. }| {
        let mut words = text.split_whitespace();
        let is_user = words.next().is_some_and(|word| word.eq_ignore_ascii_case("user"));
        words.next().filter(|_| is_user).map(str::to_owned)
    });
    let user = names.next_back().filter(|user| !matches!(user.as_str(), "root" | "0"));
    let joined = facts.commands.iter().find(|one| one.stage == last && joins(&texts(one)));
    if let Some(command) = joined.filter(|_| !is_made && user.is_some()) {
        let message =
            "the image's group `render` counts only if it has the GID of the host's group";
        let hit = Hit::new("render-group-missing", command.words[0].line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Texts that show that a program uses ROCm.
const ROCM: [&str; 4] = ["rocm", "hsa_override", "/dev/kfd", "amdgpu"];

/// Checks for a service whose user a script creates, but adds to no group for the GPU.
fn service_user(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let starts = |start: &str| facts.lines().any(|(_, text)| text.starts_with(start));
    let user =
        facts.lines().find_map(|(line, text)| Some((line, text.trim().strip_prefix("User=")?)));
    let Some((line, user)) = user else { return };
    let creates = has(&["useradd", "adduser"]) || starts(&format!("u {user} "));
    let is_plain = user.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let is_service = has(&["[service]"]) && has(&["execstart="]) && has(&ROCM);
    let has_group = has(&["render", "video", "supplementarygroups"]);
    if is_service && creates && is_plain && user != "root" && !has_group {
        let message =
            format!("the script adds the user `{user}` of the service to no group for the GPU");
        found.add("render-group-missing", line, message);
    }
}

/// Checks for commands without devices that a script for ROCm prints for its users.
fn printed(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let others = ["/dev/kfd", "/dev/dri", "--gpus", "--device", "cuda", "nvidia", "cpu"];
    let name = facts.file.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let is_rocm = name.contains("rocm") || name.contains("amd");
    if !is_rocm || others.iter().any(|text| lower.contains(text)) {
        return;
    }
    for command in facts.commands.iter().filter(|one| one.is_message()) {
        let is_run =
            |text: &str| ["docker run ", "podman run "].iter().any(|run| text.contains(run));
        let other = ["--privileged", "--help", "--runtime", "--entrypoint"];
        let text =
            command.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        if is_run(&text) && !other.iter().any(|option| text.contains(option)) {
            let message = "the printed command starts the container without a GPU";
            let hit = Hit::new("kfd-missing", command.words[0].line, message);
            let help = "add `--device /dev/kfd --device /dev/dri` to it";
            return found.hit(hit.at_most(Severity::Warning).help(help));
        }
    }
}
