//! A project in its own folder, and commands that run in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A copy of the data files, with its own home. Everything is removed on drop.
pub(crate) struct Project {
    folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

impl Project {
    /// Creates a project with the real data files. It is not a git checkout.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = Self { folder };
        let names = [
            "versions.toml",
            "gpus.toml",
            "tracks.toml",
            "compat.toml",
            "failures.toml",
            "python.toml",
            "run.toml",
        ];
        for name in names {
            let text = std::fs::read_to_string(workspace().join("versions").join(name)).unwrap();
            project.write(&format!("versions/{name}"), &text);
        }
        for folder in ["patches", "dockerfiles", "versions/locks", "versions/smoke"] {
            project.copy(&workspace().join(folder), folder);
        }
        // An empty file, so that the machine's own file has no effect.
        project.write("registries.conf", "");
        std::fs::create_dir_all(project.path("home")).unwrap();
        project
    }

    /// Creates an empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Moves the content of a folder to the project's root, and creates a home.
    pub(crate) fn adopt(&self, folder: &str) {
        for entry in std::fs::read_dir(self.path(folder)).unwrap().flatten() {
            std::fs::rename(entry.path(), self.path(entry.file_name().to_str().unwrap())).unwrap();
        }
        std::fs::remove_dir(self.path(folder)).unwrap();
        self.write("registries.conf", "");
        std::fs::create_dir_all(self.path("home")).unwrap();
    }

    /// Writes `bin/podman`, a podman that uses only one store.
    pub(crate) fn write_podman(&self, store: &testkit::PodmanStore) {
        let arguments = store.arguments();
        let arguments: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap()).collect();
        let script = format!("#!/bin/sh\nexec /usr/bin/podman {} \"$@\"\n", arguments.join(" "));
        self.write("bin/podman", &script);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path("bin/podman"), mode).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Copies a folder and its files.
    fn copy(&self, from: &Path, to: &str) {
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            let to = format!("{to}/{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                self.copy(&entry.path(), &to);
            } else {
                self.write(&to, &std::fs::read_to_string(entry.path()).unwrap());
            }
        }
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Changes a data file.
    pub(crate) fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{name} has no `{from}`");
        self.write(name, &text.replace(from, to));
    }

    /// Makes the given variant of a track the default.
    pub(crate) fn set_variant(&self, track: &str, variant: &str) {
        let text = self.read("versions/tracks.toml");
        let (before, table) = text.split_once(&format!("\n[{track}]\n")).unwrap();
        let (about, rest) = table.split_once("\nvariant = \"").unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        assert!(!about.contains("\n["), "[{track}] has no default variant");
        let text = format!("{before}\n[{track}]\n{about}\nvariant = \"{variant}\"\n{rest}");
        self.write("versions/tracks.toml", &text);
    }

    /// Returns the program as a command in the project, with only `PATH` from this machine's
    /// environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_build-pipeline"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CONTAINERS_REGISTRIES_CONF", self.path("registries.conf"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command line, split at spaces.
    pub(crate) fn run(&self, line: &str) -> Ran {
        ran(self.command(&line.split_whitespace().collect::<Vec<_>>()).output().unwrap())
    }

    /// Starts a command line and does not wait for it.
    pub(crate) fn begin(&self, line: &str) -> Child {
        let mut command = self.command(&line.split_whitespace().collect::<Vec<_>>());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Returns the records of all runs, oldest first.
    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        let ran = self.run("records --format json").expect(0);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// Returns every file below the project except the home, with its bytes.
    pub(crate) fn files(&self) -> Files {
        let mut all = std::collections::BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path == self.path("home") {
                } else if path.is_symlink() {
                    let to =
                        std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
                    all.insert(path.strip_prefix(self.folder.path()).unwrap().to_owned(), to);
                } else if path.is_dir() {
                    folders.push(path);
                } else {
                    all.insert(
                        path.strip_prefix(self.folder.path()).unwrap().to_owned(),
                        std::fs::read(&path).unwrap(),
                    );
                }
            }
        }
        all
    }
}

/// The files of a folder, with their bytes.
pub(crate) type Files = std::collections::BTreeMap<PathBuf, Vec<u8>>;

/// Fails the test if files differ, and names them.
#[track_caller]
pub(crate) fn same(now: &Files, before: &Files, what: &str) {
    let names = now.keys().chain(before.keys());
    let mut different: Vec<&PathBuf> =
        names.filter(|name| now.get(*name) != before.get(*name)).collect();
    different.dedup();
    assert!(different.is_empty(), "{what}: {different:?} differ");
}

