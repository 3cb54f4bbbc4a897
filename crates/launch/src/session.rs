//! Starts a container and connects it to its caller: output, input, signals, terminal size. Removes
//! the container at the end, unless it runs in the background.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;

use engine::{
    ContainerRequest, Device, Engine, EngineError, Mount, Network, Output, PublishedPort,
};
use failure::{Failure, Kind};
use host::run::{Container, Groups};
use rustix::process::{Resource, getrlimit};
use text::sanitise::sanitise_line;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::prepare::{self, Prepared};

/// How many bytes at the end of the output are kept.
const LAST: usize = 256 << 10;

/// How a container ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; if a signal terminated it, 128 plus the signal's number.
    pub status: i64,
    /// The end of its output, including standard error.
    pub last: Vec<u8>,
}

/// The input of a container, in pieces; the channel closes at its end.
pub type Input = mpsc::Receiver<Vec<u8>>;

/// Passes on a piece of output, and whether it is standard error.
pub type PassOn = dyn Fn(&[u8], bool) -> Result<(), Failure>;

/// The caller of an attended container: a person or a program.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Whether input and output are both a terminal.
    pub has_terminal: bool,
    /// Whether input is passed on.
    pub has_input: bool,
    /// Returns the terminal's rows and columns.
    pub size: fn() -> Option<(u16, u16)>,
    /// Receives the output.
    pub output: &'a PassOn,
}

impl std::fmt::Debug for Caller<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { has_terminal, has_input, .. } = self;
        write!(formatter, "Caller {{ has_terminal: {has_terminal}, has_input: {has_input}, .. }}")
    }
}

/// Runs a container for its caller. `begin` is called once the container runs: it returns the
/// input, and a value that is kept until the output ends, such as a terminal in raw mode.
///
/// # Errors
/// The engine has no such image or fails, or the output cannot be passed on.
pub async fn attended<Kept>(
    engine: &Engine,
    prepared: &Prepared,
    container: &Container,
    caller: Caller<'_>,
    begin: impl FnOnce() -> (Kept, Option<Input>),
) -> Result<Ended, Failure> {
    run(engine, prepared, container, Some(caller), begin).await
}

/// Runs a container, and keeps the end of its output.
///
/// # Errors
/// The engine has no such image or fails.
pub async fn kept(
    engine: &Engine,
    prepared: &Prepared,
    container: &Container,
) -> Result<Ended, Failure> {
    run(engine, prepared, container, None, || ((), None)).await
}

/// Starts a container in the background, and returns its name. The container then belongs to the
/// user.
///
/// # Errors
/// The engine has no such image or fails.
pub async fn detached(
    engine: &Engine,
    prepared: &Prepared,
    container: &Container,
) -> Result<String, Failure> {
    if let Err(error) = engine.inspect(&container.image).await {
        return Err(no_image(&error, prepared, container));
    }
    prepare::make_folders(container, prepared.home.as_deref())?;
    let request = request(prepared, container, None)?;
    let id = engine.create_container(&request).await.map_err(failed)?;
    if let Err(error) = engine.start_container(&id).await {
        // Nothing else would remove a container that was never started.
        drop(engine.remove_container(&id).await);
        return Err(failed(error));
    }
    Ok(request.name.unwrap_or(id))
}

async fn run<Kept>(
    engine: &Engine,
    prepared: &Prepared,
    container: &Container,
    caller: Option<Caller<'_>>,
    begin: impl FnOnce() -> (Kept, Option<Input>),
) -> Result<Ended, Failure> {
    if let Err(error) = engine.inspect(&container.image).await {
        return Err(no_image(&error, prepared, container));
    }
    prepare::make_folders(container, prepared.home.as_deref())?;
    let request = request(prepared, container, caller)?;
    // From here on, signals are passed to the container, so that it is always removed.
    let signals = Signals::listen();
    let id = engine.create_container(&request).await.map_err(failed)?;
    let ended = through(engine, &id, caller, begin, signals).await;
    let removed = engine.remove_container(&id).await;
    let ended = ended?;
    removed.map_err(failed)?;
    Ok(ended)
}

