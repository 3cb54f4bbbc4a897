//! Errors as people see them: what went wrong, why, and what to do next.
//!
//! Library errors know nothing of flags and commands; hints are written here and only here.

use std::error::Error;

use executor::ErrorKind as ExecuteKind;
use oci::client::ErrorKind as RegistryKind;
use planner::{PlanError, UsedPins};

use crate::exit_code::ExitCode;

/// An error that ends the program.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) code: ExitCode,
    pub(crate) message: Message,
    /// What each is caused by, outermost first.
    pub(crate) causes: Vec<String>,
    /// The last lines of what failed, where it said something.
    pub(crate) log: Vec<String>,
    /// What to do next, each naming a command or a file.
    pub(crate) hints: Vec<String>,
}

/// How the first line of an error is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// In one line.
    Line(String),
    /// As marked places in data files; the text of each file comes along.
    Places(Vec<(pins::ParseError, String)>),
    /// It was told already, only the exit code is left.
    Told,
}

impl CommandError {
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Message::Line(message.into()),
            causes: Vec::new(),
            log: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Makes an error of `message` and all that `source` was caused by.
    pub(crate) fn caused(code: ExitCode, message: impl Into<String>, source: &dyn Error) -> Self {
        Self { causes: chain(source), ..Self::new(code, message) }
    }

    /// Makes an error of an error and all that it was caused by.
    pub(crate) fn from_chain(code: ExitCode, error: &dyn Error) -> Self {
        let mut all = chain(error).into_iter();
        let first = all.next().unwrap_or_default();
        Self { causes: all.collect(), ..Self::new(code, first) }
    }

    pub(crate) fn told(code: ExitCode) -> Self {
        Self { message: Message::Told, ..Self::new(code, "") }
    }

    pub(crate) fn places(error: pins::ParseError, text: String) -> Self {
        Self::all_places(vec![(error, text)])
    }

    /// Makes an error of what is wrong with several data files.
    pub(crate) fn all_places(files: Vec<(pins::ParseError, String)>) -> Self {
        Self { message: Message::Places(files), ..Self::new(ExitCode::Input, "") }
    }

    /// Adds what it was caused by.
    pub(crate) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says which of several things went wrong.
    pub(crate) fn within(mut self, what: &str) -> Self {
        if let Message::Line(line) = &mut self.message {
            *line = format!("{what}: {line}");
        }
        self
    }

    /// Returns the lines that a record keeps: the message and its causes. Who writes them hides
    /// secrets.
    pub(crate) fn lines(&self) -> Vec<String> {
        let first = match &self.message {
            Message::Line(line) => line.clone(),
            Message::Places(files) => {
                files.iter().map(|(error, _)| error.to_string()).collect::<Vec<_>>().join("\n")
            }
            Message::Told => String::new(),
        };
        [first].into_iter().chain(self.causes.iter().cloned()).collect()
    }
}

/// Says which pins a plan uses instead of the one that was named.
fn unused_pin(told: CommandError, used: &UsedPins) -> CommandError {
    let told = match used.images.as_slice() {
        [] => {
            told.hint("no image is among its pins, and `--set` changes images only: leave it out")
        }
        images => {
            let all: Vec<String> = images.iter().map(|name| format!("`--set {name}=…`")).collect();
            told.hint(format!("it uses these images: write {}", all.join(" or ")))
        }
    };
    if used.others.is_empty() {
        return told;
    }
    let others = used.others.join("`, `");
    told.hint(format!("its other pins are `{others}`; change them in `versions/`"))
}

fn chain(error: &dyn Error) -> Vec<String> {
    let mut all = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        all.push(error.to_string());
        next = error.source();
    }
    all
}

/// Returns the nearest of `known` to what was typed, where one is near.
pub(crate) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let scored = known.into_iter().map(|name| (strsim::damerau_levenshtein(typed, name), name));
    let (distance, name) = scored.min()?;
    let is_part =
        name.len() >= 4 && typed.len() >= 4 && (name.contains(typed) || typed.contains(name));
    (distance <= 1 + typed.len() / 4 || is_part).then_some(name)
}

