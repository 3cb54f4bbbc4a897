//! Turns library errors into failures: each gets its kind, and hints for what to do next.

use std::error::Error;

use executor::ErrorKind as ExecuteKind;
use names::EngineKind;
use oci::LayoutError;
use oci::client::{ErrorKind as RegistryKind, RegistryError};
use planner::{PlanError, UsedPins};
use sources::{Asked, ErrorKind as SourceKind, Service, SourceError};

use crate::{Failure, Kind, unknown_gpu};

/// Says how to give a stage a source that exists.
fn no_such_source(told: Failure, pin: &str) -> Failure {
    told.hint(format!("name a source or archive pin in `versions/tracks.toml`, or add a table `[source.{pin}]` or `[archive.{pin}]` to `versions/versions.toml`"))
}

/// Says how a track gets a rehearsal.
fn without_rehearsal(told: Failure, track: &str) -> Failure {
    told.hint(format!(
        "add a variant on a small base to `[{track}.variants]`, and `rehearsal = \"NAME\"` with its name to `[{track}]`, in `versions/tracks.toml`"
    ))
    .hint(format!("`build-pipeline plan --track {track}` shows the plan of the real image"))
}

/// Adds hints if `--set` names a pin that the plan does not use: they list the pins that it uses.
fn unused_pin(told: Failure, used: &UsedPins) -> Failure {
    let told = match used.images.as_slice() {
        [] => told.hint(
            "the track uses no image pins, and `--set` changes only images: leave out `--set`",
        ),
        images => {
            let all: Vec<String> = images.iter().map(|name| format!("`--set {name}=…`")).collect();
            told.hint(format!("the track uses other image pins: write {}", all.join(" or ")))
        }
    };
    if used.others.is_empty() {
        return told;
    }
    let others = used.others.join("`, `");
    told.hint(format!("the track's other pins are `{others}`; change them in `versions/`"))
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let told = Self::from_chain(Kind::Input, &error);
        match &error {
            PlanError::NoRehearsal { track } => without_rehearsal(told, track),
            PlanError::UnknownVariant { known, .. } if known.len() == 1 => {
                told.hint(format!("leave out `--variant`; the only variant is `{}`", known.join("")))
            }
            PlanError::UnknownVariant { variant, known, .. } => told.did_you_mean(
                variant,
                known.iter().map(String::as_str),
                format!("its variants are {}", known.join(", ")),
            ),
            PlanError::RehearsedOtherwise { variant, .. } => told.hint(format!(
                "leave out `--variant {variant}`, or leave out `--rehearse` to build the variant"
            )),
            PlanError::NoVariants { .. } => told
                .hint("leave out `--variant`; `versions/tracks.toml` lists the variants of tracks"),
            PlanError::NoSuchFile { path, .. } => {
                told.hint(format!("create `{path}`, or correct the path in `versions/tracks.toml`"))
            }
            PlanError::NoSuchSet { .. } => {
                told.hint("`build-pipeline lock` creates the lock again")
            }
            PlanError::NoLock { track, lock, has_rehearsal } => {
                let told = told.hint(format!(
                    "`build-pipeline lock {lock}` creates it; this needs network access to its package index"
                ));
                let rehearse = format!(
                    "`build-pipeline --track {track} --rehearse` rehearses the track without this lock"
                );
                if *has_rehearsal { told.hint(rehearse) } else { told }
            }
            PlanError::UnresolvedSource { pin, .. } => told.hint(format!(
                "`build-pipeline bump {pin}` looks up its commit or SHA-256 and writes it into `versions/versions.toml`"
            )),
            PlanError::SameStage { stage, .. } => {
                told.hint(format!("rename stage `{stage}` of one of them in `versions/tracks.toml`"))
            }
            PlanError::NoOwnFiles { .. } => told,
            PlanError::NoSettings { track } => {
                told.hint(format!("add a table `[{track}]` to `versions/tracks.toml`"))
            }
            PlanError::NoSuchBase { pin, .. } => {
                told.hint(format!("name an image pin in `versions/tracks.toml`, or add a table `[image.{pin}]` to `versions/versions.toml`"))
            }
            PlanError::NoSuchSource { pin, .. } => no_such_source(told, pin),
            PlanError::Unresolved { pin, image, tag, has_rehearsal } => {
                let by_tag = match tag {
                    Some(tag) => format!(
                        "for this run, `--set {pin}={tag}` looks up the tag's current digest in the registry, and records it"
                    ),
                    None => format!(
                        "for this run, `--set {pin}=TAG` looks up a tag's current digest in the registry, and records it"
                    ),
                };
                let told = told.hint(format!(
                    "`build-pipeline bump {pin}` looks up the digest of `{image}` and writes it into `versions/versions.toml`"
                )).hint(by_tag);
                let rehearse = "`--rehearse` builds on a small stand-in and needs no pin";
                if *has_rehearsal { told.hint(rehearse) } else { told }
            }
            PlanError::UnknownPin { pin, known } => told.did_you_mean(
                pin,
                known.iter().map(String::as_str),
                "`build-pipeline pins show` lists the pins",
            ),
            PlanError::UnusedPin { used, .. } => unused_pin(told, used),
            PlanError::NoPatches { pin, component } => told.hint(format!(
                "add `patches/{component}/ID.toml`; if the pin has no patches, remove `patches` from `{pin}` in `versions/versions.toml`"
            )),
            PlanError::PatchVersion { pin, .. } => told.hint(format!(
                "correct `version` of pin `{pin}` in `versions/versions.toml`"
            )),
            PlanError::PatchRefuses { component, patch, .. } => told.hint(format!(
                "`patches/{component}/{patch}.toml` gives the reason; use another version, or change `applies` there"
            )),
            PlanError::PatchConflict { component, first, .. } => told.hint(format!(
                "narrow `applies` in `patches/{component}/{first}.toml`, or remove one of the two patches"
            )),
            PlanError::Invalid { .. } => {
                Self { kind: Kind::Bug, ..told }.hint("this is a bug in build-pipeline: please report it with the command")
            }
            PlanError::UnknownGpu { gpu, known } => {
                unknown_gpu(gpu, known.iter().map(String::as_str))
            }
            PlanError::UnknownSlimGpu { gpu, known } => told.did_you_mean(
                gpu,
                known.iter().map(String::as_str),
                format!("the file contains {}", known.join(", ")),
            ),
            PlanError::NoSpoof { gpu } => told
                .hint("`--spoof off` builds without a spoof, `--spoof x.y.z` builds with that version")
                .hint(format!("or add `spoof` to `[{gpu}]` in `versions/gpus.toml`")),
            PlanError::NotASpoofTrack { .. } => {
                told.hint("leave out `--spoof`, or build a track that has `spoof = true` in versions/tracks.toml")
            }
            PlanError::Epoch(_) => told.hint("the value is in seconds since 1970-01-01 UTC"),
        }
    }
}

