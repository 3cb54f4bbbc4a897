//! Device nodes, groups, engines: may this user, and the user's containers, use the GPU?

use std::collections::BTreeSet;

use names::EngineKind;

use super::system::System;
use super::{Context, Finding, Severity, Verdict, programs};
use crate::access::{DeviceNode, Engine};

/// The nodes that ROCm opens. `card*` is for displays.
fn compute_nodes<'a>(context: &'a Context<'_>) -> impl Iterator<Item = &'a DeviceNode> {
    let is_wanted =
        |node: &&DeviceNode| node.path == "/dev/kfd" || node.path.starts_with("/dev/dri/renderD");
    context.machine.devices.iter().filter(is_wanted)
}

/// The node of the compute driver exists.
pub(super) fn kfd(context: &Context<'_>) -> Verdict {
    node(context, "/dev/kfd", |path| path == "/dev/kfd")
}

/// A render node exists.
pub(super) fn render(context: &Context<'_>) -> Verdict {
    node(context, "/dev/dri/renderD128", |path| path.starts_with("/dev/dri/renderD"))
}

fn node(context: &Context<'_>, name: &str, is_it: impl Fn(&str) -> bool) -> Verdict {
    let has_driver =
        |gpu: &crate::Gpu| gpu.target.is_some() || gpu.driver.as_deref() == Some("amdgpu");
    if !context.machine.gpus.iter().any(has_driver) {
        return Verdict::skipped("no GPU with a driver");
    }
    if let Some(node) = context.machine.devices.iter().find(|node| is_it(&node.path)) {
        return Verdict::fine(format!("{} exists", node.path));
    }
    let finding = Finding::new(
        Severity::Error,
        format!("{name} is missing"),
        format!("the device node {name}"),
    )
    .because(
        "the driver creates it; a container has it only if the engine is told to pass it through",
        "the run options in the documentation of every public ROCm image",
    );
    let finding = match context.machine.container.as_deref() {
        Some("lxc") => finding.repair(format!(
            "# on the host, pass {name} through to the container (Proxmox: `dev0: {name}`)"
        )),
        Some(_) => finding,
        None => finding.repair("sudo modprobe amdgpu && sudo udevadm trigger"),
    };
    finding.repair("# in a container: start it with `--device /dev/kfd --device /dev/dri`").into()
}

/// The group that a container shows for groups of the host that it does not map (`nogroup`).
const UNMAPPED: u32 = 65_534;
/// The file for this tool's udev rules.
const UDEV: &str = "/etc/udev/rules.d/70-amdgpu.rules";

/// Why the user is not allowed to open a node.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    /// The user is not in the group with this ID, which may open it.
    Group(u32),
    /// The node has this mode, which gives the user and the group no access.
    Mode(u32),
}

/// The user may open the nodes.
pub(super) fn open(context: &Context<'_>) -> Verdict {
    let user = &context.machine.user;
    let nodes: Vec<&DeviceNode> = compute_nodes(context).collect();
    if nodes.is_empty() {
        return Verdict::skipped("no device nodes");
    }
    let mut closed: Vec<(Reason, Vec<&str>)> = Vec::new();
    for node in nodes.iter().filter(|node| !node.is_open_to(user)) {
        let is_open_to_group = node.uid != user.uid && node.is_open_to_group();
        let reason = is_open_to_group.then_some(Reason::Group(node.gid));
        let reason = reason.unwrap_or(Reason::Mode(node.mode));
        match closed.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, paths)) => paths.push(&node.path),
            None => closed.push((reason, vec![&node.path])),
        }
    }
    let findings = closed.iter().map(|(reason, paths)| match reason {
        Reason::Group(gid) => not_in_group(context, *gid, paths),
        Reason::Mode(mode) => refused_by_mode(context, *mode, paths),
    });
    let paths: Vec<&str> = nodes.iter().map(|node| node.path.as_str()).collect();
    Verdict::of(findings.collect(), || format!("{} can be opened", paths.join(" and ")))
}

/// Returns the finding about nodes that the user cannot open.
fn closed(seen: String, wanted: &str) -> Finding {
    Finding::new(Severity::Error, seen, wanted).because(
        "without access, ROCm finds no GPU, or stops with `Permission denied`",
        "kyuz0/amd-strix-halo-toolboxes#53",
    )
}

