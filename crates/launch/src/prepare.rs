//! Defines a track's container from the request, the data files, the machine and the engine.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use engine::Engine;
use failure::{Failure, Kind};
use host::Snapshot;
use host::run::{self, Container, Folder, GpuWay, Port, Row, RunError, Wish};
use names::{EngineKind, GfxVersion, Secret, TrackName};
use pins::{Gpus, OVERRIDE, When};
use plan::labels;
use project::image::name_in_engine;
use project::{environment, request, state};

use crate::additions::{Added, Additions};
use crate::engines;
use crate::gpu_use::{self, GpuUse};
use crate::machine::{self, Data};
use crate::notice::Notice;
use crate::products;

/// The requested properties of a container.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The name of the image in the engine; if `None`, the track's image.
    pub image: Option<String>,
    /// The GPU target; if `None`, the machine's.
    pub gpu: Option<String>,
    /// The engine; if `None`, the first one that answers.
    pub engine: Option<EngineKind>,
    /// The models folder; if `None`, the one in `versions/run.toml`.
    pub models: Option<PathBuf>,
    /// Whether the container gets the GPU.
    pub has_gpu: bool,
    /// The container's network.
    pub network: run::Network,
    /// Where to look for device nodes and the GPU; if `None`, below `/`.
    pub host_root: Option<PathBuf>,
    /// The folder to mount as the working directory.
    pub work: Option<PathBuf>,
    /// The caller's own variables and volumes.
    pub additions: Additions,
}

impl Asked {
    /// Returns the same with the GPU target, if the name of a product was given.
    fn with_target(&self, gpus: &Gpus) -> Result<Self, Failure> {
        let target = |text: &String| products::known(text, gpus);
        let gpu = self.gpu.as_ref().map(target).transpose()?.map(|gpu| gpu.to_string());
        Ok(Self { gpu, ..self.clone() })
    }
}

/// The inputs of a container.
#[derive(Debug)]
pub struct Prepared {
    /// The track.
    pub track: TrackName,
    /// Its row in `versions/run.toml`.
    pub row: Row,
    /// The option that builds the image for the same GPU, if that is not the project's default
    /// target.
    pub gpu_option: String,
    /// The machine.
    pub machine: Snapshot,
    /// The folder that replaces `/`.
    pub root: PathBuf,
    /// The caller's home directory.
    pub home: Option<String>,
    /// Whether the container gets a GPU.
    pub has_gpu: bool,
    /// The GPU target that the caller named.
    gpu: Option<String>,
    engine: Option<Engine>,
    facts: host::Engine,
    image: String,
    environment: BTreeMap<String, String>,
    models: Option<String>,
    work: Option<String>,
    network: run::Network,
    added: Added,
    /// The folder of the project, if there is one.
    project: Option<PathBuf>,
    /// The folder of the host that is the container's home.
    container_home: String,
    /// Whether the caller specified the image.
    is_image_named: bool,
}

