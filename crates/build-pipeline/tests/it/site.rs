//! The program on a machine with engines of another release, and the engine's content before and
//! after.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Guest, Machine, User, busybox_root, parent_of, shared_registry};

use crate::built::tiny_project;
use crate::dsl::{Project, Ran, ran};

/// The builder, and the mode that it runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// podman as root.
    Podman,
    /// podman as an ordinary user.
    RootlessPodman,
    /// docker's classic builder.
    Classic,
    /// docker's BuildKit.
    BuildKit,
    /// docker's classic builder with the containerd image store.
    ClassicInContainerd,
    /// docker's BuildKit with the containerd image store.
    BuildKitInContainerd,
}

impl Way {
    pub(crate) fn engine(self) -> &'static str {
        match self {
            Self::Podman | Self::RootlessPodman => "podman",
            _ => "docker",
        }
    }

    /// Returns the name that distinguishes it from the engine's other modes.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Podman => "as root",
            Self::RootlessPodman => "rootless",
            Self::Classic => "classic builder",
            Self::BuildKit => "BuildKit",
            Self::ClassicInContainerd => "classic builder, containerd store",
            Self::BuildKitInContainerd => "BuildKit, containerd store",
        }
    }

    fn is_classic(self) -> bool {
        matches!(self, Self::Classic | Self::ClassicInContainerd)
    }

    fn has_containerd_store(self) -> bool {
        matches!(self, Self::ClassicInContainerd | Self::BuildKitInContainerd)
    }

    fn user(self) -> User {
        if self == Self::RootlessPodman { User::Ordinary } else { User::Root }
    }
}

/// A project on a machine whose engine already contains somebody else's objects.
pub(crate) struct Site {
    // The machine stops before its folders are removed.
    machine: Machine,
    way: Way,
    socket: Option<PathBuf>,
    pub(crate) project: Project,
    /// The name under which somebody else pulled the base.
    pulled: String,
}

/// The content of an engine: containers, images, volumes, the image that somebody else pulled, and
/// the space that images and volumes take up according to `system df`.
pub(crate) type Contents = [Vec<String>; 6];

/// The command that builds the variant.
pub(crate) const BUILD: &str = "--track vulkan --variant tiny";

impl Site {
    /// Starts a machine with the engines of a release, and creates a project whose variant `tiny`
    /// has a Dockerfile.
    pub(crate) fn new(suite: &str, way: Way, dockerfile: &str) -> Self {
        let guest = Guest::with_engines(suite);
        let (project, base) = tiny_project(dockerfile);
        foreign_root(&project);
        give_away(way, &project);
        let program = Path::new(env!("CARGO_BIN_EXE_build-pipeline"));
        let machine = Machine::start(&guest, &[&project.path(""), program]);
        let socket =
            (way.engine() == "docker").then(|| machine.start_docker(way.has_containerd_store()));
        let pulled = format!("{}/built/tiny@{base}", shared_registry().host());
        let site = Self { machine, way, socket, project, pulled };
        site.fill();
        site
    }

    /// Adds somebody else's images and a container to the engine. One image has no name, and one
    /// has the layers of the base.
    fn fill(&self) {
        let tar = self.project.path("base.tar").display().to_string();
        self.engine(&["import", "--change=ENV PATH=/bin", &tar, "localhost/foreign:1"]);
        self.engine(&["import", "--change=ENV PATH=/bin FOREIGN=1", &tar]);
        let create = ["create", "--network=none", "--name=foreign", "localhost/foreign:1", "true"];
        self.engine(&create);
        let pull = if self.way.engine() == "podman" {
            &["pull", "--tls-verify=false"][..]
        } else {
            &["pull"]
        };
        self.engine(&[pull, &[self.pulled.as_str()]].concat());
    }

