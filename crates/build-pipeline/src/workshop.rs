//! Makes the workshop that built tracks are carried out in: the engine, the store, where to fetch.
//! Finds the engine that containers are run with, too.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{
    Address, Candidate, Capabilities, Docker, DockerBuilder, Engine as _, Kind, Podman, RunId,
    ServiceSettings, Surroundings, discover,
};
use executor::{AnyEngine, Find, Materials, NoEngine, Store, Tools, Workshop};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sources::SourceUrl;

use crate::cli::{EngineChoice, Global};
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::{environment, fetch};

/// How steps are carried out.
#[derive(Debug)]
pub(crate) struct Way {
    /// The engine that was asked for.
    pub(crate) engine: EngineChoice,
    /// Whether finished steps are carried out again.
    pub(crate) is_fresh: bool,
    /// Whether what there was before a RUN that failed is left in the engine.
    pub(crate) keeps_failed: bool,
    /// The folder of finished steps.
    pub(crate) store: PathBuf,
}

/// Makes the workshop. No engine is looked for yet.
pub(crate) fn open(
    global: &Global,
    materials: Arc<Materials>,
    way: Way,
) -> Result<Workshop, CommandError> {
    let Way { engine: choice, is_fresh, keeps_failed, store } = way;
    let engines = Engines { choice, sockets: environment::socket_folder()?, store: store.clone() };
    let number = std::process::id();
    let run = RunId::parse(&format!("run-{number}"))
        .ok_or_else(|| CommandError::new(ExitCode::Bug, "the name of the run is not valid"))?;
    let path = environment::program_path();
    Ok(Workshop {
        find: Box::new(engines),
        engine: tokio::sync::OnceCell::new(),
        run,
        sources: fetch::sources(global)?,
        programs: debian::Programs { path: path.clone(), variables: BTreeMap::new() },
        tools: Tools::new(&path),
        materials,
        store: Store::new(store),
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        is_fresh,
        keeps_failed,
        names: tokio::sync::Mutex::default(),
    })
}

/// Finds the engine that containers are run with, and what it is. Unlike for builds, nothing is
/// tried out on it.
pub(crate) async fn reach(
    choice: EngineChoice,
    machine: &host::Snapshot,
) -> Result<(AnyEngine, host::Engine), CommandError> {
    let engines = Engines {
        choice,
        sockets: environment::socket_folder()?,
        store: environment::store_folder()?,
    };
    let no_engine = |error: NoEngine| {
        CommandError::from_chain(ExitCode::Machine, error.as_ref())
            .hint("install podman, or start docker; `--engine docker` chooses")
    };
    let (kind, address) = engines.address().map_err(no_engine)?;
    let failed = |error: engine::EngineError| {
        CommandError::from_chain(ExitCode::Machine, &error)
            .hint("`build-pipeline doctor` looks at the engines that are there")
    };
    let (socket, found) = match address {
        Address::PodmanProgram(program) => {
            let podman = Podman::private(engines.settings(program));
            (None, AnyEngine::Podman(Box::new(podman)))
        }
        Address::Socket(socket) => {
            let kind = match kind {
                Some(kind) => kind,
                // `DOCKER_HOST` may be either's, and so may a socket that the user names.
                None => engine::Client::kind_at(&socket).await.map_err(failed)?,
            };
            let path = socket.display().to_string();
            let found = match kind {
                Kind::Podman => AnyEngine::Podman(Box::new(Podman::at(socket))),
                Kind::Docker => {
                    AnyEngine::Docker(Box::new(Docker::at(socket, DockerBuilder::Classic)))
                }
            };
            (Some(path), found)
        }
    };
    let facts = match &found {
        AnyEngine::Podman(podman) => podman_facts(podman, socket, machine).await,
        AnyEngine::Docker(docker) => docker_facts(docker, socket).await,
    };
    Ok((found, facts.map_err(failed)?))
}

/// Asks podman for its version; the rest files tell, and quicker than podman itself.
pub(crate) async fn podman_facts(
    podman: &Podman,
    socket: Option<String>,
    machine: &host::Snapshot,
) -> Result<host::Engine, engine::EngineError> {
    let version = podman.version().await?;
    let kind = host::EngineKind::Podman;
    let owner = |socket: &String| {
        std::fs::metadata(socket).map(|file| std::os::unix::fs::MetadataExt::uid(&file)).ok()
    };
    let owner = socket.as_ref().map_or(Some(machine.user.uid), owner);
    let known = machine.engines.iter().find(|engine| engine.kind == kind);
    Ok(host::Engine {
        kind,
        may_connect: socket.is_some().then_some(true),
        socket,
        is_rootless: owner.is_some_and(|owner| owner != 0),
        version: Some(version),
        runtime: known.and_then(|engine| engine.runtime.clone()),
    })
}