impl Prepared {
    /// Reads all inputs. Paths are relative to `here`. If the container `is_started`, the engine
    /// must answer and the device nodes must exist; otherwise, the information in files is enough.
    /// `tell` receives notices about unusual choices.
    ///
    /// # Errors
    /// A data file or a path is wrong, or no engine answers although one must.
    pub async fn read(
        here: &Path,
        track: &str,
        asked: &Asked,
        is_started: bool,
        tell: &dyn Fn(Notice),
    ) -> Result<Self, Failure> {
        let data = Data::find(here);
        let tracks = data.tracks()?;
        let track = request::track(track, &tracks)?;
        let mut rows = data.run()?;
        // A track without a row uses the row of the track that it is based on.
        let row = tracks.chain(&track).into_iter().find_map(|(name, _)| rows.remove(name));
        let row = row.unwrap_or_default();
        let root = machine::root(here, asked.host_root.as_deref())?;
        let machine = machine::look(&root);
        let has_gpu = asked.has_gpu;
        let asked = &asked.with_target(&data.gpus()?)?;
        let other_gpu = asked.gpu.as_deref().filter(|gpu| *gpu != tracks.gpu.as_str());
        let (engine, facts) = engine(asked, &machine, is_started, tell).await?;
        let full = |path: &Path| full_folder(here, path);
        let work = match asked.work.as_deref() {
            Some(work) => Some(full(work)?),
            None if row.has_work => Some(full(Path::new("."))?),
            None => None,
        };
        if let Some(work) = &work {
            check_size(work, "as the working directory", &machine).map_err(|error| {
                error.hint("change to the folder with the code, or specify it with `--work DIR`")
            })?;
        }
        let added = asked.additions.read(here)?;
        for volume in &added.volumes {
            check_size(&volume.host, "into the container", &machine)
                .map_err(|error| error.hint("specify the folder that the container needs"))?;
        }
        for name in added.unset().filter(|_| is_started) {
            tell(Notice::warning(
                "unset-variable",
                format!("`--env {name}` has no effect, because the variable is not set"),
            ));
        }
        Ok(Self {
            environment: variables(asked, &added, &data, &track, &row, &machine, tell)?,
            image: match &asked.image {
                Some(image) => image.clone(),
                None => name_in_engine(&plan::image_name(track.as_str(), None, other_gpu)),
            },
            gpu_option: other_gpu.map(|gpu| format!(" --gpu {gpu}")).unwrap_or_default(),
            models: asked.models.as_deref().map(full).transpose()?,
            network: asked.network,
            home: machine.variable("HOME").map(str::to_owned),
            container_home: data.home_of(&track)?,
            project: data.folder().map(Path::to_owned),
            is_image_named: asked.image.is_some(),
            work,
            track,
            row,
            machine,
            root,
            has_gpu,
            gpu: asked.gpu.clone(),
            engine,
            facts,
            added,
        })
    }

