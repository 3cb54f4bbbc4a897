//! Finds the engine that builds images, takes them or runs them.
//!
//! [`find`] also tries the engine with a tiny `RUN` and says what is to be recorded of it; builds
//! begin with that. [`reach`] is for `run` and `smoke`, which start what is built already.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{
    Address, Candidate, Capabilities, Chosen, Client, Discovery, DockerBuilder, Engine,
    EngineError, PassedOver, ServiceSettings, Surroundings, Trouble, candidates, discover, retried,
};
use names::{Builder, EngineKind};
use record::{EngineUse, Note};

use crate::cli::AskedEngine;
use crate::error::{CommandError, engine_hints};
use crate::exit_code::ExitCode;
use crate::{environment, output};

/// How long `doctor` waits for an engine to say what it is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// An engine that was found and tried.
#[derive(Debug)]
pub(crate) struct FoundEngine {
    pub(crate) engine: Engine,
    /// What is recorded of it.
    pub(crate) used: EngineUse,
    /// What the user should know about the choice, which is recorded too.
    pub(crate) notes: Vec<Note>,
}

/// Finds the engine for a build and tries it. The warnings of the choice are printed.
///
/// # Errors
/// No engine answers, none works, or nobody knows whether the first one that answers works.
pub(crate) async fn find(asked: AskedEngine, store: &Path) -> Result<FoundEngine, CommandError> {
    let search = Search::new(asked, store.to_owned())?;
    let around = search.surroundings();
    let attempt =
        async |candidate: &Candidate, address: &Address| search.probe(candidate, address).await;
    let Discovery { chosen, passed_over } = discover(&around, attempt).await?;
    let Some(Chosen { candidate, found }) = chosen else {
        let none = CommandError::new(ExitCode::Machine, "there is no engine to build with");
        return Err(engine_hints(none.cause(search.nothing(&passed_over))));
    };
    let Tried { engine, can, fallback } = found;
    let mut notes = passed_over_notes(&passed_over, &candidate);
    notes.extend(fallback);
    notes.iter().for_each(|note| output::warn(&note.rule, &note.message));
    let used = EngineUse {
        kind: engine.kind(),
        version: can.info.version,
        builder: can.builder,
        runtime: can.runtime.unwrap_or(can.info.runtime),
        address: candidate.address.as_ref().map(shown).unwrap_or_default(),
        origin: plain(&candidate.origin),
        passed_over: passed_over.iter().map(recorded).collect(),
    };
    Ok(FoundEngine { engine, used, notes })
}

/// Finds the engine that containers are run with, and what it is. Nothing is tried out on it.
///
/// # Errors
/// No engine answers.
pub(crate) async fn reach(
    asked: AskedEngine,
    machine: &host::Snapshot,
) -> Result<(Engine, host::Engine), CommandError> {
    let search = Search::new(asked, environment::store_folder()?)?;
    let around = search.surroundings();
    let attempt =
        async |candidate: &Candidate, address: &Address| search.connect(candidate, address).await;
    let Discovery { chosen, passed_over } = discover(&around, attempt).await?;
    let Some(Chosen { candidate, found: engine }) = chosen else {
        return Err(CommandError::new(ExitCode::Machine, search.nothing(&passed_over))
            .hint("install podman, or start docker; `--engine docker` chooses"));
    };
    for note in passed_over_notes(&passed_over, &candidate) {
        output::warn(&note.rule, &note.message);
    }
    let socket = match candidate.address {
        Ok(Address::Socket(socket)) => Some(socket.display().to_string()),
        _ => None,
    };
    let facts = facts(&engine, socket, machine).await.map_err(|error| {
        CommandError::from_chain(ExitCode::Machine, &error)
            .hint("`build-pipeline doctor` looks at the engines that are there")
    })?;
    Ok((engine, facts))
}

/// Asks an engine what it is. Podman is asked for its version only: files tell the rest, and quicker
/// than podman itself.
///
/// # Errors
/// It does not answer.
pub(crate) async fn facts(
    engine: &Engine,
    socket: Option<String>,
    machine: &host::Snapshot,
) -> Result<host::Engine, EngineError> {
    let kind = engine.kind();
    let may_connect = socket.is_some().then_some(true);
    if kind == EngineKind::Docker {
        let info = engine.info().await?;
        let (version, runtime) = (Some(info.version), Some(info.runtime));
        let is_rootless = info.is_rootless;
        let builder = Some(docker_builder(&info.api_version));
        let engine =
            host::Engine { kind, socket, is_rootless, may_connect, version, runtime, builder };
        return Ok(engine);
    }
    let version = Some(engine.version().await?);
    let owner = |socket: &String| {
        std::fs::metadata(socket).map(|file| std::os::unix::fs::MetadataExt::uid(&file)).ok()
    };
    let owner = socket.as_ref().map_or(Some(machine.user.uid), owner);
    let is_rootless = owner.is_some_and(|owner| owner != 0);
    let known = machine.engines.iter().find(|engine| engine.kind == kind);
    let runtime = known.and_then(|engine| engine.runtime.clone());
    let builder = Some(Builder::Podman);
    Ok(host::Engine { kind, socket, is_rootless, may_connect, version, runtime, builder })
}

