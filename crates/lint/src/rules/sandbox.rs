//! Settings of systemd services that hide the GPU or a folder from the program.

use crate::{Facts, Findings, Hit, Kind, Severity};

/// A setting of the unit.
struct Setting<'t> {
    line: usize,
    key: &'t str,
    value: &'t str,
}

/// Words in the commands of programs that use the GPU.
const PROGRAMS: [&str; 8] =
    ["comfy", "koboldcpp", "lemonade", "llama-server", "ollama serve", "rocm", "sglang", "vllm"];

/// Checks the settings of a service.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Unit {
        return;
    }
    let lines = facts.lines().filter(|(_, text)| !facts.kind.is_comment(text));
    let settings = lines.filter_map(|(line, text)| {
        let (key, value) = text.split_once('=')?;
        Some(Setting { line, key: key.trim(), value: value.trim() })
    });
    let settings: Vec<Setting<'_>> = settings.collect();
    devices(facts, &settings, found);
    groups(facts, &settings, found);
    homes(&settings, found);
    folders(&settings, found);
}

/// Returns whether the value of a setting means yes.
fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "yes" | "true" | "on" | "1")
}

/// Checks for settings that hide the devices of the GPU.
fn devices(facts: &Facts<'_>, settings: &[Setting<'_>], found: &mut Findings<'_>) {
    let starts = settings.iter().filter(|one| one.key == "ExecStart");
    let is_program = |one: &Setting<'_>| {
        let lower = one.value.to_ascii_lowercase();
        PROGRAMS.iter().any(|program| lower.contains(program))
    };
    let uses_gpu = starts.into_iter().any(is_program)
        || ["HSA_", "HIP_", "ROCR_"].iter().any(|start| facts.code.contains(start));
    let allowed: Vec<&str> =
        settings.iter().filter(|one| one.key == "DeviceAllow").map(|one| one.value).collect();
    let is_allowed = |name: &str| allowed.iter().any(|value| value.contains(name));
    let has_gpu = is_allowed("char-drm") || is_allowed("/dev/dri/") || is_allowed("/dev/kfd");
    for one in settings.iter().filter(|_| uses_gpu) {
        let path = one.value.split_whitespace().next().unwrap_or_default();
        let message = match one.key {
            "PrivateDevices" if is_on(one.value) => {
                "`PrivateDevices` hides /dev/kfd and /dev/dri from the program".to_owned()
            }
            "DevicePolicy" if matches!(one.value, "closed" | "strict") && !has_gpu => {
                format!("`DevicePolicy={}` denies the devices of the GPU", one.value)
            }
            "DeviceAllow" if matches!(path.trim_end_matches('/'), "/dev/dri" | "/dev") => {
                format!("`{path}` is a folder, and systemd allows only devices")
            }
            _ => continue,
        };
        let hit = Hit::new("unit-hides-gpu", one.line, message);
        found.hit(if one.key == "DeviceAllow" {
            hit.help("write `DeviceAllow=char-drm rw` and `DeviceAllow=/dev/kfd rw`")
        } else {
            hit
        });
    }
}

/// Texts of units whose programs use the GPU.
const GPU: [&str; 10] = [
    " -ngl",
    "--gpu-layers",
    "--n-gpu-layers",
    "/dev/dri",
    "/dev/kfd",
    "ggml_vk_",
    "hip_visible",
    "hsa_",
    "rocm",
    "rocr_",
];

/// Texts with which the groups do not matter, or with which the program uses no AMD GPU.
const OTHER: [&str; 6] = ["-ngl 0", "cuda", "docker", "nvidia", "podman", "@"];