    /// Returns the container's settings; the caller can add more.
    ///
    /// # Errors
    /// `LOCAL_UID` or `LOCAL_GID` is invalid.
    pub fn wish(&self) -> Result<Wish<'_>, Failure> {
        Ok(Wish {
            track: self.track.clone(),
            row: &self.row,
            machine: &self.machine,
            engine: &self.facts,
            image: self.image.clone(),
            home: self.container_home.clone(),
            entrypoint: None,
            command: Vec::new(),
            environment: self.environment.clone(),
            models: self.models.clone(),
            work: self.work.clone(),
            owner: self.owner()?,
            publish: ("127.0.0.1".to_owned(), None),
            network: self.network,
            has_gpu: self.has_gpu,
            variables: self.added.variables.clone(),
            volumes: self.added.volumes.clone(),
            is_detached: false,
        })
    }

    /// Returns all variables of a container with their values.
    pub fn variables(&self, container: &Container) -> BTreeMap<String, String> {
        let secret = |(name, value): (&String, &Secret)| (name.clone(), value.expose().to_owned());
        self.added.secrets.iter().map(secret).chain(container.environment.clone()).collect()
    }

    /// Returns the engine that answered.
    ///
    /// # Errors
    /// No engine was requested, which would be a bug.
    pub fn engine(&self) -> Result<&Engine, Failure> {
        let none = || Failure::new(Kind::Bug, "no engine was requested");
        self.engine.as_ref().ok_or_else(none)
    }

    /// Checks that the image was not built by another project with a track of the same name. The
    /// engine has only one image of that name.
    ///
    /// # Errors
    /// Another project built the image, and this one did not.
    pub async fn check_project(&self) -> Result<(), Failure> {
        let Some(root) = self.project.as_deref().filter(|_| !self.is_image_named) else {
            return Ok(());
        };
        // A missing image is reported when the container starts.
        let Ok(image) = self.engine()?.inspect(&self.image).await else { return Ok(()) };
        let Some(plan) = image.labels.get(labels::PLAN_DIGEST) else { return Ok(()) };
        let track = &self.track;
        let Some(other) = state::builder_elsewhere(root, track.as_str(), plan) else {
            return Ok(());
        };
        let what = format!(
            "`{}` is the image of track `{track}` of another project, `{other}`",
            self.image
        );
        Err(Failure::new(Kind::Failed, what)
            .hint(format!(
                "`build-pipeline --track {track}{} --load` replaces it with this project's image",
                self.gpu_option
            ))
            .hint(format!("to keep both, load this project's image under another name with `--output engine:localhost/NAME/{track}:latest`, and run that image with `--image`")))
    }

    /// Checks that the image contains code for this machine's GPU, if its label lists the GPUs that
    /// it was checked for. A target that the caller named replaces the machine's.
    ///
    /// # Errors
    /// The image contains no code for any GPU of this machine.
    pub async fn check_gpu(&self) -> Result<(), Failure> {
        // A missing image is reported when the container starts.
        let Ok(image) = self.engine()?.inspect(&self.image).await else { return Ok(()) };
        let Some(checked) = image.labels.get(labels::GPU_TARGETS) else { return Ok(()) };
        let found = self.machine.gpus.iter().filter_map(|gpu| gpu.target.as_ref());
        let gpus: Vec<String> = match &self.gpu {
            Some(named) => vec![named.clone()],
            None => found.map(ToString::to_string).collect(),
        };
        let has = |gpu: &str| checked.split(' ').any(|one| one == gpu);
        // An image that makes ROCm assume another GPU runs the code for that GPU.
        let spoof =
            image.labels.get(labels::SPOOF).and_then(|text| text.parse::<GfxVersion>().ok());
        let imitates = |gpu: &str| {
            let own = gpu.parse().ok().and_then(|gpu| GfxVersion::of_target(&gpu));
            // Another generation has different instructions.
            spoof.zip(own).is_some_and(|(spoof, own)| {
                spoof.major() == own.major()
                    && spoof.target().is_some_and(|imitated| has(imitated.as_str()))
            })
        };
        if gpus.is_empty() || gpus.iter().any(|gpu| has(gpu) || imitates(gpu)) {
            return Ok(());
        }
        Err(lacks_code(&self.image, checked, &gpus))
    }

    /// Returns the kind of the engine.
    pub fn engine_kind(&self) -> EngineKind {
        self.facts.kind
    }

    /// Returns the owner of files: `LOCAL_UID` and `LOCAL_GID`, or else the caller.
    fn owner(&self) -> Result<(u32, u32), Failure> {
        let (uid, gid) = environment::local_ids()?;
        let user = &self.machine.user;
        let own_gid = rustix::process::getegid().as_raw();
        Ok((uid.unwrap_or(user.uid), gid.unwrap_or(own_gid)))
    }
}

/// Returns the error for an image that was built for `checked`, and has no code for any of `gpus`.
fn lacks_code(image: &str, checked: &str, gpus: &[String]) -> Failure {
    let (are, this) =
        if gpus.len() > 1 { ("GPUs are", "one of these GPUs") } else { ("GPU is", "this GPU") };
    let all = gpus.join(" and ");
    let what = format!("`{image}` was built for {checked}, but the {are} {all}");
    let first = gpus.first().map(String::as_str).unwrap_or_default();
    Failure::new(Kind::Failed, what)
        .hint(format!("build the image for {this}: `--gpu {first}`"))
        .hint("`--force` runs the image anyway")
}