/// Reports nodes whose group may open them, but does not contain the user.
fn not_in_group(context: &Context<'_>, gid: u32, paths: &[&str]) -> Finding {
    let group = context.machine.groups.get(&gid);
    let named =
        group.map_or(format!("the group {gid}"), |name| format!("the group {name} ({gid})"));
    let nodes = paths.join(" and ");
    // The number of a group on the host, which this container does not have.
    let is_foreign = context.machine.container.is_some() && group.is_none();
    let finding = closed(
        format!("{nodes} cannot be opened by {}, who is not in {named}", context.user()),
        match gid {
            UNMAPPED => "the container keeps the groups that the user has on the host",
            0 => "the device belongs to one of the user's groups, such as render",
            _ if is_foreign => "the device belongs to a group of this container, such as render",
            _ => "the user is in that group",
        },
    );
    match group {
        _ if gid == UNMAPPED => finding
            .repair(
                "# start the container with `--group-add keep-groups` (rootless podman with crun)",
            )
            .repair("# or with `--group-add` and the group's ID on the host (docker)"),
        _ if is_foreign || (gid == 0 && context.machine.container.is_some()) => {
            finding.repairs(with_own_group(context, paths))
        }
        Some(name) if gid != 0 && context.machine.user.listed.contains(name) => {
            finding.repair("# the group was added after the last login: log out and in again")
        }
        Some(name) if gid != 0 => finding
            .repair(format!("sudo usermod --append --groups {name} {}", context.user()))
            .repair("# then log out and in again"),
        _ => finding.repairs(with_udev(context)),
    }
}

/// Reports nodes whose mode gives neither the user nor the group access.
fn refused_by_mode(context: &Context<'_>, mode: u32, paths: &[&str]) -> Finding {
    let nodes = paths.join(" and ");
    let finding = closed(
        format!("{nodes} cannot be opened by {}, because the mode is {mode:04o}", context.user()),
        "mode 0660, and a group that contains the user",
    );
    if context.machine.container.is_some() {
        return finding.repair(format!("# on the host, give {nodes} the mode 0660"));
    }
    finding.repairs(with_udev(context))
}

/// Returns the commands that assign the devices to the group render.
fn with_udev(context: &Context<'_>) -> Vec<String> {
    let rule = |subject: &str, tee: &str| {
        format!("echo '{subject}, GROUP=\"render\", MODE=\"0660\"' | sudo {tee} {UDEV}")
    };
    let rules =
        [rule("SUBSYSTEM==\"kfd\"", "tee"), rule("KERNEL==\"renderD*\"", "tee -a")].into_iter();
    let reload = "sudo udevadm control --reload && sudo udevadm trigger".to_owned();
    rules.chain(join_render(context)).chain([reload]).collect()
}

/// Returns the command that adds the user to the group render, unless the user is in it.
fn join_render(context: &Context<'_>) -> Option<String> {
    let Context { machine, .. } = context;
    let mut groups = machine.groups.iter();
    let is_member = groups.any(|(gid, name)| name == "render" && machine.user.gids.contains(gid));
    let join = || format!("sudo usermod --append --groups render {}", context.user());
    (!is_member).then(join)
}

/// Returns the commands that assign the devices in a container to a group of that container, where
/// udev has no effect.
fn with_own_group(context: &Context<'_>, paths: &[&str]) -> Vec<String> {
    let render = context.machine.groups.iter().find(|(_, name)| *name == "render");
    let own = render.map_or("ID".to_owned(), |(gid, _)| gid.to_string());
    let pass_on = paths.iter().enumerate().map(|(at, path)| {
        format!("# on the host, pass {path} through to this container, with the GID of its group render (Proxmox: `dev{at}: {path},gid={own}`)")
    });
    pass_on.chain(join_render(context)).collect()
}

/// The GPU is not open to every user of the machine.
pub(super) fn open_to_all(context: &Context<'_>) -> Verdict {
    let nodes: Vec<&DeviceNode> = compute_nodes(context).collect();
    if nodes.is_empty() {
        return Verdict::skipped("no device nodes");
    }
    let open = || nodes.iter().filter(|node| node.is_open_to_all());
    let paths: Vec<&str> = open().map(|node| node.path.as_str()).collect();
    if paths.is_empty() {
        return Verdict::fine("limited to a group");
    }
    let modes: BTreeSet<String> = open().map(|node| format!("{:04o}", node.mode)).collect();
    let rules: Vec<String> = modes.iter().map(|mode| format!("(kfd|renderD).*{mode}")).collect();
    let modes: Vec<String> = modes.into_iter().collect();
    Finding::new(
        Severity::Note,
        format!("everyone can write to {} (mode {})", paths.join(" and "), modes.join(" and ")),
        "mode 0660 and a group",
    )
    .because(
        "every account and service on the machine can use the GPU and its memory; some distributions choose this",
        "kyuz0/amd-strix-halo-toolboxes#16",
    )
    .repairs(match context.machine.container {
        Some(_) => vec![format!(
            "# on the host, because this is a container: pass {} through with mode 0660 and a group",
            paths.join(" and ")
        )],
        None => vec![format!(
            "grep -rnE '{}' /etc/udev/rules.d /usr/lib/udev/rules.d",
            rules.join("|")
        )],
    })
    .into()
}

