//! The programs that podman starts. Some distributions only recommend their packages, so podman can
//! be installed without them.

use std::collections::BTreeSet;

use names::EngineKind;

use super::system::System;
use super::{Context, Finding, Severity, Verdict};
use crate::access::Engine;

/// A program that is missing.
struct Missing {
    severity: Severity,
    /// What is missing.
    what: &'static str,
    package: String,
    /// What goes wrong without it.
    why: &'static str,
    source: &'static str,
}

/// Podman has the programs that it starts.
pub(super) fn installed(context: &Context<'_>) -> Verdict {
    let machine = context.machine;
    let Some(programs) = &machine.programs else {
        return Verdict::skipped("unknown which programs are installed");
    };
    let is_podman =
        |engine: &&Engine| engine.kind == EngineKind::Podman && engine.may_connect != Some(false);
    let podmans: Vec<&Engine> = machine.engines.iter().filter(is_podman).collect();
    if podmans.is_empty() {
        return Verdict::skipped("no podman");
    }
    let missing: Vec<Missing> = [
        mapping(context, &programs.installed, &podmans),
        runtime(&programs.installed, &podmans),
        network(&programs.installed, &podmans),
        firewall(programs, &podmans),
    ]
    .into_iter()
    .flatten()
    .collect();
    let findings = missing.into_iter().map(|one| {
        Finding::new(
            one.severity,
            format!("{} is not installed", one.what),
            format!("the package {}", one.package),
        )
        .because(one.why, one.source)
        .repair(context.install(&one.package))
    });
    Verdict::of(findings.collect(), || "podman has the programs that it starts".to_owned())
}

/// Rootless podman cannot start without the programs that assign user IDs.
fn mapping(
    context: &Context<'_>,
    installed: &BTreeSet<String>,
    podmans: &[&Engine],
) -> Option<Missing> {
    let what = ["newuidmap", "newgidmap"].into_iter().find(|name| !installed.contains(*name))?;
    podmans.iter().any(|engine| engine.is_rootless).then(|| Missing {
        severity: Severity::Error,
        what,
        package: mapping_package(context).to_owned(),
        why: "without it, rootless podman does not start for a user with lines in /etc/subuid, and has only one user ID otherwise",
        source: "podman(1), rootless mode",
    })
}

/// Returns the package that contains `newuidmap`.
fn mapping_package(context: &Context<'_>) -> &'static str {
    match context.system() {
        System::Debian => "uidmap",
        System::Fedora | System::RedHat | System::Atomic => "shadow-utils",
        _ => "shadow",
    }
}

/// Something must start the containers: what podman's configuration selects, otherwise crun or runc.
fn runtime(installed: &BTreeSet<String>, podmans: &[&Engine]) -> Option<Missing> {
    let known = ["crun", "runc"];
    let missing = podmans.iter().find_map(|engine| match engine.runtime.as_deref() {
        None => Some("crun"),
        Some(runtime) => {
            known.into_iter().find(|name| *name == runtime && !installed.contains(*name))
        }
    })?;
    Some(Missing {
        severity: Severity::Error,
        what: missing,
        package: missing.to_owned(),
        why: "podman cannot start a container without an OCI runtime, not even for a build",
        source: "containers.conf(5)",
    })
}

/// Containers of rootless podman get their network from pasta, before podman 5 from slirp4netns.
fn network(installed: &BTreeSet<String>, podmans: &[&Engine]) -> Option<Missing> {
    let has_one = ["pasta", "slirp4netns"].iter().any(|name| installed.contains(*name));
    let is_rootless = podmans.iter().any(|engine| engine.is_rootless);
    (is_rootless && !has_one).then(|| Missing {
        severity: Severity::Warning,
        what: "pasta",
        package: "passt".to_owned(),
        why: "rootless podman cannot start containers that have a network, for example for `run`",
        source: "podman-run(1), --network",
    })
}

/// Netavark, which sets up networks for podman as root, writes rules with nft since podman 5.
fn firewall(programs: &crate::Programs, podmans: &[&Engine]) -> Option<Missing> {
    let needs_it = |engine: &&Engine| {
        let major = engine.version.as_deref().and_then(|text| text.split('.').next());
        !engine.is_rootless && major.and_then(|major| major.parse::<u32>().ok()) >= Some(5)
    };
    let is_usual = programs.firewall.as_deref().is_none_or(|driver| driver == "nftables");
    let installed = &programs.installed;
    (is_usual
        && installed.contains("netavark")
        && !installed.contains("nft")
        && podmans.iter().any(needs_it))
    .then(|| Missing {
        severity: Severity::Warning,
        what: "nft",
        package: "nftables".to_owned(),
        why: "containers of podman as root that have a network, for example for `run`, stop with `netavark: unable to execute nft`",
        source: "netavark-firewall(7)",
    })
}

/// Returns the commands that make an engine work that does not answer.
pub(super) fn repairs(context: &Context<'_>, engine: &Engine) -> Vec<String> {
    let trouble = engine.trouble.as_deref().unwrap_or_default();
    if let Some(package) = lacking(context, trouble) {
        return vec![context.install(&package)];
    }
    let kind = engine.kind;
    if trouble.to_lowercase().contains("read-only file system") {
        return vec![format!(
            "# {kind} and build-pipeline write below the home folder: make it writable, or set HOME to a folder that is"
        )];
    }
    let units = format!("{kind}.socket {kind}.service");
    vec![match (&engine.socket, engine.is_rootless) {
        // No service of systemd is involved.
        (None, _) => format!("{kind} info  # must work first; {kind}'s message names the cause"),
        (Some(_), true) => format!("systemctl --user restart {units}"),
        (Some(_), false) => format!("sudo systemctl restart {units}"),
    }]
}

/// Returns the package that podman lacks, according to its message.
fn lacking(context: &Context<'_>, trouble: &str) -> Option<String> {
    let says = |words: &[&str]| words.iter().all(|word| trouble.contains(word));
    let runtime = trouble.split_once("OCI runtime \"").and_then(|(_, rest)| rest.split_once('"'));
    if let Some((name, rest)) = runtime
        && rest.trim_start().starts_with("not found")
    {
        return Some(name.to_owned());
    }
    if says(&["newuidmap", "not found"]) || says(&["newgidmap", "not found"]) {
        return Some(mapping_package(context).to_owned());
    }
    let found = [
        ("netavark", "netavark"),
        ("conmon", "conmon"),
        ("pasta", "passt"),
        ("slirp4netns", "slirp4netns"),
    ];
    let (_, package) = found.into_iter().find(|(name, _)| {
        says(&["could not find", name]) || says(&[name, "executable file not found"])
    })?;
    Some(package.to_owned())
}