/// Returns the engine, if one is required or answers, and its properties.
async fn engine(
    asked: &Asked,
    machine: &Snapshot,
    is_started: bool,
    tell: &dyn Fn(Notice),
) -> Result<(Option<Engine>, host::Engine), Failure> {
    let mut silent = None;
    if is_started || asked.host_root.is_none() {
        match engines::reach(asked.engine, machine, tell).await {
            Ok((engine, facts)) => return Ok((Some(engine), facts)),
            Err(error) if is_started => return Err(error),
            Err(error) => silent = Some(error),
        }
    }
    let wanted = asked.engine;
    if let Some(engine) = assumed(machine, wanted) {
        let place = engine.socket.as_ref().map(|socket| format!(" at {socket}"));
        let place = place.unwrap_or_default();
        if let Some(error) = silent {
            let why = error.lines().join(": ");
            let kind = engine.kind;
            tell(Notice::warning(
                "engine-silent",
                format!("{why}; the output is for {kind}{place}, and works only if {kind} does"),
            ));
        }
        return Ok((None, engine.clone()));
    }
    let kind = wanted.unwrap_or(EngineKind::ALL[0]);
    tell(Notice::Hint("no engine was found; assuming one with default settings".to_owned()));
    let is_rootless = kind.facts().is_daemonless && machine.user.uid != 0;
    let runtime = Some(kind.facts().usual_runtime.to_owned());
    let facts = host::Engine { runtime, ..host::Engine::new(kind, None, is_rootless) };
    Ok((None, facts))
}

/// Returns the engine that files are written for if none answers: the user's own one, otherwise the
/// first that the user may open, otherwise any.
fn assumed(machine: &Snapshot, wanted: Option<EngineKind>) -> Option<&host::Engine> {
    let is_wanted = |engine: &&host::Engine| wanted.is_none_or(|kind| engine.kind == kind);
    let all = || machine.engines.iter().filter(is_wanted);
    machine
        .selected_engine()
        .filter(is_wanted)
        .or_else(|| all().find(|engine| engine.is_usable()))
        .or_else(|| all().next())
}

/// Returns the GPU's environment variables for the track's image.
fn variables(
    asked: &Asked,
    added: &Added,
    data: &Data,
    track: &TrackName,
    row: &Row,
    machine: &Snapshot,
    tell: &dyn Fn(Notice),
) -> Result<BTreeMap<String, String>, Failure> {
    if row.gpu != GpuWay::Rocm || !asked.has_gpu {
        return Ok(BTreeMap::new());
    }
    let gpus = data.gpus()?;
    let (gpu, _) = machine::choose_gpu(asked.gpu.as_deref(), &gpus, &machine.gpus, data, tell)?;
    let (tracks, pins) = (data.tracks()?, data.pins()?);
    let chain = tracks.chain(track);
    let base = chain.last().and_then(|(_, lowest)| lowest.base_pin());
    let pin = base.and_then(|base| pins.images.get(base));
    let rocm = pin.and_then(|pin| pin.rocm.as_deref());
    let gpu_use = GpuUse { gpus: &gpus, gpu: &gpu, rocm, program: row.program.as_deref() };
    // An image with a spoof sets the override itself, and the user can switch it off.
    let is_set = tracks.is_spoof(track) || added.variables.has(OVERRIDE);
    // An image that was built for the GPU has no code for the one that the override names.
    let needs_none = is_set || tracks.has_gpu_code(track);
    let spoof = gpus.wanted_override(&gpu, rocm).filter(|_| !needs_none);
    if spoof.is_some() {
        gpu_use.warn_of_override(tell);
    }
    let known = gpus.gpus.get(&gpu).and_then(|known| known.spoof);
    let version = known.map_or("X.Y.Z".to_owned(), |version| version.to_string());
    let option = format!("--env {OVERRIDE}={version}");
    gpu_use.limits(&data.programs()?, is_set || spoof.is_some(), &option, tell);
    let mut set: Vec<pins::Setting> = machine::visible(&gpu, &machine.gpus).into_iter().collect();
    if !set.is_empty() && asked.gpu.is_none() {
        let selects = "selects another GPU, and the image for it";
        gpu_use::tell_hidden(&gpu, &machine.gpus, selects, tell);
    }
    if !set.is_empty() && !added.variables.has("ROCR_VISIBLE_DEVICES") {
        for (name, value) in &added.variables.values {
            gpu_use::warn_of_index(name, value, "leave out this variable", tell);
        }
    }
    set.extend(machine.wsl.as_ref().and_then(|wsl| wsl.setting(rocm)));
    set.extend(gpu_use.settings(&[When::Run], spoof));
    // If the track sets a variable to a different value, that value is intended.
    let own = |name: &str| chain.iter().find_map(|(_, link)| link.image.env.get(name));
    set.retain(|setting| own(&setting.name).is_none_or(|value| *value == setting.value));
    Ok(set.into_iter().map(|setting| (setting.name, setting.value)).collect())
}