/// An engine is installed.
pub(super) fn engine(context: &Context<'_>) -> Verdict {
    let machine = context.machine;
    if let Some(unusable) = &machine.unusable {
        // If the user selected an engine, the others were not tried.
        let was_tried = |engine: &&Engine| match &engine.socket {
            Some(socket) => unusable.why.contains(socket.as_str()),
            None => unusable.release.is_none(),
        };
        let mut dead = machine.engines.iter().filter(was_tried);
        let dead = dead.find(|engine| engine.trouble.is_some());
        let first = dead.map_or_else(Vec::new, |engine| programs::repairs(context, engine));
        let closed = machine.engines.iter().find(|engine| engine.may_connect == Some(false));
        let opened = closed.filter(|_| first.is_empty()).map(|engine| opened(context, engine));
        let release = unusable.release.iter();
        let release = release.map(|how| format!("# to use another engine: {how}")).collect();
        return Finding::new(
            Severity::Error,
            format!("no engine works ({})", unusable.why),
            "an engine that answers",
        )
        .because("builds with Dockerfiles, `run` and `smoke` stop without an engine", "README.md")
        .repairs(first)
        .repairs(opened.unwrap_or_default())
        .repairs(release)
        .repair("# `build-pipeline help environment` lists the variables that select an engine")
        .into();
    }
    if !machine.engines.is_empty() {
        let dead = |engine: &Engine| Some(silent(context, engine, engine.trouble.as_ref()?));
        return Verdict::of(machine.engines.iter().filter_map(dead).collect(), || {
            let all = machine.engines.iter().map(|engine| match engine.may_connect {
                Some(false) => {
                    format!("{}, which {} may not open", describe(engine), context.user())
                }
                _ => describe(engine),
            });
            all.collect::<Vec<_>>().join("; ")
        });
    }
    let needed: Vec<&str> = context
        .images
        .iter()
        .filter(|image| image.needs_engine)
        .map(|image| image.track.as_str())
        .collect();
    let is_needed = context.is_asked && !needed.is_empty();
    let severity = if is_needed { Severity::Error } else { Severity::Note };
    Finding::new(
        severity,
        EngineKind::list("and", |kind| format!("no {kind}")),
        "podman, to run images and to build tracks with Dockerfiles",
    )
    .because("tracks without Dockerfiles are built without an engine", "README.md")
    .repair(context.install("podman crun"))
    .into()
}

/// Reports an engine that does not answer, although another one does.
fn silent(context: &Context<'_>, engine: &Engine, trouble: &str) -> Finding {
    let used = context
        .machine
        .selected_engine()
        .map_or(String::new(), |used| format!("; builds and `run` use {}", describe(used)));
    Finding::new(
        Severity::Note,
        format!("{} does not answer ({trouble}){used}", describe(engine)),
        "an engine that answers",
    )
    .because(format!("`--engine {}` may not find a working engine", engine.kind), "README.md")
    .repairs(programs::repairs(context, engine))
}

fn describe(engine: &Engine) -> String {
    let name = engine.kind.as_str();
    let rootless = if engine.is_rootless { "rootless " } else { "" };
    let version = engine.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    let at = engine.socket.as_ref().map_or(", no socket".to_owned(), |path| format!(" at {path}"));
    let builder = engine.builder.map_or(String::new(), |builder| format!(", builder {builder}"));
    format!("{rootless}{name}{version}{at}{builder}")
}

/// The user can connect to at least one engine.
pub(super) fn socket(context: &Context<'_>) -> Verdict {
    let all = context.machine.engines.iter();
    let engines: Vec<&Engine> = all.filter(|engine| engine.trouble.is_none()).collect();
    let closed = |engine: &&&Engine| engine.may_connect == Some(false);
    if engines.is_empty() || !engines.iter().any(|engine| engine.may_connect.is_some()) {
        return Verdict::skipped("no socket to check");
    }
    let Some(first) = engines.iter().find(closed) else {
        return Verdict::fine("the user can open it");
    };
    let socket = first.socket.as_deref().unwrap_or_default();
    let user = context.user();
    if let Some(used) = context.machine.selected_engine() {
        return Verdict::fine(format!(
            "{socket} cannot be opened by {user}, and is not needed: builds and `run` use {}",
            describe(used)
        ));
    }
    if engines.iter().any(|engine| engine.may_connect == Some(true)) {
        return Verdict::fine("the user can open one");
    }
    Finding::new(
        Severity::Warning,
        format!("{socket} cannot be opened by {user}"),
        "an engine of the user's own",
    )
    .because(
        "write access to docker's socket means root access to the machine, so rootless podman is safer",
        "docker's documentation of post-installation steps",
    )
    .repairs(opened(context, first))
    .into()
}

