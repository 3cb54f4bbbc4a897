//! Finds the engine that builds, loads or runs images.
//!
//! [`find`] is for builds: it also tests the engine with a tiny `RUN` instruction, and returns the
//! facts to record. [`reach`] is for `run` and `smoke`, which start existing images.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{
    Address, Candidate, Capabilities, Chosen, Client, Discovery, DockerBuilder, Engine,
    EngineError, PassedOver, ServiceSettings, Surroundings, Trouble, candidates, discover, retried,
};
use failure::{Failure, Kind, engine_hints};
use names::EngineKind;
use project::environment;
use record::{EngineUse, Note};

use crate::notice::Notice;

/// How long `doctor` waits for an engine to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// An engine that was found and tested.
#[derive(Debug)]
pub struct FoundEngine {
    /// The engine.
    pub engine: Engine,
    /// What to record about the engine.
    pub used: EngineUse,
    /// Notes about the choice for the user. They are recorded too.
    pub notes: Vec<Note>,
}

/// Finds and tests the engine for a build: the given one, or the first that works. `store` is the
/// folder of finished steps, and `tell` receives the warnings about the choice.
///
/// # Errors
/// No engine answers, none works, or it is unknown whether the first one that answers works.
pub async fn find(
    asked: Option<EngineKind>,
    store: &Path,
    tell: &dyn Fn(Notice),
) -> Result<FoundEngine, Failure> {
    let search = Search::new(asked, store.to_owned())?;
    let around = search.surroundings();
    let attempt =
        async |candidate: &Candidate, address: &Address| search.probe(candidate, address).await;
    let Discovery { chosen, passed_over } = discover(&around, attempt).await?;
    let Some(Chosen { candidate, found }) = chosen else {
        let none = Failure::new(Kind::Machine, "found no engine to build with");
        let none = hints(none.cause(search.nothing(&passed_over)), &passed_over);
        return Err(engine_hints(none));
    };
    let Tried { engine, can, fallback } = found;
    let mut notes = passed_over_notes(&passed_over, &candidate);
    notes.extend(fallback);
    notes.iter().for_each(|note| tell(warning(note)));
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

/// Finds the engine to run containers with (the given one, or the first that answers), and its
/// properties. Does not test the engine. `tell` receives the warnings about the choice.
///
/// # Errors
/// No engine answers.
pub async fn reach(
    asked: Option<EngineKind>,
    machine: &host::Snapshot,
    tell: &dyn Fn(Notice),
) -> Result<(Engine, host::Engine), Failure> {
    let search = Search::new(asked, environment::store_folder()?)?;
    let around = search.surroundings();
    let attempt =
        async |candidate: &Candidate, address: &Address| search.connect(candidate, address).await;
    let Discovery { chosen, passed_over } = discover(&around, attempt).await?;
    let Some(Chosen { candidate, found: engine }) = chosen else {
        let none = Failure::new(Kind::Machine, search.nothing(&passed_over));
        return Err(hints(none, &passed_over)
            .hint("install an engine or start its service; `--engine` selects one")
            .hint("`build-pipeline doctor` checks all engines; `build-pipeline help environment` lists the variables that select an engine"));
    };
    passed_over_notes(&passed_over, &candidate).iter().for_each(|note| tell(warning(note)));
    let socket = match candidate.address {
        Ok(Address::Socket(socket)) => Some(socket.display().to_string()),
        _ => None,
    };
    let facts = facts(&engine, socket, machine).await.map_err(|error| {
        Failure::from_chain(Kind::Machine, &error)
            .hint("`build-pipeline doctor` checks the engines on this machine")
    })?;
    Ok((engine, facts))
}

/// Queries the properties of an engine. Podman is queried only for its version, because files
/// contain the rest, and reading them is faster.
///
/// # Errors
/// The engine does not answer.
pub async fn facts(
    engine: &Engine,
    socket: Option<String>,
    machine: &host::Snapshot,
) -> Result<host::Engine, EngineError> {
    let kind = engine.kind();
    let may_connect = socket.is_some().then_some(true);
    if kind.facts().runtime_files.is_empty() {
        let info = engine.info().await?;
        let (version, runtime) = (Some(info.version), Some(info.runtime));
        let is_rootless = info.is_rootless;
        let selected = environment::docker_builder();
        let builder = Some(engine.expected_builder(&info.api_version, selected));
        let kernel = Some(info.kernel).filter(|kernel| !kernel.is_empty());
        return Ok(host::Engine {
            kind,
            socket,
            is_rootless,
            may_connect,
            version,
            runtime,
            builder,
            kernel,
            store: info.storage_root.to_str().map(str::to_owned),
            user_ids: info.user_ids,
            trouble: None,
        });
    }
    let version = Some(engine.version().await?);
    let owner = |path: &String| {
        std::fs::metadata(path).map(|file| std::os::unix::fs::MetadataExt::uid(&file)).ok()
    };
    let owner = socket.as_ref().map_or(Some(machine.user.uid), owner);
    let is_rootless = owner.is_some_and(|owner| owner != 0);
    let is_known = |one: &&host::Engine| one.kind == kind && one.is_rootless == is_rootless;
    let known = machine.engines.iter().find(is_known);
    let runtime = known.and_then(|known| known.runtime.clone());
    let store = known.and_then(|known| known.store.clone());
    let builder = Some(engine.builder());
    let asked = host::Engine::new(kind, socket, is_rootless);
    Ok(host::Engine { may_connect, version, runtime, builder, store, ..asked })
}

/// Returns the engines at sockets that variables and settings specify, except those in `known`.
///
/// # Errors
/// There is no home directory.
pub async fn others(known: &[host::Engine]) -> Result<Vec<host::Engine>, Failure> {
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
        let engine = host::Engine::new(kind, Some(socket.display().to_string()), false);
        found.push(host::Engine { may_connect: Some(true), ..engine });
    }
    Ok(found)
}