impl From<PlanError> for CommandError {
    fn from(error: PlanError) -> Self {
        let told = Self::from_chain(ExitCode::Input, &error);
        match &error {
            PlanError::NeedsEngine { .. } => told.hint(
                "tracks `official`, `nightly-spoof`, `locked-spoof`, `ollama` and `trainer` need no engine",
            ),
            PlanError::NoRehearsal { track } => told.hint(format!(
                "`build-pipeline plan --track {track}` shows what would be done"
            )),
            PlanError::UnknownVariant { variant, known, .. } => {
                match nearest(variant, known.iter().map(String::as_str)) {
                    Some(near) => told.hint(format!("did you mean `--variant {near}`?")),
                    None => told.hint(format!("there are {}", known.join(", "))),
                }
            }
            PlanError::RehearsedOtherwise { variant, .. } => told.hint(format!(
                "leave out `--variant {variant}`, or leave out `--rehearse` to build it"
            )),
            PlanError::NoVariants { .. } => {
                told.hint("leave out `--variant`; tracks `source` and `vulkan` have some")
            }
            PlanError::NoSuchFile { path, .. } => {
                told.hint(format!("`git checkout -- {path}` brings it back"))
            }
            PlanError::NoSuchSet { .. } => {
                told.hint("`build-pipeline lock` makes the lock again")
            }
            PlanError::NoLock { track, lock } => told
                .hint(format!(
                    "`build-pipeline lock {lock}` makes it, on a network that reaches its index"
                ))
                .hint(format!(
                    "`build-pipeline --track {track} --rehearse` tries its steps without it"
                )),
            PlanError::UnresolvedSource { pin, .. } => told.hint(format!(
                "write its commit or SHA-256 into `versions/versions.toml`, or have the track name a pin that is resolved in place of `{pin}`"
            )),
            PlanError::NoSettings { track } => {
                told.hint(format!("add a table `[{track}]` to `versions/tracks.toml`"))
            }
            PlanError::NoSuchBase { pin, .. } => {
                told.hint(format!("add a table `[image.{pin}]` to `versions/versions.toml`"))
            }
            PlanError::Unresolved { pin, image, tag } => {
                let by_tag = match tag {
                    Some(tag) => format!(
                        "for this run, `--set {pin}={tag}` asks the registry what the tag is now, and records it"
                    ),
                    None => format!(
                        "for this run, `--set {pin}=TAG` asks the registry what a tag is now, and records it"
                    ),
                };
                told.hint(by_tag).hint(format!(
                    "for good, write the digest of `{image}` into `[image.{pin}]` of `versions/versions.toml`"
                )).hint("`--rehearse` builds on a small stand-in and needs no pin")
            }
            PlanError::UnknownPin { pin, known } => {
                match nearest(pin, known.iter().map(String::as_str)) {
                    Some(near) => told.hint(format!("did you mean `{near}`?")),
                    None => told.hint("`versions/versions.toml` lists the pins"),
                }
            }
            PlanError::UnusedPin { used, .. } => unused_pin(told, used),
            PlanError::NoPatches { pin, component } => told.hint(format!(
                "`git checkout -- patches/{component}` brings them back; a pin without patches has no `patches` in `{pin}` of `versions/versions.toml`"
            )),
            PlanError::PatchVersion { pin, .. } => told.hint(format!(
                "correct `version` of pin `{pin}` in `versions/versions.toml`"
            )),
            PlanError::PatchRefuses { component, patch, .. } => told.hint(format!(
                "`patches/{component}/{patch}.toml` says why; use another version, or change `applies` there"
            )),
            PlanError::PatchConflict { component, first, .. } => told.hint(format!(
                "narrow `applies` of `patches/{component}/{first}.toml`, or remove one of the two"
            )),
            PlanError::Invalid { .. } => {
                Self { code: ExitCode::Bug, ..told }.hint("this is a defect of build-pipeline: please report it with the command")
            }
            PlanError::UnknownGpu { gpu, known } => {
                match nearest(gpu, known.iter().map(String::as_str)) {
                    Some(near) => told.hint(format!("did you mean `{near}`?")),
                    None => told.hint(format!("it knows {}", known.join(", "))),
                }
            }
            PlanError::NoSpoof { gpu } => told
                .hint("`--spoof off` builds without one, `--spoof x.y.z` with the version you name")
                .hint(format!("or write `spoof` into `[{gpu}]` of `versions/gpus.toml`")),
            PlanError::NotASpoofTrack { .. } => {
                told.hint("leave `--spoof` out, or build track `locked-spoof` or `nightly-spoof`")
            }
            PlanError::Epoch(_) => told.hint("it is in seconds since 1970-01-01 UTC"),
        }
    }
}