/// Checks for a service whose own user is in no group that can open the GPU.
fn groups(facts: &Facts<'_>, settings: &[Setting<'_>], found: &mut Findings<'_>) {
    let last = |key: &str| settings.iter().rfind(|one| one.key == key);
    let is_dynamic = |one: &&Setting<'_>| is_on(one.value);
    let user = last("User").or_else(|| last("DynamicUser").filter(is_dynamic));
    let Some(user) = user else { return };
    let lower = facts.code.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let has_group = settings.iter().any(|one| {
        one.key == "SupplementaryGroups"
            || one.key == "Group" && matches!(one.value, "render" | "video")
    });
    // People who log in may be in these groups already.
    let is_person = has(&["/home/", "%h", "user=my", "user=ubuntu", "user=user", "user=your"]);
    let is_plain =
        user.value.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte));
    let is_root = user.value == "root";
    // The package of Ollama adds its user to the groups.
    let is_packaged = user.value == "ollama";
    if has(&GPU) && !has(&OTHER) && !has_group && !is_person && is_plain && !is_root && !is_packaged
    {
        let message = format!(
            "with `{}={}`, the service can open the GPU only if this user is in the group `render`",
            user.key, user.value
        );
        let hit = Hit::new("render-group-missing", user.line, message);
        let help = "add `SupplementaryGroups=render video` to the unit";
        found.hit(hit.help(help).at_most(Severity::Information));
    }
}

/// Keys of a service whose values are paths that the program needs.
const PATHS: [&str; 5] =
    ["Environment", "EnvironmentFile", "ExecStart", "ExecStartPre", "WorkingDirectory"];

/// Checks for a home folder that the unit hides and the program needs.
fn homes(settings: &[Setting<'_>], found: &mut Findings<'_>) {
    let hides =
        |one: &&Setting<'_>| one.key == "ProtectHome" && (is_on(one.value) || one.value == "tmpfs");
    let Some(protect) = settings.iter().find(hides) else { return };
    let is_bound = |one: &Setting<'_>| one.key.starts_with("Bind");
    let needs = |one: &&Setting<'_>| {
        let mut words = one.value.split(['=', ' ', '"', ':']);
        let is_path = one.value.starts_with("PATH=") || one.value.starts_with("\"PATH=");
        PATHS.contains(&one.key)
            && !is_path
            && !one.value.starts_with(['+', '!'])
            && words.any(|word| word.starts_with("/home/") || word.starts_with("/root/"))
    };
    let needed = settings.iter().find(needs);
    if let Some(needed) = needed.filter(|_| !settings.iter().any(is_bound)) {
        let message = format!(
            "`ProtectHome={}` hides the home folder that `{}` names",
            protect.value, needed.key
        );
        found.add("unit-hides-folder", protect.line, message);
    }
}

/// Folders that every system has.
const SYSTEM: [&str; 15] = [
    "/boot", "/dev", "/etc", "/home", "/lib", "/mnt", "/opt", "/proc", "/root", "/run", "/srv",
    "/sys", "/tmp", "/usr", "/var",
];

/// Returns whether every system has a folder.
fn is_system(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    SYSTEM.contains(&path) || ["/var/cache", "/var/lib", "/var/log", "/var/tmp"].contains(&path)
}

/// Checks for folders that must exist before the unit starts.
fn folders(settings: &[Setting<'_>], found: &mut Findings<'_>) {
    let creates = |key: &str| key.ends_with("Directory") && key != "WorkingDirectory";
    let is_created = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        settings.iter().any(|one| {
            creates(one.key) && one.value.contains(name)
                || one.key == "ExecStartPre" && one.value.contains("mkdir")
        })
    };
    for one in settings.iter().filter(|one| matches!(one.key, "ReadWritePaths" | "ReadOnlyPaths")) {
        let words = one.value.split_whitespace();
        let mut paths = words.filter(|path| {
            let is_plain = path.starts_with('/') && !path.contains('%');
            is_plain && !is_system(path) && !is_created(path)
        });
        if let Some(path) = paths.next() {
            let message = format!("the unit does not start if `{path}` does not exist");
            let hit = Hit::new("unit-hides-folder", one.line, message);
            let hit = hit.at_most(Severity::Information);
            found.hit(hit.help(format!(
                "write `-{path}`, or let systemd create the folder with `StateDirectory` or `CacheDirectory`"
            )));
        }
    }
}