/// Starts a container that was created, and waits until it has ended.
async fn through<Kept>(
    engine: &Engine,
    id: &str,
    caller: Option<Caller<'_>>,
    begin: impl FnOnce() -> (Kept, Option<Input>),
    mut signals: Signals,
) -> Result<Ended, Failure> {
    // The size matters only to a terminal.
    let size = caller.filter(|caller| caller.has_terminal).map(|caller| caller.size);
    let has_terminal = size.is_some();
    // podman creates the container's process when a client attaches, docker when it starts.
    let attached = match engine.attach(id, has_terminal).await {
        Ok(attached) => engine.start_container(id).await.map(|()| attached),
        Err(error) => Err(error),
    };
    let mut attached = match attached {
        Ok(attached) => attached,
        Err(error) => {
            let Some(program) = missing_program(&error.to_string()) else {
                return Err(failed(error));
            };
            let text = format!("the image has no program `{}`\n", sanitise_line(&program));
            if let Some(caller) = &caller {
                (caller.output)(text.as_bytes(), true)?;
            }
            return Ok(Ended { status: NOT_FOUND, last: text.into() });
        }
    };
    let (_kept, mut input) = begin();
    resize(engine, id, size).await;
    let mut last = VecDeque::new();
    loop {
        tokio::select! {
            piece = attached.output.next() => match piece {
                Ok(Some(Output { is_error, bytes })) => {
                    if let Some(caller) = &caller {
                        (caller.output)(&bytes, is_error)?;
                    }
                    last.extend(&bytes);
                    let excess = last.len().saturating_sub(LAST);
                    last.drain(..excess);
                }
                // A broken connection does not mean that the container ended; the status shows
                // whether it did.
                Ok(None) | Err(_) => break,
            },
            bytes = next_input(&mut input) => {
                let sent = match &bytes {
                    Some(bytes) => attached.input.send(bytes).await,
                    None => attached.input.finish().await,
                };
                if sent.is_err() || bytes.is_none() {
                    input = None;
                }
            },
            name = signals.next() => forward(engine, id, name, size).await,
        }
    }
    let mut waiting = std::pin::pin!(engine.wait_for_container(id));
    let status = loop {
        tokio::select! {
            status = &mut waiting => break status.map_err(failed)?,
            name = signals.next() => forward(engine, id, name, size).await,
        }
    };
    Ok(Ended { status, last: last.into() })
}

async fn next_input(input: &mut Option<Input>) -> Option<Vec<u8>> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the size of the caller's terminal, if there is one.
type Size = Option<fn() -> Option<(u16, u16)>>;

/// Passes a signal on to the container; a change of the terminal size is not passed on as a signal.
async fn forward(engine: &Engine, id: &str, name: &'static str, size: Size) {
    if name == "SIGWINCH" {
        return resize(engine, id, size).await;
    }
    // A container that has just ended accepts no signals.
    if let Err(error) = engine.signal_container(id, name).await {
        tracing::debug!(%error, name, "cannot forward a signal");
    }
}

async fn resize(engine: &Engine, id: &str, size: Size) {
    let Some(size) = size.and_then(|size| size()) else { return };
    if let Err(error) = engine.resize_container(id, size).await {
        tracing::debug!(%error, "cannot pass on the terminal's size");
    }
}

/// Returns the request for the engine.
fn request(
    prepared: &Prepared,
    container: &Container,
    caller: Option<Caller<'_>>,
) -> Result<ContainerRequest, Failure> {
    let run = project::build_env::new_run()?;
    let mut mounts = Vec::new();
    for folder in container.mounts() {
        mounts.push(Mount {
            source: prepare::on_host(&folder.host, prepared.home.as_deref())?,
            target: folder.container.clone().into(),
            is_read_only: folder.is_read_only,
            is_relabelled: container.relabels,
        });
    }
    let device = |path: &&'static str| Device {
        source: prepared.root.join(path.trim_start_matches('/')),
        target: Path::new(path).to_owned(),
    };
    let has_terminal = caller.is_some_and(|caller| caller.has_terminal);
    let has_input = caller.is_some_and(|caller| caller.has_input);
    let (open_files, processes) = limits(prepared);
    Ok(ContainerRequest {
        name: Some(format!("{}-{}", container.name(), std::process::id())),
        entrypoint: container.entrypoint.as_ref().map(|one| vec![one.clone()]),
        command: container.command.clone(),
        env: prepared.variables(container),
        devices: container.devices.iter().map(device).collect(),
        user: container.user.map(|(uid, gid)| format!("{uid}:{gid}")),
        groups: match &container.groups {
            Groups::None => Vec::new(),
            Groups::Keep => vec!["keep-groups".to_owned()],
            Groups::Numbers(all) => all.iter().map(ToString::to_string).collect(),
        },
        working_folder: container.work.map(str::to_owned),
        has_terminal,
        has_input,
        ports: container
            .port
            .iter()
            .map(|port| PublishedPort {
                address: port.address.clone(),
                host: port.host,
                container: port.container,
            })
            .collect(),
        mounts,
        network: match container.network {
            host::run::Network::Own => None,
            host::run::Network::Host => Some(Network::Host),
            host::run::Network::None => Some(Network::None),
        },
        open_files,
        processes,
        shared_memory: container.shared_memory.map(|size| i64::from(size) << 30),
        security: container.security.iter().map(|option| (*option).to_owned()).collect(),
        is_detached: container.is_detached,
        ..ContainerRequest::new(run, &container.image)
    })
}