impl From<&executor::ExecuteError> for Failure {
    fn from(error: &executor::ExecuteError) -> Self {
        let kind = match error.kind() {
            ExecuteKind::Registry(kind) => registry_kind(kind),
            ExecuteKind::Integrity => Kind::Integrity,
            ExecuteKind::Base => Kind::Failed,
            ExecuteKind::Disk { .. } => Kind::Machine,
            ExecuteKind::Target => Kind::Input,
            ExecuteKind::Busy => Kind::Busy,
            ExecuteKind::Plan => Kind::Bug,
            ExecuteKind::Source(kind) | ExecuteKind::Package(kind) => source_kind(kind),
            ExecuteKind::Patch => Kind::Patch,
            ExecuteKind::Changed => Kind::Bug,
            ExecuteKind::Engine => Kind::Machine,
            ExecuteKind::Build
            | ExecuteKind::Capture
            | ExecuteKind::GpuCode
            | ExecuteKind::Slim => Kind::Failed,
            ExecuteKind::Dockerfile => Kind::Input,
            ExecuteKind::Packages => Kind::Network,
            ExecuteKind::Lock => Kind::Integrity,
            ExecuteKind::StoreDiffers => Kind::Differs,
        };
        let mut told = Self::from_chain(kind, error);
        if let Some(failure) = error.run_failure() {
            told.log = failure.log.clone();
        }
        match error.kind() {
            ExecuteKind::Registry(_) => match cause_of::<RegistryError>(error) {
                Some(error) => registry_hints(told, error),
                None => told,
            },
            ExecuteKind::Integrity => wrong_content(told, cause_of::<RegistryError>(error)),
            ExecuteKind::Base => told.hint("pin an image for linux/amd64 that has an OCI or Docker schema 2 manifest"),
            ExecuteKind::Disk { full: true } if error.is_engines_disk() => told.hint("free some space where the engine keeps its images, or in the cache, if the message names a folder there; `XDG_CACHE_HOME`, or `cache` in config.toml, selects another cache"),
            ExecuteKind::Disk { full: true } => told.hint("free some space, or choose another location; existing output was not changed"),
            ExecuteKind::Disk { full: false } => told.hint("check the folder's permissions, or choose another location"),
            ExecuteKind::Target => told.hint(match cause_of::<LayoutError>(error) {
                Some(LayoutError::NotAnImage { .. } | LayoutError::Several { .. } | LayoutError::OtherArchive { .. }) => {
                    "choose another location, or remove what is there if you no longer need it"
                }
                _ => "specify a new or empty folder or file, or one that build-pipeline wrote",
            }),
            ExecuteKind::Busy => told.hint("wait for that run, stop it, or choose another location"),
            ExecuteKind::Source(_) => match cause_of::<SourceError>(error) {
                Some(error) => source_hints(told, error),
                None => told,
            },
            ExecuteKind::Package(_) => match cause_of::<SourceError>(error) {
                Some(error) => package_hints(told, error),
                None => told,
            },
            ExecuteKind::Patch => told.hint("`build-pipeline patch check COMPONENT` shows where and why; no RUN used this source"),
            ExecuteKind::Changed => told.hint("run the command again; if nobody changed the file in the meantime, this is a bug in build-pipeline: please report it with the plan (`build-pipeline plan --format json`)"),
            ExecuteKind::Engine => match error.lost_engine() {
                Some(reason) => lost_engine(told, reason),
                None => engine_hints(told),
            },
            ExecuteKind::Build if error.lacks_user_ids() => {
                told.hint("`build-pipeline doctor` checks the user IDs of rootless engines")
            }
            ExecuteKind::Build => failed_run(without_network(told), error),
            ExecuteKind::Dockerfile => told.hint("nothing was fetched or built; all engines must build the same image from a Dockerfile"),
            ExecuteKind::Capture => told.hint("this is a bug in build-pipeline or in the engine: please report it with the engine's version"),
            ExecuteKind::GpuCode => told
                .hint("check that the Dockerfiles build for the GPU in the build argument GPU_TARGET, and that the lock's wheels contain code for it")
                .hint("`gpu-code` in versions/tracks.toml turns this check on and off; nothing was written to the outputs"),
            ExecuteKind::Slim => told.hint(
                "`--slim=off` builds the image with all its code; `--slim=GFX,GFX` keeps the code for these GPUs too",
            ),
            ExecuteKind::Packages => lacking_mirror(told, error)
                .hint("mirrors delete old packages: `build-pipeline lock NAME` looks up newer ones, and `old-packages` in config.toml names locations that keep old ones")
                .hint(DEBIAN_MIRROR),
            ExecuteKind::Lock => told.hint("`build-pipeline lock` looks the packages up again"),
            ExecuteKind::StoreDiffers => told
                .hint("one of the two builds is wrong: the step is not reproducible, or somebody changed the store")
                .hint("`--fresh` without `--store` builds the step here; do not use the store until you know which result is right"),
            ExecuteKind::Plan => told.hint("this is a bug in build-pipeline: please report it with the plan (`build-pipeline plan --format json`)"),
        }
    }
}