impl From<&executor::ExecuteError> for CommandError {
    fn from(error: &executor::ExecuteError) -> Self {
        let code = match error.kind() {
            ExecuteKind::Registry(kind) => registry_code(kind),
            ExecuteKind::Integrity => ExitCode::Integrity,
            ExecuteKind::Base => ExitCode::Failed,
            ExecuteKind::Disk { .. } => ExitCode::Machine,
            ExecuteKind::Target => ExitCode::Input,
            ExecuteKind::Plan => ExitCode::Bug,
            ExecuteKind::Source(kind) => source_code(kind),
            ExecuteKind::Patch => ExitCode::Patch,
            ExecuteKind::Changed => ExitCode::Bug,
            ExecuteKind::Engine => ExitCode::Machine,
            ExecuteKind::Build | ExecuteKind::Capture => ExitCode::Failed,
            ExecuteKind::Dockerfile => ExitCode::Input,
            ExecuteKind::Packages => ExitCode::Network,
            ExecuteKind::Lock => ExitCode::Integrity,
        };
        let mut told = Self::from_chain(code, error);
        if let Some(failure) = error.run_failure() {
            told.log = failure.log.clone();
        }
        match error.kind() {
            ExecuteKind::Registry(kind) => registry_hints(told, kind),
            ExecuteKind::Integrity => told.hint("nothing was written; if the registry is a mirror, look at what it serves"),
            ExecuteKind::Base => told.hint("pin an image of linux/amd64 with an OCI or Docker schema 2 manifest"),
            ExecuteKind::Disk { full: true } => told.hint("free some space, or write elsewhere with `--output oci:DIR`; what was there before is intact"),
            ExecuteKind::Disk { full: false } => told.hint("check the folder's permissions, or write elsewhere with `--output oci:DIR`"),
            ExecuteKind::Target => told.hint("name a new or empty folder or file, or one that build-pipeline wrote: `--output oci:DIR`, `--output oci-archive:FILE`"),
            ExecuteKind::Source(kind) => source_hints(told, kind),
            ExecuteKind::Patch => told.hint("`build-pipeline patch check COMPONENT` says where and why; no RUN was begun"),
            ExecuteKind::Changed => told.hint("this is a defect of build-pipeline: please report it with the plan (`build-pipeline plan --format json`)"),
            ExecuteKind::Engine => engine_hints(told),
            ExecuteKind::Build => told
                .hint("the lines above are the last ones of its log; steps that are finished are kept")
                .hint("`--keep-failed` leaves what there was before the RUN as an image, and says how to get a shell in it"),
            ExecuteKind::Dockerfile => told.hint("nothing was fetched or built; engines must make one image of a Dockerfile"),
            ExecuteKind::Capture => told.hint("this is a defect of build-pipeline or of the engine: please report it with the engine's version"),
            ExecuteKind::Packages => told
                .hint("mirrors delete old packages: `versions/locks/` may need newer ones")
                .hint(DEBIAN_MIRROR),
            ExecuteKind::Lock => told.hint("`build-pipeline lock` looks the packages up again"),
            ExecuteKind::Plan => told.hint("this is a defect of build-pipeline: please report it with the plan (`build-pipeline plan --format json`)"),
        }
    }
}

/// Where Debian packages are fetched, and how to change that.
pub(crate) const DEBIAN_MIRROR: &str = "packages come from the mirrors of `/etc/apt`, else from https://deb.debian.org; `--mirror https://deb.debian.org=URL` reads from another one";