/// Marks the engine that builds and `run` use without `--engine`, or why there is none. The engines
/// of `machine` have been asked.
///
/// # Errors
/// There is no home directory.
pub(crate) fn select(machine: &mut host::Snapshot) -> Result<(), Failure> {
    let search = Search::new(None, environment::store_folder()?)?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_own = |engine: &host::Engine| {
        engine.kind == EngineKind::Podman && engine.is_rootless == (machine.user.uid != 0)
    };
    let mut reasons = Vec::new();
    let mut release = None;
    machine.selected = None;
    for candidate in candidates(&search.surroundings()) {
        release = candidate.release();
        let Candidate { origin, address, is_named, .. } = candidate;
        let found = match &address {
            // The program works even if the service at its socket does not.
            Ok(Address::PodmanProgram(_)) => {
                let mut all = machine.engines.iter();
                all.position(|one| is_own(one) && one.socket.is_none())
                    .or_else(|| machine.engines.iter().position(is_own))
            }
            Ok(Address::Socket(path)) => machine.engines.iter().position(|one| {
                one.socket.as_ref().is_some_and(|socket| real(socket.as_ref()) == real(path))
            }),
            Err(_) => None,
        };
        match found.map(|at| (at, &machine.engines[at])) {
            Some((at, engine)) if engine.is_usable() => {
                machine.selected = Some(at);
                return Ok(());
            }
            Some((_, engine)) => {
                let place = engine.socket.as_ref().map(|socket| format!("`{socket}`: "));
                let place = place.unwrap_or_default();
                let told = |trouble| format!("{origin}: {place}{trouble}");
                reasons.extend(engine.trouble.as_ref().map(told));
            }
            None if is_named => reasons.push(format!("{origin}: {}", absent(&address))),
            None => {}
        }
        if is_named {
            break;
        }
    }
    machine.unusable =
        (!reasons.is_empty()).then(|| host::Unusable { why: reasons.join("; "), release });
    Ok(())
}