/// Adds hints for a Dockerfile that failed. If it was a RUN, they say how to look at the state
/// before it.
fn failed_run(told: Failure, error: &executor::ExecuteError) -> Failure {
    if error.run_failure().is_none() {
        return told;
    }
    let told =
        told.hint("the lines above are the end of the build's log; finished steps are cached");
    match error.kept_run() {
        Some(Ok(command)) => {
            told.hint(format!("`{command}` starts a shell in the state before the failed RUN"))
        }
        Some(Err(reason)) => told.hint(format!("the state before the RUN was not kept: {reason}")),
        None => told.hint("`--keep-failed` keeps the state before the RUN as an image, and shows how to get a shell in it"),
    }
}

/// Adds a hint if the log of a RUN shows that it looked for a network.
fn without_network(told: Failure) -> Failure {
    // apt; apt and pip; curl and git; glibc; Go.
    const SIGNS: [&str; 5] = [
        "Unable to locate package",
        "Temporary failure",
        "Could not resolve",
        "Network is unreachable",
        "no such host",
    ];
    let is_sign = |line: &String| SIGNS.iter().any(|sign| line.contains(sign));
    if !told.log.iter().any(is_sign) {
        return told;
    }
    told.hint("a RUN has no network unless its stage has `network = true`; \"Stages\" in TUTORIAL.md shows how a stage gets locked packages and sources")
}