/// Returns the commands that give the user an engine instead of one that the user may not open.
fn opened(context: &Context<'_>, engine: &Engine) -> Vec<String> {
    let has_podman = context.machine.engines.iter().any(|one| one.kind == EngineKind::Podman);
    let own = if has_podman {
        "systemctl --user enable --now podman.socket".to_owned()
    } else {
        context.install("podman crun")
    };
    let is_docker = engine.kind == EngineKind::Docker;
    let join = is_docker.then(|| {
        format!(
            "# or, with root access to the machine: sudo usermod --append --groups docker {}, then log out and in again",
            context.user()
        )
    });
    [own].into_iter().chain(join).collect()
}

/// Every engine has the important fixes.
pub(super) fn version(context: &Context<'_>) -> Verdict {
    let known: Vec<(&Engine, &str)> = context
        .machine
        .engines
        .iter()
        .filter_map(|engine| Some((engine, engine.version.as_deref()?)))
        .collect();
    if known.is_empty() {
        return Verdict::skipped("no engine reported its version");
    }
    let alone = std::collections::BTreeMap::new();
    let findings = known.iter().flat_map(|(engine, version)| {
        let name = engine.kind.as_str();
        // `+ds1` and similar suffixes come from the distribution.
        let release = version.split(['+', '-', '~']).next().unwrap_or_default();
        context.compat.bad(name, release, &alone).map(move |(_, row)| {
            Finding::new(Severity::Note, format!("{name} {version}"), row.instead.clone())
                .because(row.why.clone(), row.evidence.to_string())
                .repair(context.update(match context.system() {
                    System::Debian => engine.kind.facts().debian_package,
                    _ => name,
                }))
        })
    });
    Verdict::of(findings.collect(), || {
        let all: Vec<String> = known
            .iter()
            .map(|(engine, version)| format!("{} {version}", engine.kind.as_str()))
            .collect();
        all.join("; ")
    })
}

/// Containers run on this machine's kernel, not in a virtual machine without the GPU.
pub(super) fn kernel(context: &Context<'_>) -> Verdict {
    let engines = &context.machine.engines;
    let Some(own) = context.machine.kernel.release.as_deref() else {
        return Verdict::skipped("the kernel of this machine is unknown");
    };
    let is_elsewhere =
        |engine: &Engine| engine.kernel.as_deref().is_some_and(|kernel| kernel != own);
    if engines.iter().all(|engine| engine.kernel.is_none()) {
        return Verdict::skipped("no engine reported its kernel");
    }
    if context.machine.gpus.is_empty() {
        return Verdict::skipped("no AMD GPU");
    }
    let (severity, repair) = match engines.iter().find(|engine| !is_elsewhere(engine)) {
        None => (Severity::Error, context.install("podman crun")),
        Some(here) => (Severity::Warning, here.kind.facts().selected_by.to_owned()),
    };
    let findings = engines.iter().filter(|engine| is_elsewhere(engine)).map(|engine| {
        Finding::new(
            severity,
            format!(
                "containers run on kernel {}, not on this machine's kernel {own}: {}",
                engine.kernel.as_deref().unwrap_or_default(),
                describe(engine)
            ),
            "an engine that runs on this machine itself",
        )
        .because(
            "an engine in a virtual machine, such as Docker Desktop, has no /dev/kfd, so its containers find no GPU; it can still build images",
            "ROCm/container-toolkit#86",
        )
        .repair(repair.clone())
    });
    Verdict::of(findings.collect(), || "the kernel of this machine".to_owned())
}