/// Returns why nothing was found at an address.
fn absent(address: &Result<Address, String>) -> String {
    match address {
        Err(reason) => reason.clone(),
        Ok(Address::PodmanProgram(program)) => format!("`{}` does not work", program.display()),
        Ok(Address::Socket(socket)) => {
            let error = std::os::unix::net::UnixStream::connect(socket).err();
            let error = error.map_or_else(|| "no engine answers".to_owned(), |one| one.to_string());
            format!("`{}`: {error}", socket.display())
        }
    }
}

/// Returns podman with a service that this program starts, if podman is installed.
///
/// # Errors
/// There is no home directory.
pub fn private_podman() -> Result<Option<Engine>, Failure> {
    let (sockets, store) = (environment::socket_folder()?, environment::store_folder()?);
    let program = environment::engines().podman_program;
    Ok(program.map(|program| Engine::podman(service(program, sockets, &store))))
}

/// Returns how to start this program's podman service, with its work and cache folders below the
/// store.
pub fn service(program: PathBuf, sockets: PathBuf, store: &Path) -> ServiceSettings {
    ServiceSettings {
        program,
        arguments: Vec::new(),
        runtime: None,
        sockets,
        scratch: store.join("work"),
        caches: store.join("caches"),
        state: environment::podman_state(),
    }
}

/// An engine that was tested and works.
#[derive(Debug)]
struct Tried {
    engine: Engine,
    can: Capabilities,
    /// Why docker's classic builder is used although `DOCKER_BUILDKIT` does not select it.
    fallback: Option<Note>,
}

/// A search that follows the conventions of podman and docker.
#[derive(Debug)]
struct Search {
    asked: Option<EngineKind>,
    sockets: PathBuf,
    /// The folder of finished steps.
    store: PathBuf,
    /// The docker builder that `DOCKER_BUILDKIT` selects.
    builder: Option<DockerBuilder>,
}

impl Search {
    fn new(asked: Option<EngineKind>, store: PathBuf) -> Result<Self, Failure> {
        let sockets = environment::socket_folder()?;
        Ok(Self { asked, sockets, store, builder: environment::docker_builder() })
    }

    fn surroundings(&self) -> Surroundings {
        environment::engines().wanting(self.asked)
    }

    fn service(&self, program: PathBuf) -> ServiceSettings {
        service(program, self.sockets.clone(), &self.store)
    }