    pub(crate) fn engine_name(&self) -> &'static str {
        self.way.engine()
    }

    pub(crate) fn is_rootless(&self) -> bool {
        self.way.user() == User::Ordinary
    }

    /// Returns the engine with its version.
    pub(crate) fn version(&self) -> String {
        let of = if self.way.engine() == "podman" {
            "{{.Client.Version}}"
        } else {
            "{{.Server.Version}}"
        };
        let version = self.engine(&["version", "--format", of]).concat();
        let version = version.split('+').next().unwrap();
        format!("{} {version}", self.way.engine())
    }

    /// Returns podman or docker itself, to run on the machine.
    fn command_of_engine(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.way.engine());
        command.args(arguments).env("HOME", self.project.path("home"));
        if let Some(socket) = &self.socket {
            command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
        }
        self.machine.inside(self.way.user(), &command)
    }

    /// Runs podman or docker itself, and returns its output lines, sorted.
    pub(crate) fn engine(&self, arguments: &[&str]) -> Vec<String> {
        sorted_lines(&ran(self.command_of_engine(arguments).output().unwrap()).expect(0).stdout)
    }

    /// Runs podman or docker itself like [`Self::engine`]. docker 28 with the containerd store may
    /// fail to list images while it removes something (`snapshot … does not exist`).
    fn listed(&self, arguments: &[&str]) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            let ran = ran(self.command_of_engine(arguments).output().unwrap());
            let is_final = !self.way.has_containerd_store() || Instant::now() > deadline;
            if ran.code == 0 || is_final {
                return sorted_lines(&ran.expect(0).stdout);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Returns everything in the engine. First removes the images that keep layers of killed
    /// builds: `clean` does that an hour later.
    pub(crate) fn contents(&self) -> Contents {
        if self.way.engine() == "podman" {
            let adopted = "label=io.github.build-pipeline.adopted";
            let list = ["images", "--all", "--quiet", "--no-trunc", "--filter", adopted];
            for image in self.engine(&list) {
                self.engine(&["rmi", &image]);
            }
        }
        let external: &[&str] = if self.way.engine() == "podman" { &["--external"] } else { &[] };
        let list = ["--all", "--no-trunc", "--format"];
        let containers = [&["ps"], external, &list, &["{{.ID}} {{.Names}} {{.Image}}"]].concat();
        let images = [
            &["images", "--digests"],
            &list[..],
            &["{{.ID}} {{.Repository}}:{{.Tag}} {{.Digest}}"],
        ]
        .concat();
        let volumes = ["volume", "ls", "--format", "{{.Name}}"];
        // docker does not list images that have only a digest.
        let pulled = ["inspect", "--format", "{{.Id}} {{json .RepoDigests}}", &self.pulled];
        let count = if self.way.engine() == "podman" { "Total" } else { "TotalCount" };
        // In the containerd store, BuildKit's cache, which is kept, is counted as part of the
        // images.
        let size = if self.way == Way::BuildKitInContainerd { "" } else { "{{.Size}}" };
        let space = format!("{{{{.Type}}}} {{{{.{count}}}}} {size}");
        let space = ["system", "df", "--format", &space];
        let [containers, images, volumes, pulled, space] =
            [&containers[..], &images, &volumes, &pulled, &space]
                .map(|arguments| self.listed(arguments));
        let mut contents = [containers, images, volumes, pulled, space, self.layers()];
        // BuildKit's cache is kept, and docker may count a container that it has already removed.
        contents[4].retain(|line| line.starts_with("Images") || line.starts_with("Local Volumes"));
        assert_eq!(contents[4].len(), 2, "{contents:?}");
        if self.way.engine() == "docker" {
            contents[0].retain(|line| self.has_container(line));
        }
        contents
    }

    /// Returns the layers in podman's store, with their parents. No podman command lists layers
    /// that belong to no image.
    fn layers(&self) -> Vec<String> {
        if self.way.engine() != "podman" {
            return Vec::new();
        }
        let store = "{{.Store.GraphRoot}}/{{.Store.GraphDriverName}}-layers/layers.json";
        let file = self.engine(&["info", "--format", store]).concat();
        let text = self.machine.said(User::Root, "cat", &[&file]).concat();
        let layers: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        layers.iter().map(|layer| format!("{} {}", layer["id"], layer["parent"])).collect()
    }

    /// Returns whether the container in a line of `docker ps` exists. docker may list a container
    /// that it has already removed (moby#51692).
    fn has_container(&self, line: &str) -> bool {
        let id = line.split(' ').next().unwrap();
        let format = "--format={{.Id}}";
        ran(self.command_of_engine(&["inspect", "--type=container", format, id]).output().unwrap())
            .code
            == 0
    }

    /// Makes the user who builds the owner of everything in the project.
    #[cfg(feature = "engines")]
    pub(crate) fn give_away(&self) {
        give_away(self.way, &self.project);
    }

    /// Runs a shell script on the machine, as root.
    #[cfg(feature = "engines")]
    pub(crate) fn shell(&self, script: &str) {
        self.machine.said(User::Root, "sh", &["-c", script]);
    }

    /// Returns the program with a command line, to run on the machine.
    pub(crate) fn command(&self, line: &str) -> Command {
        self.command_of(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn command_of(&self, words: &[&str]) -> Command {
        let mut command = self.project.command(words);
        if matches!(words.first(), Some(&("--track" | "verify"))) {
            command.arg("--mirror");
            command.arg(format!("registry.example.org={}", shared_registry().host()));
        }
        if let Some(socket) = &self.socket {
            command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
        }
        if self.way.is_classic() {
            command.env("DOCKER_BUILDKIT", "0");
        }
        self.machine.inside(self.way.user(), &command)
    }

    /// Runs a command line.
    pub(crate) fn run(&self, line: &str) -> Ran {
        ran(self.command(line).output().unwrap())
    }

    /// Starts the build, and waits until it prints a line that contains `text`, or ends.
    pub(crate) fn begin_until(&self, text: &str) -> Started {
        let mut started = self.begin();
        let output = started.child.stderr.take().unwrap();
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let found = lines.by_ref().find(|line| line.contains(text));
        assert!(found.is_some(), "the build does not print `{text}`");
        // The build must not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        started
    }

    /// Kills everything that runs on the machine: the program, and podman with all its processes.
    pub(crate) fn kill_all(&self, mut started: Started) {
        self.machine.kill_all();
        started.child.wait().unwrap();
    }

    /// Starts the build.
    pub(crate) fn begin(&self) -> Started {
        let mut command = self.command(&format!("{BUILD} --engine {}", self.way.engine()));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Started { child: command.spawn().unwrap() }
    }
}

fn sorted_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Makes the user who builds the owner of everything in a project.
fn give_away(way: Way, project: &Project) {
    if way.user() == User::Ordinary {
        let owner = format!("{0}:{0}", testkit::ORDINARY_USER);
        let mut command = Command::new("chown");
        assert!(command.args(["-R", &owner]).arg(project.path("")).status().unwrap().success());
    }
}

/// Writes `base.tar`, the root of somebody else's image. Its layer differs from that of the base:
/// with the containerd store, docker does not fetch a layer whose files it has, and finds no image
/// if it lacks the layer.
fn foreign_root(project: &Project) {
    std::fs::write(project.path("base.tar"), busybox_root()).unwrap();
    project.write("foreign", "not ours");
    let mut command = Command::new("tar");
    command.args(["--append", "--file"]).arg(project.path("base.tar"));
    let done = command.arg("--directory").arg(project.path("")).arg("foreign").status();
    assert!(done.unwrap().success());
}

/// A build that was started.
pub(crate) struct Started {
    child: Child,
}

impl Started {
    /// Sends a signal to the program, and waits until it has ended.
    pub(crate) fn end_with(mut self, signal: &str) -> Option<i32> {
        // The child process enters the machine; the program is its child.
        let pid = self.program();
        drop(self.child.stderr.take());
        drop(Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status());
        self.child.wait().unwrap().code()
    }

    fn program(&mut self) -> u32 {
        let begin = Instant::now();
        loop {
            let numbers = std::fs::read_dir("/proc").unwrap().flatten();
            let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            if let Some(pid) = numbers.find(|pid| parent_of(*pid) == Some(self.child.id())) {
                return pid;
            }
            let ended = self.child.try_wait().unwrap();
            let mut said = String::new();
            if let (Some(_), Some(output)) = (ended, &mut self.child.stderr) {
                output.read_to_string(&mut said).unwrap();
            }
            assert_eq!(ended, None, "the build has ended: {said}");
            assert!(begin.elapsed() < Duration::from_secs(300), "the program did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