/// Kills a process and waits for it. Returns whether the kill stopped it: the process may already
/// have finished.
pub(crate) fn is_killed(child: &mut Child) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    drop(child.kill());
    child.wait().unwrap().signal() == Some(9)
}

/// Returns moment `number` of a sequence that is evenly distributed over slightly more than
/// `length`.
pub(crate) fn moment(number: usize, length: Duration) -> Duration {
    let number = f64::from(u32::try_from(number).unwrap());
    length.mul_f64((number * 0.618_033_988_75).fract() * 1.2)
}

/// Runs a command on a terminal of the given size, and types `keys` once it shows `wanted`.
const ON_A_TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
rows, columns, wanted, keys = sys.argv[1:5]
pid, terminal = pty.fork()
if pid == 0:
    size = struct.pack("HHHH", int(rows), int(columns), 0, 0)
    fcntl.ioctl(0, termios.TIOCSWINSZ, size)
    os.execv(sys.argv[5], sys.argv[5:])
seen, typed = b"", False
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    seen += piece
    if wanted.encode() in seen and not typed:
        typed = True
        os.write(terminal, keys.encode())
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// A terminal, and what is typed on it.
pub(crate) struct Terminal<'a> {
    pub(crate) lines: u16,
    pub(crate) columns: u16,
    /// The text to wait for, and the keys to press then.
    pub(crate) wanted: &'a str,
    pub(crate) keys: &'a str,
}

impl Terminal<'_> {
    /// Runs a command on the terminal. Standard output of the result is what the terminal received.
    pub(crate) fn run(&self, folder: &Path, inner: &Command) -> Ran {
        let mut outer = Command::new("python3");
        outer.args(["-c", ON_A_TERMINAL, &self.lines.to_string(), &self.columns.to_string()]);
        outer.args([self.wanted, self.keys]).arg(inner.get_program()).args(inner.get_args());
        outer.env_clear().current_dir(folder).env("PYTHONUTF8", "1").stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            outer.env(name, value.unwrap_or_default());
        }
        ran(outer.output().unwrap())
    }
}

/// Calls `round` until it has returned true `wanted` times: only a signal that reaches a running
/// program counts. `round` gets increasing numbers, and moments that are evenly distributed over
/// slightly more than the time that the program takes.
///
/// `length` is the time that the program took once. The speed of a busy machine varies, so this
/// time is increased after a hit and decreased after a miss.
pub(crate) fn until_hit(
    wanted: usize,
    mut length: Duration,
    mut round: impl FnMut(usize, Duration) -> bool,
) {
    let mut hits = 0;
    for number in 0.. {
        if hits == wanted {
            break;
        }
        assert!(number < 10 * wanted, "{hits} of {number} signals reached a running program");
        let is_hit = round(number, moment(number, length));
        hits += usize::from(is_hit);
        length = length.mul_f64(if is_hit { 1.01 } else { 0.9 });
    }
}

/// Returns the result of a finished process; as in a shell, the code of a signal is 128 plus its
/// number.
pub(crate) fn ran(output: Output) -> Ran {
    use std::os::unix::process::ExitStatusExt as _;
    let code =
        output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal)).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let stderr = without_heartbeats(&text(output.stderr));
    Ran { code, stdout: text(output.stdout), stderr }
}

/// Returns standard error without the lines that a slow command prints: `· outdated: running for
/// 9 s`. The tests of these lines read the stream themselves.
fn without_heartbeats(stderr: &str) -> String {
    let is_heartbeat = |line: &&str| line.starts_with("· ") && line.contains(": running for ");
    stderr.split_inclusive('\n').filter(|line| !is_heartbeat(line)).collect()
}

#[test]
fn slow_commands_say_the_same_to_tests() {
    let said =
        "· outdated: running for 9 s\nhint: a\n· b: running for 2 min; 1 MB received so far\n";
    assert_eq!(without_heartbeats(said), "hint: a\n");
}

impl Ran {
    /// Fails the test if the exit code is different.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Fails the test if standard error does not contain a text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "standard error lacks `{text}`:\n{}", self.stderr);
        self
    }

    /// Fails the test if standard output does not contain a text.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "standard output lacks `{text}`:\n{}", self.stdout);
        self
    }

    /// Returns the digest that a build printed.
    #[track_caller]
    pub(crate) fn digest(&self) -> String {
        let line = self
            .stdout
            .lines()
            .find_map(|line| line.trim().strip_prefix("digest"))
            .expect("a line with the digest");
        line.trim().to_owned()
    }
}