/// Containers get the groups of the device nodes.
pub(super) fn container_groups(context: &Context<'_>) -> Verdict {
    let mut gids: Vec<u32> = compute_nodes(context).map(|node| node.gid).collect();
    gids.sort_unstable();
    gids.dedup();
    if gids.is_empty() {
        return Verdict::skipped("no device nodes");
    }
    let numbers: Vec<String> = gids.iter().map(|gid| format!("--group-add {gid}")).collect();
    let mut rootless = context.machine.engines.iter().filter(|engine| engine.is_rootless);
    let found = rootless.find_map(|one| Some((one, one.kind.facts().keeps_groups_with?)));
    let Some((engine, keeper)) = found else {
        return if context.machine.engines.is_empty() {
            Verdict::skipped("no engine")
        } else {
            // Group names would be looked up in the container, where they have different IDs or
            // do not exist.
            Verdict::fine(format!("start containers with `{}`", numbers.join(" ")))
        };
    };
    let name = engine.kind.as_str();
    match engine.runtime.as_deref() {
        Some(runtime) if runtime == keeper => Verdict::fine(format!(
            "start containers with `--group-add keep-groups` (rootless {name}, {keeper})"
        )),
        None => Verdict::skipped(format!("{name}'s OCI runtime is unknown")),
        Some(runtime) => Finding::new(
            Severity::Warning,
            format!("rootless {name} with the runtime {runtime}"),
            format!("{keeper}, which can keep the user's groups"),
        )
        .because(
            "without `--group-add keep-groups`, opening /dev/kfd in the container fails with `Permission denied`; a group name is looked up in the image and grants nothing",
            "kyuz0/amd-strix-halo-toolboxes#53; podman-run(1)",
        )
        .repair(context.install(keeper))
        .repair(format!("{name} --runtime {keeper} run --group-add keep-groups --device /dev/kfd --device /dev/dri …"))
        .into(),
    }
}

/// Rootless podman has IDs for the users in containers.
pub(super) fn subids(context: &Context<'_>) -> Verdict {
    let user = &context.machine.user;
    let is_rootless = context.machine.engines.iter().any(|engine| engine.is_rootless);
    if !is_rootless {
        return Verdict::skipped("no rootless engine");
    }
    let lacks_program = context.machine.programs.as_ref().is_some_and(|programs| {
        ["newuidmap", "newgidmap"].iter().any(|name| !programs.installed.contains(*name))
    });
    let rootless = || context.machine.engines.iter().filter(|engine| engine.is_rootless);
    let reported = rootless().filter_map(|engine| engine.user_ids).min();
    match reported {
        Some(1) if user.has_subids && !lacks_program => return outdated(rootless().next()),
        // Files do not show IDs that a directory service assigns.
        Some(count) if count > 1 => {
            return Verdict::fine(format!("containers have {count} user IDs"));
        }
        _ => {}
    }
    if user.has_subids && lacks_program {
        return Verdict::skipped("newuidmap or newgidmap, which assigns them, is not installed");
    }
    if user.has_subids {
        return Verdict::fine("/etc/subuid and /etc/subgid list the user");
    }
    Finding::new(
        Severity::Error,
        format!("/etc/subuid or /etc/subgid has no line for {}", context.user()),
        "65536 IDs in each",
    )
    .because(
        "without these IDs, rootless podman cannot unpack images with files that belong to several users",
        "podman(1), rootless mode",
    )
    .repair(format!(
        "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {}",
        context.user()
    ))
    .repair("podman system migrate")
    .into()
}

/// Reports that a rootless engine still runs with the IDs that it had when it was first started.
fn outdated(engine: Option<&Engine>) -> Verdict {
    let has_service = engine.is_some_and(|engine| engine.socket.is_some());
    let restart = has_service.then_some("systemctl --user try-restart podman.service");
    Finding::new(
        Severity::Error,
        "containers have only one user ID, although /etc/subuid and /etc/subgid list the user",
        "the IDs in these files",
    )
    .because(
        "podman keeps the user IDs of its first start after login; until it reads them again, it cannot unpack images with files that belong to several users",
        "podman-system-migrate(1)",
    )
    .repair("podman system migrate  # stops the user's containers")
    .repairs(restart.map(str::to_owned).into_iter().collect())
    .into()
}

/// SELinux allows containers to use the GPU.
pub(super) fn selinux(context: &Context<'_>) -> Verdict {
    if context.machine.selinux_enforces != Some(true) {
        return Verdict::skipped("SELinux is not enforcing");
    }
    match context.machine.selinux_devices {
        Some(true) => Verdict::fine("container_use_devices is on"),
        None => Verdict::skipped("the boolean container_use_devices cannot be read"),
        Some(false) => Finding::new(
            Severity::Warning,
            "SELinux is enforcing, and container_use_devices is off",
            "container_use_devices is on",
        )
        .because(
            "containers then cannot open /dev/kfd, whatever its permissions",
            "ollama docs/gpu.mdx",
        )
        .repair("sudo setsebool -P container_use_devices=1")
        .into(),
    }
}