/// Returns the limits to request from an engine that needs them, such as podman, when it runs as
/// root. By default, podman requests more than a machine may allow, and then cannot start the
/// container; its service also raises its own process limit to the maximum. Other engines choose
/// valid limits themselves.
fn limits(prepared: &Prepared) -> (Option<i64>, Option<i64>) {
    if !prepared.engine_kind().facts().needs_limits || prepared.machine.user.uid != 0 {
        return (None, None);
    }
    let numbers = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let numbers = numbers.trim().parse().unwrap_or(4 << 20);
    let lower = |resource: Resource, default: u64, most: u64| {
        let most = getrlimit(resource).maximum.map_or(most, |own| own.min(most));
        i64::try_from(most).ok().filter(|_| most < default)
    };
    (lower(Resource::Nofile, 1 << 20, 1 << 20), lower(Resource::Nproc, 4 << 20, numbers))
}

/// The exit status of a shell and of `podman run` if the image has no such program.
const NOT_FOUND: i64 = 127;

/// Returns the program that the image lacks, from the message of runc or crun about it.
fn missing_program(text: &str) -> Option<String> {
    let is_missing = text.contains("executable file")
        && text.contains("not found")
        && !text.contains("permission denied")
        || text.contains("exec: ") && text.contains(": no such file or directory");
    let (_, rest) = ["exec: \"", "exec: \\\"", "executable file `"]
        .iter()
        .find_map(|start| text.split_once(start))
        .filter(|_| is_missing)?;
    let end = rest.find(['"', '\\', '`', '\''])?;
    Some(rest[..end].to_owned())
}

fn failed(error: EngineError) -> Failure {
    let told = Failure::from_chain(Kind::Machine, &error);
    match error {
        EngineError::Runtime { .. } | EngineError::Refused { .. } => {
            // Networks of podman as root need nft.
            let lacks_nft = told.lines().join(" ").contains("unable to execute nft");
            let told = if lacks_nft { told.hint("install the package nftables") } else { told };
            told.hint("`build-pipeline doctor` checks devices, groups and engines")
        }
        _ => told,
    }
}

fn no_image(error: &EngineError, prepared: &Prepared, container: &Container) -> Failure {
    let (image, track) = (&container.image, &container.track);
    let EngineError::NotFound { .. } = error else {
        return Failure::from_chain(Kind::Machine, error);
    };
    let engine = prepared.engine_kind();
    let told = Failure::new(Kind::Machine, format!("{engine} has no image `{image}`"));
    if image.starts_with("localhost/") {
        told.hint(format!(
            "`build-pipeline --track {track}{} --load --engine {engine}` builds and loads the image",
            prepared.gpu_option
        ))
        .hint("`--image NAME` runs another image")
    } else {
        told.hint(format!("`{engine} pull {image}` fetches it"))
    }
}

/// The signals that are passed on, and the one that reports a new terminal size.
struct Signals(Vec<(&'static str, Signal)>);

impl Signals {
    fn listen() -> Self {
        let all = [
            ("SIGINT", SignalKind::interrupt()),
            ("SIGTERM", SignalKind::terminate()),
            ("SIGHUP", SignalKind::hangup()),
            ("SIGQUIT", SignalKind::quit()),
            ("SIGUSR1", SignalKind::user_defined1()),
            ("SIGUSR2", SignalKind::user_defined2()),
            ("SIGWINCH", SignalKind::window_change()),
        ];
        // A signal that cannot be handled keeps its default action.
        let listened = all.into_iter().filter_map(|(name, kind)| Some((name, signal(kind).ok()?)));
        Self(listened.collect())
    }

    /// Waits for one of the signals.
    async fn next(&mut self) -> &'static str {
        poll_fn(|context| {
            for (name, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*name);
                }
            }
            Poll::Pending
        })
        .await
    }
}