/// Refuses `/`, and the home directory if SELinux would have to relabel all of its files.
fn check_size(folder: &str, purpose: &str, machine: &Snapshot) -> Result<(), Failure> {
    let is_home = machine.variable("HOME").is_some_and(|home| Path::new(home) == Path::new(folder));
    let is_relabelled = machine.selinux_enforces == Some(true);
    if folder != "/" && !(is_home && is_relabelled) {
        return Ok(());
    }
    Err(Failure::new(Kind::Input, format!("`{folder}` is too large to mount {purpose}")))
}

fn full_folder(here: &Path, path: &Path) -> Result<String, Failure> {
    let wrong = |why: String| Failure::new(Kind::Input, why).hint("specify an existing folder");
    let full = here
        .join(path)
        .canonicalize()
        .map_err(|error| wrong(format!("`{}` cannot be mounted: {error}", path.display())))?;
    match full.to_str() {
        Some(text) if full.is_dir() => Ok(text.to_owned()),
        _ => Err(wrong(format!("`{}` is not a folder with a UTF-8 name", path.display()))),
    }
}

/// Parses `[ADDRESS:]PORT`.
///
/// # Errors
/// It is not an address and port.
pub fn publish(text: &str) -> Result<(String, Option<u16>), Failure> {
    let (address, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let inside = address.trim_start_matches('[').trim_end_matches(']');
    let is_address = inside.parse::<std::net::IpAddr>().is_ok();
    match port.parse::<u16>() {
        Ok(port) if is_address && port > 0 => Ok((address.to_owned(), Some(port))),
        _ => Err(Failure::new(
            Kind::Input,
            format!("`--publish {text}` is not an address and port"),
        )
        .hint("use `--publish 8001`, or `--publish 0.0.0.0:8001` to give other machines access")),
    }
}

/// Checks that a container has a port to publish.
///
/// # Errors
/// It has none.
pub fn check_publish(container: &Container, network: run::Network) -> Result<(), Failure> {
    if container.port.is_some() {
        return Ok(());
    }
    let (why, hint) = match network {
        run::Network::Own => {
            (format!("track `{}` serves on no port", container.track), "leave out `--publish`")
        }
        run::Network::None => ("there is no network".to_owned(), "leave out `--network none`"),
        run::Network::Host => (
            "all ports of the container are ports of the host".to_owned(),
            "leave out `--publish`, and select the port with an option of the server",
        ),
    };
    Err(Failure::new(Kind::Input, format!("`--publish` has no effect: {why}")).hint(hint))
}

/// Checks that the host port of a container is free.
///
/// # Errors
/// The port is in use.
pub fn check_port(container: &Container) -> Result<(), Failure> {
    let Some(Port { address, host, .. }) = &container.port else { return Ok(()) };
    let inside = address.trim_start_matches('[').trim_end_matches(']');
    match TcpListener::bind((inside, *host)) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        // Ignore other errors: the engine may have different permissions.
        _ => return Ok(()),
    }
    let track = &container.track;
    let other = host.checked_add(1).unwrap_or(8001);
    let what =
        format!("port {host} on {address}, on which track `{track}` serves, is already in use");
    Err(Failure::new(Kind::Machine, what)
        .hint(format!("`--publish {other}` publishes the track on another port"))
        .hint(format!("`ss -ltnp sport = :{host}` shows the program that uses it")))
}