    /// Connects to a candidate, whose kind may differ from what its location suggests.
    async fn connect(
        &self,
        candidate: &Candidate,
        address: &Address,
    ) -> Result<Engine, Trouble<Failure>> {
        let socket = match address {
            Address::PodmanProgram(program) if program.is_file() => {
                return Ok(Engine::podman(self.service(program.clone())));
            }
            Address::PodmanProgram(program) => {
                return Err(Trouble::Absent(format!("`{}` does not exist", program.display())));
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
        let kind = answers.map_err(|error| self.failed(candidate, address, &error))?;
        if let Some(asked) = self.asked.filter(|asked| *asked != kind) {
            return Err(Trouble::Absent(format!("{kind} answers there instead of {asked}")));
        }
        Ok(Engine::at(kind, socket.clone(), self.builder))
    }

    /// Connects to a candidate and tests it.
    async fn probe(
        &self,
        candidate: &Candidate,
        address: &Address,
    ) -> Result<Tried, Trouble<Failure>> {
        let engine = self.connect(candidate, address).await?;
        let (engine, probed, fallback) = match (engine.probe().await, engine.fallback()) {
            (Err(EngineError::Unavailable { detail, .. }), Some(classic)) => {
                if self.builder.is_some() {
                    return Err(Trouble::Failed(no_buildkit(candidate, detail)));
                }
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
                    self.failed(candidate, address, &error)
                });
            }
        };
        if !can.run.is_isolated {
            engine.stop().await;
            return Err(Trouble::Broken(
                "it cannot run a RUN instruction with the network disabled".to_owned(),
            ));
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

    /// Returns the error for an engine that could not be tested. For podman's service, the reason
    /// may be a folder of this tool.
    fn failed(
        &self,
        candidate: &Candidate,
        address: &Address,
        error: &EngineError,
    ) -> Trouble<Failure> {
        let Address::PodmanProgram(program) = address else { return failed(candidate, error) };
        let service = self.service(program.clone());
        if let Some((folder, why)) = service.unusable_folder() {
            return Trouble::Failed(unusable(folder, &why, *folder == *self.sockets));
        }
        match error {
            EngineError::DiskFull { detail, .. }
                if detail.contains(&*self.store.to_string_lossy()) =>
            {
                let full = std::io::ErrorKind::StorageFull.into();
                Trouble::Failed(unusable(&service.scratch, &full, false).cause(detail.as_str()))
            }
            _ => match self.surroundings().runtime_dir.filter(|folder| !folder.is_dir()) {
                Some(folder) => Trouble::Failed(without_runtime_folder(candidate, &folder, error)),
                None => failed(candidate, error),
            },
        }
    }

    /// Returns the message that no engine was found, with the places that were searched.
    fn nothing(&self, passed_over: &[PassedOver]) -> String {
        let is_other = |one: &&PassedOver| {
            self.asked.is_some_and(|asked| one.candidate.kind.is_some_and(|kind| kind != asked))
        };
        let reasons = passed_over.iter().filter(|one| !is_other(one));
        let reasons: Vec<String> =
            reasons.map(|one| format!("{}: {}", one.candidate.origin, one.reason)).collect();
        let is_broken = passed_over.iter().any(|one| one.is_broken);
        // Nothing after an engine that the user named is tried.
        let named = passed_over.last().filter(|one| one.candidate.is_named);
        let what = match self.asked {
            None if let Some(named) = named => {
                return format!(
                    "the engine that {} selects does not {} ({})",
                    named.candidate.origin,
                    if is_broken { "work" } else { "answer" },
                    named.reason
                );
            }
            Some(asked) if is_broken => format!("{asked} does not work"),
            Some(asked) => format!("{asked} does not answer"),
            None => {
                let all = EngineKind::list("and", |kind| kind.to_string());
                format!("{all} do not {}", if is_broken { "work" } else { "answer" })
            }
        };
        format!("{what} ({})", reasons.join("; "))
    }
}

/// Returns the error for a podman that does not work while `XDG_RUNTIME_DIR` names no folder.
fn without_runtime_folder(candidate: &Candidate, folder: &Path, error: &EngineError) -> Failure {
    let what = format!("cannot test the engine (found through {})", candidate.origin);
    Failure::caused(Kind::Machine, what, error).hint(format!(
        "`XDG_RUNTIME_DIR` is `{}`, which is not a folder: correct the variable, or unset it",
        folder.display()
    ))
}

/// Returns the error for a folder of this tool that podman needs and that cannot be written.
fn unusable(folder: &Path, error: &std::io::Error, is_for_sockets: bool) -> Failure {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let why = match error.kind() {
        StorageFull | QuotaExceeded => ": the disk is full",
        _ => "",
    };
    let what = format!("podman cannot use this tool's folder `{}`{why}", folder.display());
    Failure::caused(Kind::Machine, what, error).hint(if is_for_sockets {
        "check its permissions; the folder is below `XDG_RUNTIME_DIR`, or, without that variable, below `XDG_STATE_HOME` (`~/.local/state`)"
    } else {
        "check its space and permissions; `XDG_CACHE_HOME`, or `cache` in config.toml, selects another cache"
    })
}

/// Adds hints about the candidates that were tried: how to use other ones, and who may open a socket.
fn hints(told: Failure, passed_over: &[PassedOver]) -> Failure {
    let release = passed_over.last().and_then(|one| one.candidate.release());
    let told = match release {
        Some(how) => {
            told.hint(format!("no other engine was tried; `{how}` makes the tool look for one"))
        }
        None => told,
    };
    let closed = passed_over.iter().find_map(|one| match &one.candidate.address {
        Ok(Address::Socket(path)) if one.candidate.kind == Some(EngineKind::Docker) => {
            owning_group(path).filter(|_| one.reason.contains("Permission denied"))
        }
        _ => None,
    });
    let Some(group) = closed else { return told };
    let told = told.hint(format!(
        "only root and the group {group} may use docker: `sudo usermod --append --groups {group} $USER` adds you to it, from the next login on; this gives root access to the machine"
    ));
    let was_skipped = |one: &PassedOver| {
        !one.is_broken && matches!(one.candidate.address, Ok(Address::PodmanProgram(_)))
    };
    if passed_over.iter().any(was_skipped) {
        told.hint("podman is installed and needs no group: `--engine podman`")
    } else {
        told
    }
}

/// Returns the name of the group that may open a socket.
fn owning_group(socket: &Path) -> Option<String> {
    let gid = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(socket).ok()?);
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (gid != 0 && fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
    })
}