/// Adds hints for a Debian package that cannot be fetched.
fn package_hints(told: Failure, error: &SourceError) -> Failure {
    let told = source_hints(told, error);
    let is_elsewhere =
        error.mirror().is_some() || matches!(error.kind(), SourceKind::NoMirror | SourceKind::Disk);
    if is_elsewhere { told } else { told.hint(DEBIAN_MIRROR) }
}

/// Names the mirror that does not have a Debian package.
fn lacking_mirror(told: Failure, error: &(dyn Error + 'static)) -> Failure {
    match cause_of::<SourceError>(error).and_then(SourceError::mirror) {
        Some(mirror) => mirror_hints(told, SourceKind::NotFound, mirror),
        None => told,
    }
}

/// Where Debian packages come from, and how to change that.
pub const DEBIAN_MIRROR: &str = "packages come from the mirrors in `/etc/apt`, or from https://deb.debian.org if it names none; `--mirror https://deb.debian.org=URL` selects another mirror";

/// Adds hints for a machine on which no engine can build.
pub fn engine_hints(told: Failure) -> Failure {
    let engines = EngineKind::list("or", |kind| kind.to_string());
    told.hint(format!(
        "{engines} is required: `build-pipeline doctor` checks them, `--engine` selects one"
    ))
    .hint("tracks without Dockerfiles need no engine; `build-pipeline` without arguments lists all tracks")
}

/// Adds hints for a build during which the engine stopped. `reason` contains the last output of a
/// podman that this tool started.
fn lost_engine(told: Failure, reason: &str) -> Failure {
    let told = if !reason.contains("podman printed") {
        told.hint("the engine stopped during the build, or somebody restarted it: start it again if it does not run, then run the command again")
    } else if reason.contains("Killed") {
        told.hint("something killed podman, perhaps because memory ran out (`sudo dmesg | grep -i 'out of memory'` shows it); run the command again")
    } else {
        told.hint(
            "podman, which this tool had started, stopped during the build; run the command again",
        )
    };
    told.hint("`build-pipeline clean` removes what the build left in the engine")
}

/// Returns the kind of a registry error.
pub fn registry_kind(kind: RegistryKind) -> Kind {
    match kind {
        RegistryKind::Authentication | RegistryKind::Denied => Kind::Authentication,
        RegistryKind::Integrity => Kind::Integrity,
        RegistryKind::NoMirror => Kind::Input,
        _ => Kind::Network,
    }
}

/// Returns the first error of type `E` among `error` and its causes.
fn cause_of<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    match error.downcast_ref() {
        Some(found) => Some(found),
        None => cause_of(error.source()?),
    }
}