/// Returns the builder that a build uses: the one that `DOCKER_BUILDKIT` names, or BuildKit where
/// docker has it (since 18.09, API 1.39).
fn docker_builder(api_version: &str) -> Builder {
    let minor = api_version.strip_prefix("1.").and_then(|minor| minor.parse::<u32>().ok());
    match environment::docker_builder() {
        Some(named) => named.into(),
        None if minor.is_some_and(|minor| minor < 39) => Builder::Classic,
        None => Builder::BuildKit,
    }
}

/// Returns the engines that answer at sockets which variables and settings name, and which are not
/// in `known`.
pub(crate) async fn others(known: &[host::Engine]) -> Result<Vec<host::Engine>, CommandError> {
    let search = Search::new(None, environment::store_folder()?)?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut seen: Vec<PathBuf> =
        known.iter().filter_map(|engine| Some(real(engine.socket.as_ref()?.as_ref()))).collect();
    let mut found = Vec::new();
    for candidate in candidates(&search.surroundings()) {
        let Ok(Address::Socket(socket)) = candidate.address else { continue };
        let path = real(&socket);
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let Ok(Ok(kind)) = tokio::time::timeout(PATIENCE, Client::kind_at(&socket)).await else {
            continue;
        };
        found.push(host::Engine {
            kind,
            socket: Some(socket.display().to_string()),
            is_rootless: false,
            may_connect: Some(true),
            version: None,
            runtime: None,
            builder: None,
        });
    }
    Ok(found)
}

/// Returns podman with a service of this program, if podman is installed.
pub(crate) fn private_podman() -> Result<Option<Engine>, CommandError> {
    let search = Search::new(Some(EngineKind::Podman), environment::store_folder()?)?;
    let program = environment::engines().podman_program;
    Ok(program.map(|program| Engine::podman(search.service(program))))
}

/// Returns how a podman service of this program is started, with its folders below the store.
pub(crate) fn service(program: PathBuf, sockets: PathBuf, store: &Path) -> ServiceSettings {
    ServiceSettings {
        program,
        arguments: Vec::new(),
        runtime: None,
        sockets,
        scratch: store.join("work"),
        caches: store.join("caches"),
    }
}

/// An engine that was tried, and works.
#[derive(Debug)]
struct Tried {
    engine: Engine,
    can: Capabilities,
    /// Why another builder than BuildKit builds, if nobody asked for that.
    fallback: Option<Note>,
}

/// A search by the conventions of podman and docker.
#[derive(Debug)]
struct Search {
    asked: AskedEngine,
    sockets: PathBuf,
    /// The folder of finished steps.
    store: PathBuf,
    /// The builder of docker that its own variable names.
    builder: Option<DockerBuilder>,
}

impl Search {
    fn new(asked: AskedEngine, store: PathBuf) -> Result<Self, CommandError> {
        let sockets = environment::socket_folder()?;
        Ok(Self { asked, sockets, store, builder: environment::docker_builder() })
    }

    fn surroundings(&self) -> Surroundings {
        let mut around = Surroundings { wanted: self.asked, ..environment::engines() };
        if self.asked == Some(EngineKind::Podman) {
            // They may lead to podman, but podman's own ways to it do so for sure.
            (around.docker_host, around.docker_context) = (None, None);
            around.docker_config = None;
        }
        around
    }

    fn service(&self, program: PathBuf) -> ServiceSettings {
        service(program, self.sockets.clone(), &self.store)
    }

    /// Connects to a candidate, which may be another engine than its place suggests.
    async fn connect(
        &self,
        candidate: &Candidate,
        address: &Address,
    ) -> Result<Engine, Trouble<CommandError>> {
        let socket = match address {
            Address::PodmanProgram(program) if program.is_file() => {
                return Ok(Engine::podman(self.service(program.clone())));
            }
            Address::PodmanProgram(program) => {
                return Err(Trouble::Absent(format!("`{}` is not there", program.display())));
            }
            Address::Socket(socket) => socket,
        };
        if let Err(error) = std::os::unix::net::UnixStream::connect(socket) {
            let reason = format!("`{}`: {error}", socket.display());
            return Err(if error.kind() == std::io::ErrorKind::NotFound {
                Trouble::Absent(reason)
            } else {
                Trouble::Broken(reason)
            });
        }
        let answers = retried(async || Client::kind_at(socket).await).await;
        let kind = answers.map_err(|error| failed(candidate, &error))?;
        if let Some(asked) = self.asked.filter(|asked| *asked != kind) {
            return Err(Trouble::Absent(format!("{kind} answers there, not {asked}")));
        }
        Ok(match kind {
            EngineKind::Podman => Engine::podman_at(socket.clone()),
            EngineKind::Docker => {
                Engine::docker_at(socket.clone(), self.builder.unwrap_or(DockerBuilder::BuildKit))
            }
        })
    }

