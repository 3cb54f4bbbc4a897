//! Disk space that images need, and leftovers of killed builds.

use super::{Context, Finding, Severity, Verdict, gib};
use crate::shell_word;
use crate::storage::Disk;

/// The images fit on the disk of the engine that builds and `run` use.
pub(super) fn space(context: &Context<'_>) -> Verdict {
    let needs =
        context.images.iter().filter_map(|image| Some((image.disk.as_ref()?, &image.track)));
    let Some((need, track)) = needs.max_by_key(|(need, _)| need.gigabytes) else {
        return Verdict::skipped("the space that these tracks need is unknown");
    };
    let Some(engine) = context.machine.selected_engine() else {
        return Verdict::skipped("no engine");
    };
    let is_own = |disk: &&Disk| engine.store.as_ref() == Some(&disk.path);
    let Some(own) = context.machine.disks.iter().find(is_own) else {
        return Verdict::skipped(format!("{} has not stored anything yet", engine.kind));
    };
    let bytes = u64::from(need.gigabytes) * 1_000_000_000;
    let seen = format!("{} free in {}", gib(own.free), own.path);
    if own.free >= bytes {
        return Verdict::fine(seen);
    }
    Finding::new(Severity::Warning, seen, format!("{} for track {track}", gib(bytes)))
        .because("a pull or build that fills the disk fails only at its end", &need.source)
        .repair(format!("{0} system df && {0} image prune", engine.kind))
        .into()
}

/// No image breaks podman's store.
pub(super) fn store(context: &Context<'_>) -> Verdict {
    let findings = context.machine.broken_images.iter().map(|image| {
        let short = image.id.get(..12).unwrap_or(&image.id);
        Finding::new(
            Severity::Error,
            format!("image {short} in {} has no manifest", image.store),
            "every listed image has a manifest",
        )
        .because(
            "`podman images` and every other command that lists images fails; a killed `podman build` can cause this",
            "seen with podman 4.3: 2 of 60 killed builds",
        )
        .repair(format!("podman rmi --force {}", image.id))
    });
    Verdict::of(findings.collect(), || "no broken images".to_owned())
}

/// Killed builds left no copies of their contexts.
pub(super) fn leftovers(context: &Context<'_>) -> Verdict {
    let all = &context.machine.leftovers;
    if all.is_empty() {
        return Verdict::fine("none in /var/tmp");
    }
    let count = match all.len() {
        1 => "1 folder".to_owned(),
        many => format!("{many} folders"),
    };
    let words: Vec<String> = all.iter().map(|path| shell_word(path)).collect();
    Finding::new(
        Severity::Note,
        format!("{count} left by killed builds in /var/tmp; the first is {}", all[0]),
        "no such folders while no build is running",
    )
    .because(
        "each contains a whole build context",
        "seen with podman 4.3: 37 after 280 killed builds",
    )
    // Only while no build is running, because other builds have their contexts there too.
    .repair(format!("pgrep -x 'podman|buildah' || rm -rf -- {}", words.join(" ")))
    .into()
}