/// Adds hints for a registry error. They refer to the location (mirror or registry) that best
/// explains the failure.
pub fn registry_hints(told: Failure, error: &RegistryError) -> Failure {
    let host = error.host();
    let who = if error.is_at_mirror() { "mirror" } else { "registry" };
    let copy = error.missing_copy();
    let is_copy_missing = copy.is_some();
    let told = match copy {
        Some((image, copy)) => told.hint(format!(
            "the mirror has no copy of the image: on a machine that can reach both registries, add one with `skopeo copy --all docker://{image} docker://{copy}`"
        )),
        None => told,
    };
    match error.kind() {
        RegistryKind::NotFound if is_copy_missing => told,
        RegistryKind::NotFound if error.is_at_mirror() => told.hint(format!(
            "mirror `{host}` is incomplete: copy the whole image to it, for example with `skopeo copy --all`"
        )),
        RegistryKind::NotFound => missing_image(told, host),
        RegistryKind::Authentication => told.hint(format!(
            "log in with `podman login {host}` or `docker login {host}`; the tool uses their credentials"
        )),
        RegistryKind::Denied => told.hint(format!(
            "{who} `{host}` denies access: check the repository's name and the account's permissions, or log in with another account (`podman login {host}`)"
        )),
        RegistryKind::RateLimited { .. } => told.hint(format!(
            "{who} `{host}` limits the request rate: log in (`podman login {host}`) for a higher limit, wait, or read from a copy with `--mirror FROM=TO`"
        )),
        RegistryKind::Unreachable | RegistryKind::Timeout if error.has_delivered() => told.hint(format!(
            "{who} `{host}` delivered a part and then failed; run the command again: it continues with what arrived, unless the disk had no room to keep it"
        )),
        RegistryKind::Unreachable | RegistryKind::Timeout if error.is_of_push() => told.hint(format!(
            "check the network, the proxy (`HTTPS_PROXY`, or `[proxy]` in config.toml), and the spelling of `{host}`"
        )),
        RegistryKind::Unreachable | RegistryKind::Timeout => told
            .hint(format!("check the network, the proxy (`HTTPS_PROXY`, or `[proxy]` in config.toml), and the spelling of `{host}`; `--mirror FROM=TO` reads from a registry that you can reach")),
        RegistryKind::Tls => told.hint("set `SSL_CERT_FILE` to use your company's certificate authority"),
        RegistryKind::Refused => told.hint("this is a rule of build-pipeline or of your registries.conf, not a network problem"),
        RegistryKind::Integrity => wrong_content(told, Some(error)),
        RegistryKind::Registry => told.hint(format!("{who} `{host}` is at fault; try again later")),
        RegistryKind::Protocol | RegistryKind::TooLarge => told.hint(format!(
            "check that `{host}` is the address of a registry, and that no login page or proxy intercepts it"
        )),
        RegistryKind::NoMirror if error.was_asked() => redirected_hint(told),
        RegistryKind::NoMirror => told
            .hint(format!(
                "set a mirror with `--mirror {host}=HOST`; `--mirror {host}={host}` allows the registry itself"
            ))
            .hint(MIRROR_ONLY),
    }
}

/// Adds hints for content with a wrong digest. `error` is the cause, if a registry sent the content
/// or reported the digest.
fn wrong_content(told: Failure, error: Option<&RegistryError>) -> Failure {
    match error {
        Some(error) if error.is_push() => told.hint(format!(
            "registry `{}` stored something else than what it was sent: do not use the image there; check the registry, and any proxy in front of it, and push again",
            error.host()
        )),
        _ => told.hint("the content was not used; if the registry is a mirror, check what it serves"),
    }
}

/// Adds hints for an image that the registry `host` does not have.
pub fn missing_image(told: Failure, host: &str) -> Failure {
    told.hint("check the spelling of the image's name, tag or digest").hint(format!(
        "if the image was deleted and you have a copy, `--mirror {host}=HOST` reads from there"
    ))
}

/// The reason why a host without a mirror must not be contacted.
pub const MIRROR_ONLY: &str = "`--mirror-only`, `BUILD_PIPELINE_MIRROR_ONLY` or `mirror-only` in `~/.config/build-pipeline/config.toml` forbids all hosts without a mirror rule";

/// Adds hints for a source server without a mirror, when only mirrors may be contacted.
pub fn no_mirror_hint(told: Failure, server: &str) -> Failure {
    // FROM is written separately, because a port before `=` looks like a password.
    told.hint(format!(
        "set a mirror with `--mirror FROM=URL`, where FROM is `{server}`; `--mirror FROM=FROM` allows the server itself"
    ))
    .hint(MIRROR_ONLY)
}