    /// Connects to a candidate and tries it.
    async fn probe(
        &self,
        candidate: &Candidate,
        address: &Address,
    ) -> Result<Tried, Trouble<CommandError>> {
        let engine = self.connect(candidate, address).await?;
        let (engine, probed, fallback) = match (engine.probe().await, address) {
            (Err(EngineError::Unavailable { detail, .. }), Address::Socket(socket)) => {
                if self.builder.is_some() {
                    return Err(Trouble::Failed(no_buildkit(candidate, detail)));
                }
                let classic = Engine::docker_at(socket.clone(), DockerBuilder::Classic);
                let probed = classic.probe().await;
                (classic, probed, Some(fallback(candidate, &detail)))
            }
            (probed, _) => (engine, probed, None),
        };
        let can = match probed {
            Ok(can) => can,
            Err(error) => {
                engine.stop().await;
                return Err(if error.is_definitive() {
                    Trouble::Broken(error.to_string())
                } else {
                    failed(candidate, &error)
                });
            }
        };
        if !can.run.is_isolated {
            engine.stop().await;
            return Err(Trouble::Broken("it cannot keep a RUN from the network".to_owned()));
        }
        let engine = match (&can.runtime, address) {
            (Some(runtime), Address::PodmanProgram(program)) => {
                engine.stop().await;
                let runtime = Some(runtime.clone());
                Engine::podman(ServiceSettings { runtime, ..self.service(program.clone()) })
            }
            _ => engine,
        };
        Ok(Tried { engine, can, fallback })
    }

    /// Says that nothing was found, and what was looked at.
    fn nothing(&self, passed_over: &[PassedOver]) -> String {
        let is_other = |one: &&PassedOver| {
            self.asked.is_some_and(|asked| one.candidate.kind.is_some_and(|kind| kind != asked))
        };
        let reasons = passed_over.iter().filter(|one| !is_other(one));
        let reasons: Vec<String> =
            reasons.map(|one| format!("{}: {}", one.candidate.origin, one.reason)).collect();
        let is_broken = passed_over.iter().any(|one| one.is_broken);
        let what = match self.asked {
            Some(asked) if is_broken => format!("{asked} does not work"),
            Some(asked) => format!("{asked} does not answer"),
            None if is_broken => "neither podman nor docker works".to_owned(),
            None => "neither podman nor docker answers".to_owned(),
        };
        format!("{what} ({})", reasons.join("; "))
    }
}

/// Says that nobody knows whether an engine works.
fn failed(candidate: &Candidate, error: &EngineError) -> Trouble<CommandError> {
    let what = format!("the engine cannot be tried out (found by {})", candidate.origin);
    let told = CommandError::caused(ExitCode::Machine, what, error);
    Trouble::Failed(
        told.hint("it was tried several times; look at the engine, and run the command again")
            .hint("`--engine podman` or `--engine docker` uses another one"),
    )
}

/// Says that docker has no BuildKit, and must have it.
fn no_buildkit(candidate: &Candidate, detail: String) -> CommandError {
    let what = format!(
        "docker has no BuildKit (found by {}), and DOCKER_BUILDKIT asks for it",
        candidate.origin
    );
    CommandError::new(ExitCode::Machine, what)
        .cause(detail)
        .hint("`DOCKER_BUILDKIT=0` builds with docker's classic builder")
        .hint("`--engine podman` builds with podman")
}

/// Says that docker's classic builder takes the place of BuildKit.
fn fallback(candidate: &Candidate, detail: &str) -> Note {
    Note {
        rule: "builder-fallback".to_owned(),
        message: format!(
            "docker has no BuildKit (found by {}), so its classic builder builds, which keeps nothing of compilers between builds; `DOCKER_BUILDKIT=0` asks for that without this warning; docker says: {detail}",
            candidate.origin
        ),
    }
}

/// Says which broken engines were passed over.
fn passed_over_notes(passed_over: &[PassedOver], chosen: &Candidate) -> Vec<Note> {
    let note = |one: &PassedOver| Note {
        rule: "engine-passed-over".to_owned(),
        message: format!(
            "{} leads to an engine that does not work, so {} is used: {}; `--engine` or `BUILD_PIPELINE_HOST` chooses",
            one.candidate.origin, chosen.origin, one.reason
        ),
    };
    passed_over.iter().filter(|one| one.is_broken).map(note).collect()
}

fn recorded(one: &PassedOver) -> record::PassedOver {
    record::PassedOver { origin: plain(&one.candidate.origin), reason: one.reason.clone() }
}

/// Returns a text of a message without the marks of names.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn shown(address: &Address) -> String {
    match address {
        Address::Socket(socket) => format!("unix://{}", socket.display()),
        Address::PodmanProgram(program) => program.display().to_string(),
    }
}