/// Asks docker what it is.
pub(crate) async fn docker_facts(
    docker: &Docker,
    socket: Option<String>,
) -> Result<host::Engine, engine::EngineError> {
    let info = docker.info().await?;
    Ok(host::Engine {
        kind: host::EngineKind::Docker,
        may_connect: socket.is_some().then_some(true),
        socket,
        is_rootless: info.is_rootless,
        version: Some(info.version),
        runtime: Some(info.runtime),
    })
}

/// Returns podman with a service of our own, where the program is there.
pub(crate) fn private_podman() -> Result<Option<Podman>, CommandError> {
    let engines = Engines {
        choice: EngineChoice::Podman,
        sockets: environment::socket_folder()?,
        store: environment::store_folder()?,
    };
    let program = environment::engines().podman_program;
    Ok(program.map(|program| Podman::private(engines.settings(program))))
}

/// Finds the engine by the conventions of podman and docker.
#[derive(Debug)]
struct Engines {
    choice: EngineChoice,
    sockets: PathBuf,
    /// The folder of finished steps.
    store: PathBuf,
}

impl Find for Engines {
    fn engine(&self) -> BoxFuture<'_, Result<AnyEngine, NoEngine>> {
        self.find().boxed()
    }

    fn index(&self) -> Option<SourceUrl> {
        fetch::python_index().ok()?.parse().ok()
    }

    fn mirrors(&self) -> Result<debian::Mirrors, debian::MirrorError> {
        debian::Mirrors::from_apt(&environment::apt_folder())
    }
}

impl Engines {
    /// Returns which engine is to be used, where that is known, and the way to it.
    fn address(&self) -> Result<(Option<Kind>, Address), NoEngine> {
        let wanted = match self.choice {
            EngineChoice::Auto => None,
            EngineChoice::Podman => Some(Kind::Podman),
            EngineChoice::Docker => Some(Kind::Docker),
        };
        let mut around = Surroundings { wanted, ..environment::engines() };
        if wanted == Some(Kind::Podman) {
            // They may lead to podman, but podman's own ways to it do so for sure.
            (around.docker_host, around.docker_context) = (None, None);
            around.docker_config = None;
        }
        let found = discover(&around, is_there);
        let Some(Candidate { kind, address: Ok(address), .. }) = found.chosen else {
            let reasons: Vec<String> = found
                .passed_over
                .iter()
                .map(|one| format!("{}: {}", one.candidate.origin, one.reason))
                .collect();
            return Err(
                format!("neither podman nor docker answers ({})", reasons.join("; ")).into()
            );
        };
        Ok((kind, address))
    }

    async fn find(&self) -> Result<AnyEngine, NoEngine> {
        let (kind, address) = self.address()?;
        match address {
            Address::PodmanProgram(program) => self.private_podman(program).await,
            Address::Socket(socket) if kind == Some(Kind::Docker) => docker(socket).await,
            Address::Socket(socket) => {
                let podman = Podman::at(socket.clone());
                match podman.probe().await {
                    Ok(can) => checked(&can).map(|()| AnyEngine::Podman(Box::new(podman))),
                    Err(error) if kind == Some(Kind::Podman) => Err(Box::new(error)),
                    // `DOCKER_HOST` may be either's.
                    Err(_) => docker(socket).await,
                }
            }
        }
    }

    fn settings(&self, program: PathBuf) -> ServiceSettings {
        service(program, self.sockets.clone(), &self.store)
    }

    /// Returns podman with services of our own, and with the OCI runtime that works here.
    async fn private_podman(&self, program: PathBuf) -> Result<AnyEngine, NoEngine> {
        let settings = self.settings(program);
        let podman = Podman::private(settings.clone());
        let can = podman.probe().await?;
        podman.stop().await;
        checked(&can)?;
        let settings = ServiceSettings { runtime: can.runtime, ..settings };
        Ok(AnyEngine::Podman(Box::new(Podman::private(settings))))
    }
}

/// Returns how a podman service of ours is started, with its folders below the store.
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

async fn docker(socket: PathBuf) -> Result<AnyEngine, NoEngine> {
    let docker = Docker::at(socket.clone(), DockerBuilder::Classic);
    let can = docker.probe().await?;
    checked(&can)?;
    let builder = match can.has_buildkit && !crate::environment::refuses_buildkit() {
        true => DockerBuilder::BuildKit,
        false => DockerBuilder::Classic,
    };
    Ok(AnyEngine::Docker(Box::new(Docker::at(socket, builder))))
}

/// Refuses an engine that cannot keep a RUN from the network.
fn checked(can: &Capabilities) -> Result<(), NoEngine> {
    match can.run.is_isolated {
        true => Ok(()),
        false => Err("the engine cannot keep a RUN from the network".into()),
    }
}

fn is_there(address: &Address) -> Result<(), String> {
    match address {
        Address::PodmanProgram(program) if program.is_file() => Ok(()),
        Address::PodmanProgram(program) => Err(format!("`{}` is not there", program.display())),
        Address::Socket(socket) => std::os::unix::net::UnixStream::connect(socket)
            .map(drop)
            .map_err(|error| format!("`{}`: {error}", socket.display())),
    }
}