/// Converts a `RunError` into a failure with hints.
pub fn run_error(error: RunError) -> Failure {
    let code = match &error {
        RunError::NoDevice { .. } | RunError::NoLibrary => Kind::Machine,
        RunError::Path { .. } | RunError::Quadlet { .. } | RunError::Unprintable { .. } => {
            Kind::Input
        }
    };
    let told = Failure::from_chain(code, &error);
    match error {
        RunError::NoDevice { .. } | RunError::NoLibrary => told
            .hint("`build-pipeline doctor` shows the reason and the fix")
            .hint("`--no-gpu` runs the image without a GPU"),
        RunError::Path { .. } => {
            told.hint("engines use such characters as separators; choose another folder")
        }
        RunError::Unprintable { .. } => told.hint(
            "remove the character, or pass the variable on from the environment: `--env NAME`",
        ),
        RunError::Quadlet { .. } => told.hint("`--engine podman` writes a quadlet for podman"),
    }
}

/// Returns the path of a folder, with `~` replaced by the caller's home directory.
///
/// # Errors
/// The path starts with `~/`, and there is no home directory.
pub fn on_host(path: &str, home: Option<&str>) -> Result<PathBuf, Failure> {
    match (path.strip_prefix("~/"), home) {
        (None, _) => Ok(PathBuf::from(path)),
        (Some(rest), Some(home)) => Ok(Path::new(home).join(rest)),
        (Some(_), None) => {
            let what = format!("there is no home directory for `{path}`");
            Err(Failure::new(Kind::Machine, what).hint("set `HOME` to an absolute path"))
        }
    }
}

/// Creates the host folders that a container needs, if this tool may create them.
///
/// # Errors
/// A folder cannot be created.
pub fn make_folders(container: &Container, home: Option<&str>) -> Result<(), Failure> {
    for folder in container.folders.iter().filter(|folder| folder.is_made) {
        let path = on_host(&folder.host, home)?;
        std::fs::create_dir_all(&path).map_err(|error| not_made(folder, &path, &error))?;
    }
    Ok(())
}

/// Returns the error for a folder of a container that cannot be created at `path`.
fn not_made(folder: &Folder, path: &Path, error: &std::io::Error) -> Failure {
    let what = format!("creating the folder `{}` failed", path.display());
    let choice = if folder.container == run::HOME {
        "another cache with `XDG_CACHE_HOME` or `cache` in config.toml"
    } else {
        "another folder with `--models DIR`"
    };
    Failure::caused(Kind::Machine, what, error)
        .hint(format!("check its permissions, or choose {choice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_a_folder_names_the_setting_that_moves_it() {
        let hints = |container: &str| {
            let folder = Folder {
                host: "~/x".to_owned(),
                container: container.to_owned(),
                is_made: true,
                is_read_only: false,
            };
            not_made(&folder, Path::new("/x"), &ErrorKind::PermissionDenied.into()).hints.concat()
        };
        assert!(hints(run::HOME).contains("`XDG_CACHE_HOME`"), "{}", hints(run::HOME));
        assert!(hints("/models").contains("`--models DIR`"), "{}", hints("/models"));
    }

    #[test]
    fn the_hint_for_another_gpu_is_one_option() {
        for (gpus, says, hint) in [
            (&["gfx1100"][..], "the GPU is gfx1100", "this GPU: `--gpu gfx1100`"),
            (
                &["gfx1100", "gfx1036"],
                "the GPUs are gfx1100 and gfx1036",
                "one of these GPUs: `--gpu gfx1100`",
            ),
        ] {
            let gpus: Vec<String> = gpus.iter().map(|gpu| (*gpu).to_owned()).collect();
            let failure = lacks_code("localhost/x:latest", "gfx1151", &gpus);
            assert!(failure.lines().concat().ends_with(says), "{failure:?}");
            assert!(failure.hints[0].ends_with(hint), "{failure:?}");
        }
    }
}