/// Adds the hint for a mirror that redirects to a host that must not be contacted.
fn redirected_hint(told: Failure) -> Failure {
    told.hint("the mirror redirected the request to that host; `--mirror HOST=HOST` allows it")
        .hint(MIRROR_ONLY)
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        source_hints(Self::from_chain(source_kind(error.kind()), &error), &error)
    }
}

/// Returns the kind of a source that cannot be fetched.
fn source_kind(kind: SourceKind) -> Kind {
    match kind {
        SourceKind::NotFound
        | SourceKind::Unreachable
        | SourceKind::Timeout
        | SourceKind::Tls
        | SourceKind::RateLimited
        | SourceKind::Server
        | SourceKind::Content
        | SourceKind::Tool => Kind::Network,
        SourceKind::Authentication | SourceKind::Proxy => Kind::Authentication,
        SourceKind::Integrity => Kind::Integrity,
        SourceKind::Moved => Kind::OutOfDate,
        SourceKind::Refused | SourceKind::NoMirror => Kind::Input,
        SourceKind::Disk => Kind::Machine,
    }
}

/// The hint for a proxy that requires credentials.
const PROXY: &str = "the proxy, not the server, requires credentials: write them into its URL (`HTTPS_PROXY`, or `[proxy]` in config.toml)";

/// Adds hints for a source that cannot be fetched.
fn source_hints(told: Failure, error: &SourceError) -> Failure {
    match (error.kind(), error.mirror(), error.asked()) {
        (SourceKind::Disk, ..) => told.hint(
            "check its space and permissions; `XDG_CACHE_HOME`, or `cache` in config.toml, selects another cache",
        ),
        (SourceKind::NoMirror, ..) => match error.without_mirror() {
            Some(place) => no_mirror_hint(told, place),
            None => redirected_hint(told),
        },
        (SourceKind::Proxy, ..) => told.hint(PROXY),
        (SourceKind::Tls, ..) => {
            told.hint("set `SSL_CERT_FILE` to use your company's certificate authority")
        }
        (SourceKind::Refused, ..) => told,
        (kind, Some(mirror), _) => mirror_hints(told, kind, mirror),
        (kind, None, Some(server)) => server_hints(told, kind, server),
        (SourceKind::Integrity, None, None) => told.hint(
            "the content was not used; if it comes from a mirror, check what the mirror serves",
        ),
        (_, None, None) => told,
    }
}

/// Sets the kind of a failure of another program, such as apt, and adds hints for the server or
/// mirror that the program used.
pub fn at_server(told: Failure, kind: SourceKind, asked: &Asked) -> Failure {
    let told = Failure { kind: source_kind(kind), ..told };
    if asked.is_mirror { mirror_hints(told, kind, asked) } else { server_hints(told, kind, asked) }
}

/// Adds hints for a source that a mirror did not serve.
fn mirror_hints(told: Failure, kind: SourceKind, mirror: &Asked) -> Failure {
    let (host, url) = (mirror.host(), &mirror.url);
    match kind {
        SourceKind::Authentication => told.hint(format!(
            "mirror `{host}` requires credentials or denies access, and sources are read without credentials: make `{url}` readable without a login, or name another mirror with `--mirror FROM=URL`"
        )),
        SourceKind::NotFound => told.hint(format!(
            "mirror `{host}` does not have it: copy it to `{url}`, or name another mirror with `--mirror FROM=URL`"
        )),
        SourceKind::RateLimited => told.hint(format!(
            "mirror `{host}` limits the request rate: wait, or name another mirror with `--mirror FROM=URL`"
        )),
        SourceKind::Server => told.hint(format!("mirror `{host}` is at fault; try again later")),
        SourceKind::Proxy => told.hint(PROXY),
        SourceKind::Integrity => told.hint(format!(
            "the content was not used: check what mirror `{host}` serves at `{url}`, and that no login page or proxy intercepts it"
        )),
        SourceKind::Moved => told.hint(format!(
            "mirror `{host}` is out of date, or upstream moved the name; decide which commit you want, and pin it"
        )),
        SourceKind::Unreachable | SourceKind::Timeout => told.hint(format!(
            "check that mirror `{host}` is running, and check the network and the proxy (`HTTPS_PROXY`, or `[proxy]` in config.toml); `--mirror FROM=URL` names another mirror"
        )),
        _ => told.hint(format!(
            "check that {} at mirror `{host}`, and that no login page or proxy intercepts it",
            is_service(mirror)
        )),
    }
}