/// Adds what to do if no engine can build.
pub(crate) fn engine_hints(told: CommandError) -> CommandError {
    told.hint("podman or docker must be there: `build-pipeline doctor` looks at both, `--engine` chooses one")
        .hint("tracks `official`, `nightly-spoof`, `locked-spoof`, `ollama` and `trainer` need no engine")
}

/// Returns the exit code of what a registry said or did.
pub(crate) fn registry_code(kind: RegistryKind) -> ExitCode {
    match kind {
        RegistryKind::Authentication | RegistryKind::Denied => ExitCode::Authentication,
        RegistryKind::Integrity => ExitCode::Integrity,
        _ => ExitCode::Network,
    }
}

/// Adds what to do about what a registry said or did.
pub(crate) fn registry_hints(told: CommandError, kind: RegistryKind) -> CommandError {
    match kind {
        RegistryKind::NotFound => told.hint(
            "the vendor may have deleted it; if you have a copy, `--mirror docker.io=HOST` reads from there",
        ),
        RegistryKind::Authentication => told.hint("log in with `podman login HOST` or `docker login HOST`; their files are read"),
        RegistryKind::Denied => told.hint("the account is known and may not do this; check the repository's name and rights"),
        RegistryKind::RateLimited { .. } => told.hint("log in (`podman login HOST`) for a higher limit, wait, or read from a copy with `--mirror FROM=TO`"),
        RegistryKind::Unreachable | RegistryKind::Timeout => told
            .hint("check the network and `HTTPS_PROXY`; `--mirror FROM=TO` reads from a registry you can reach")
            .hint("`--rehearse` needs no network"),
        RegistryKind::Tls => told.hint("a company's certificate authority is read from `SSL_CERT_FILE`"),
        RegistryKind::Refused => told.hint("this is a rule of build-pipeline or of your registries.conf, not a fault of the line"),
        RegistryKind::Integrity => told.hint("nothing was written; if the registry is a mirror, look at what it serves"),
        RegistryKind::Registry => told.hint("the fault is the registry's; try again later"),
        RegistryKind::Protocol | RegistryKind::TooLarge => told.hint("check that the address is a registry's and no login page or proxy stands between"),
    }
}

impl From<sources::SourceError> for CommandError {
    fn from(error: sources::SourceError) -> Self {
        let kind = error.kind();
        source_hints(Self::from_chain(source_code(kind), &error), kind)
    }
}

/// Returns the exit code of a source that cannot be had.
fn source_code(kind: sources::ErrorKind) -> ExitCode {
    use sources::ErrorKind as Kind;
    match kind {
        Kind::NotFound | Kind::Unreachable | Kind::Timeout | Kind::Tool => ExitCode::Network,
        Kind::Authentication => ExitCode::Authentication,
        Kind::Integrity => ExitCode::Integrity,
        Kind::Moved => ExitCode::OutOfDate,
        Kind::Refused => ExitCode::Input,
        Kind::Disk => ExitCode::Machine,
    }
}

/// Adds what to do about a source that cannot be had.
fn source_hints(told: CommandError, kind: sources::ErrorKind) -> CommandError {
    use sources::ErrorKind as Kind;
    match kind {
            Kind::Unreachable | Kind::Timeout => told.hint(
                "check the network and `HTTPS_PROXY`; `--mirror https://github.com=URL` reads from a server you can reach",
            )
            .hint("release archives on the Python index are pins too: `build-pipeline patch` takes one with `--pin NAME`"),
            Kind::NotFound => told.hint("upstream may have deleted or rewritten it; if you have a copy, `--mirror FROM=TO` reads from there"),
            Kind::Authentication => told.hint("only what is public is fetched; `--mirror FROM=TO` reads from a copy"),
            Kind::Integrity => told.hint("nothing of it was used; if it comes from a mirror, look at what that serves"),
            Kind::Moved => told.hint("upstream changed what the name means; decide what you want, and pin that commit"),
            Kind::Disk => told.hint("free some space, or move the cache with `XDG_CACHE_HOME`"),
            Kind::Tool | Kind::Refused => told,
    }
}