/// Returns the first advice for a known failure that every log gets, as the shipped catalogue has
/// it. The data can change; what the command prints must be the data.
pub(crate) fn first_advice(failure: &str) -> String {
    let text = std::fs::read_to_string(workspace().join("versions/failures.toml")).unwrap();
    let catalogue: toml::Table = text.parse().unwrap();
    let advice = catalogue["failure"][failure]["fix"].as_array().unwrap();
    // Other advice can be for logs that name a GPU or a system.
    let mut commands = advice.iter().filter_map(toml::Value::as_str);
    commands.find(|text| text.starts_with("build-pipeline ")).unwrap().to_owned()
}

/// A registry with a base in it, and the options that make track `locked-spoof` use it.
pub(crate) struct Base {
    pub(crate) image: testkit::PushedImage,
    pub(crate) path: String,
}

impl Base {
    /// Pushes a small base under a path that no other test uses.
    pub(crate) fn push(seed: u64) -> Self {
        let path = format!("rocm/vllm-dev-{seed}-{}", std::process::id());
        let image =
            testkit::RandomImage::new(seed).push(testkit::shared_registry().host(), &path, "base");
        Self { image, path }
    }

    /// Returns `--track locked-spoof` with options that read the base through `host`.
    pub(crate) fn locked_spoof(&self, host: &str) -> String {
        format!(
            "--track locked-spoof --mirror docker.io/rocm/vllm-dev={host}/{} --set vllm-dev-locked={}",
            self.path,
            self.digest()
        )
    }

    /// Pins track `locked-spoof` of a project to the base at `host`, and returns the command that
    /// builds it. Unlike a mirror, this host has no other registry as a fallback.
    pub(crate) fn pinned_at(&self, project: &Project, host: &str) -> String {
        let repository = format!("repository = \"{host}/{}\"", self.path);
        let old = "repository = \"docker.io/rocm/vllm-dev\"";
        project.edit("versions/versions.toml", old, &repository);
        format!("--track locked-spoof --set vllm-dev-locked={}", self.digest())
    }

    pub(crate) fn digest(&self) -> String {
        self.image.digest.to_string()
    }
}

/// A project, and two images of one repository for its pin `vllm-dev-locked`.
pub(crate) struct Two {
    pub(crate) project: Project,
    pub(crate) mirror: String,
    images: [String; 2],
    layers: usize,
}

impl Two {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_layers(seed, vec![90_000, 70_000, 50_000])
    }

    /// The second image has layers of these sizes.
    pub(crate) fn with_layers(seed: u64, layers: Vec<usize>) -> Self {
        let (project, base) = (Project::new(), Base::push(seed));
        let host = testkit::shared_registry().host();
        let other =
            testkit::RandomImage { layers: layers.clone(), ..testkit::RandomImage::new(seed + 1) }
                .push(host, &base.path, "other");
        let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{}", base.path);
        let layers = [base.image.layers.len(), layers.len()].into_iter().min().unwrap();
        let images = [base.digest(), other.digest.to_string()];
        Self { project, mirror, images, layers }
    }

    /// Returns the command that builds the pinned image.
    pub(crate) fn build(&self) -> String {
        format!("--track locked-spoof --with-layers {}", self.mirror)
    }

    /// Returns the command that builds on one of the images, whatever is pinned.
    pub(crate) fn build_of(&self, image: usize) -> String {
        format!("{} --set vllm-dev-locked={}", self.build(), self.images[image])
    }

    /// Returns the command that pins one of the images.
    pub(crate) fn bump(&self, image: usize) -> String {
        format!("bump vllm-dev-locked {} {}", self.images[image], self.mirror)
    }

    /// Returns a command whose clock always shows the same day.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.project.command(&line.split_whitespace().collect::<Vec<_>>());
        command.env("SOURCE_DATE_EPOCH", "1798848000");
        command
    }

    /// Starts a command line with that clock.
    pub(crate) fn begin(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command line with that clock.
    pub(crate) fn run(&self, line: &str) -> Ran {
        ran(self.command(line).output().unwrap())
    }

    /// Returns the digest of a layout or archive. Fails the test if it is incomplete.
    #[track_caller]
    pub(crate) fn image_at(&self, name: &str) -> String {
        let image = oci::LayoutImage::read(&self.project.path(name)).unwrap();
        assert!(image.absent_layers.is_empty(), "{:?}", image.absent_layers);
        assert!(image.present_layers.len() >= self.layers);
        image.manifest_digest.to_string()
    }
}