/// Returns the error for an engine that could not be tested.
fn failed(candidate: &Candidate, error: &EngineError) -> Trouble<Failure> {
    let what = format!("cannot test the engine (found through {})", candidate.origin);
    let told = Failure::caused(Kind::Machine, what, error);
    Trouble::Failed(
        told.hint("several attempts failed; check the engine, then rerun the command").hint(
            format!(
                "{} selects another engine",
                EngineKind::list("or", |kind| format!("`--engine {kind}`"))
            ),
        ),
    )
}

/// Returns the error for a docker whose BuildKit cannot be used, although `DOCKER_BUILDKIT`
/// requires it.
fn no_buildkit(candidate: &Candidate, detail: String) -> Failure {
    let what = format!(
        "docker's BuildKit cannot be used (found through {}), but DOCKER_BUILDKIT requires it",
        candidate.origin
    );
    Failure::new(Kind::Machine, what)
        .cause(detail)
        .hint("`DOCKER_BUILDKIT=0` builds with docker's classic builder")
        .hint("`--engine podman` builds with podman")
}

/// Returns the note that docker's classic builder is used instead of BuildKit.
fn fallback(candidate: &Candidate, detail: &str) -> Note {
    Note {
        rule: "builder-fallback".to_owned(),
        message: format!(
            "docker's BuildKit cannot be used (found through {}), so the classic builder is used, which keeps no compiler cache between builds; `DOCKER_BUILDKIT=0` selects it without this warning; docker reported: {detail}",
            candidate.origin
        ),
    }
}

/// Returns notes about broken engines that were skipped.
fn passed_over_notes(passed_over: &[PassedOver], chosen: &Candidate) -> Vec<Note> {
    let note = |one: &PassedOver| Note {
        rule: "engine-passed-over".to_owned(),
        message: format!(
            "the engine found through {} does not work, so the one found through {} is used: {}; `--engine` or `BUILD_PIPELINE_HOST` selects an engine",
            one.candidate.origin, chosen.origin, one.reason
        ),
    };
    passed_over.iter().filter(|one| one.is_broken).map(note).collect()
}

fn warning(note: &Note) -> Notice {
    Notice::warning(&note.rule, note.message.as_str())
}

fn recorded(one: &PassedOver) -> record::PassedOver {
    record::PassedOver { origin: plain(&one.candidate.origin), reason: one.reason.clone() }
}

/// Returns the text of a message without the quotes around names.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn shown(address: &Address) -> String {
    match address {
        Address::Socket(socket) => format!("unix://{}", socket.display()),
        Address::PodmanProgram(program) => program.display().to_string(),
    }
}
