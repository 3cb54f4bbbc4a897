//! Disk space that images need, and leftovers of killed builds.

use super::{Context, Finding, Severity, Verdict, gib};
use crate::storage::{Disk, LEFTOVERS};

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
    let is_image = |path: &&String| IMAGES.iter().any(|start| path.starts_with(start));
    let images = all.iter().filter(is_image).count();
    let why = match (images, all.len() - images) {
        (0, _) => "each contains the context of a build",
        (_, 0) => "each contains layers of an image that was being stored",
        _ => {
            "those of buildah and libpod contain the contexts of builds, the others layers of images that were being stored"
        }
    };
    Finding::new(
        Severity::Note,
        format!(
            "{count} older than a day in /var/tmp, left by podman or buildah; the first is {}",
            all[0]
        ),
        "no such folders while no build is running",
    )
    .because(why, "seen with podman 4.3: 37 after 280 killed builds")
    .repair(removal(all))
    .into()
}

/// The beginnings of the folders that contain layers; the others contain contexts.
const IMAGES: [&str; 2] = ["/var/tmp/container_images_", "/var/tmp/storage"];

/// Returns the command that removes leftovers, unless an engine is running, because other builds
/// have their contexts there too. It selects the folders by the same conditions as the rule.
fn removal(all: &[String]) -> String {
    let is_there =
        |start: &&&str| all.iter().any(|path| path.starts_with(&format!("/var/tmp/{start}")));
    let names: Vec<String> =
        LEFTOVERS.iter().filter(is_there).map(|start| format!("-name '{start}*'")).collect();
    format!(
        "pgrep -x 'podman|buildah' || find /var/tmp -maxdepth 1 -type d -user \"$USER\" -mtime +0 \\( {} \\) -exec rm -rf -- {{}} +",
        names.join(" -o ")
    )
}