/// Adds hints for a source that its own server did not serve.
fn server_hints(told: Failure, kind: SourceKind, server: &Asked) -> Failure {
    let host = server.host();
    match kind {
        SourceKind::Unreachable | SourceKind::Timeout => {
            told.hint(format!(
                "check the network and the proxy (`HTTPS_PROXY`, or `[proxy]` in config.toml); {} reads from a server that you can reach",
                rule(server)
            ))
        }
        SourceKind::Proxy => told.hint(PROXY),
        SourceKind::NotFound => told.hint("upstream may have deleted or rewritten it; if you have a copy, `--mirror FROM=TO` reads from there"),
        SourceKind::Authentication => told.hint("only public sources can be fetched; `--mirror FROM=TO` reads from a copy"),
        SourceKind::RateLimited => told.hint(format!(
            "`{host}` limits the request rate: wait, or read from a copy with {}",
            rule(server)
        )),
        SourceKind::Server => told.hint(format!("`{host}` is at fault; try again later")),
        SourceKind::Integrity => told.hint(format!(
            "the content was not used: check what `{host}` serves, and that no login page or proxy intercepts it"
        )),
        SourceKind::Moved => told.hint("upstream moved the name to another commit; decide which commit you want, and pin it"),
        _ => told.hint(format!(
            "check that {}, and that no login page or proxy intercepts it",
            is_service(server)
        )),
    }
}

/// Returns a clause that says what the URL should be the address of.
fn is_service(asked: &Asked) -> String {
    let what = match asked.service {
        Service::Git => "a git repository",
        Service::Index => "a project on a package index",
        Service::Debian => "an archive of Debian packages",
        Service::File => "a file",
    };
    format!("`{}` is the address of {what}", asked.url)
}

/// Returns the option that names a mirror for a server.
fn rule(server: &Asked) -> String {
    // A port before `=` looks like a password.
    match server.url.url().port() {
        None => format!("`--mirror {}=URL`", server.url.server()),
        Some(_) => format!("`--mirror FROM=URL`, where FROM is `{}`,", server.url.server()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_looks_for_a_network_is_told_that_it_has_none() {
        let hints = |line: &str| {
            let failure = Failure::new(Kind::Failed, "a RUN failed");
            without_network(Failure { log: vec![line.to_owned()], ..failure }).hints
        };
        for line in [
            "E: Unable to locate package jq",
            "Temporary failure resolving 'deb.example.org'",
            "curl: (6) Could not resolve host: example.org",
            "dial tcp: lookup example.org: no such host",
        ] {
            assert_eq!(hints(line).len(), 1, "{line}");
        }
        assert!(hints("make: *** [Makefile:3: all] Error 1").is_empty());
    }

    #[test]
    fn a_git_server_that_does_not_answer_is_no_matter_of_patches() {
        let url = "https://git.example.org/x".parse().unwrap();
        let asked = Asked { url, is_mirror: false, service: Service::Git };
        let told = Failure::new(Kind::Network, "cannot fetch");
        let hints = server_hints(told, SourceKind::Unreachable, &asked).hints.join("\n");
        assert!(hints.contains("check the network") && !hints.contains("patch"), "{hints}");
    }

    /// A podman that this tool started is started again by the next run.
    #[test]
    fn the_hints_about_a_lost_engine_depend_on_who_started_it_and_what_it_printed() {
        for (reason, wanted) in [
            ("eof; podman printed: Killed", "something killed podman"),
            ("eof; podman printed: sh: line 90: 7 Killed  podman", "something killed podman"),
            ("eof; podman printed: panic: x", "which this tool had started"),
            ("eof", "start it again"),
        ] {
            let hints = lost_engine(Failure::new(Kind::Machine, "lost"), reason).hints;
            assert!(hints[0].contains(wanted), "{reason}: {hints:?}");
            assert!(hints.iter().all(|hint| !hint.contains("required")), "{hints:?}");
            assert!(hints[1].contains("`build-pipeline clean`"), "{hints:?}");
        }
    }
}
