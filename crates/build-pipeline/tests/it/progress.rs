//! Long transfers: the lines in a log, the line on a terminal, and what is fetched again after an
//! interruption.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use testkit::{Fault, FaultProxy, PushedImage, RandomImage, shared_registry};

use crate::dsl::{Base, Project, ran};

/// The size of the only layer, in bytes.
const LAYER: usize = 40_000_000;
/// The bytes of it that arrive before the transfer breaks off.
const ARRIVES: usize = 32 << 20;

/// A project, and a base with a large layer behind a proxy. The first transfer of the layer breaks
/// off, the second never begins, and all others are good.
struct Large {
    project: Project,
    image: PushedImage,
    proxy: FaultProxy,
    line: String,
}

impl Large {
    fn new(seed: u64) -> Self {
        let (project, base) = (Project::new(), Base::push(seed));
        let host = shared_registry().host();
        let image = RandomImage { layers: vec![LAYER], ..RandomImage::new(seed + 1) }
            .push(host, &base.path, "large");
        let proxy = FaultProxy::to(host);
        let layer = image.layers[0].digest.as_str();
        proxy.on("GET", layer).first(1).does(Fault::CloseAt(ARRIVES));
        proxy.on("GET", layer).nth(2).does(Fault::Stall);
        let line = base.locked_spoof(&proxy.host()).replace(&base.digest(), image.digest.as_str());
        Self { project, image, proxy, line }
    }
}

#[test]
fn a_long_transfer_is_reported_and_continued_after_an_interruption() {
    for (seed, output) in
        [(401, "--with-layers --output oci:image"), (403, "--output oci-archive:image")]
    {
        let large = Large::new(seed);
        let (project, line) = (&large.project, format!("{} {output}", large.line));
        let (_, name) = output.split_once("--output ").unwrap();
        let mut first = project.begin(&line);
        let mut said = BufReader::new(first.stderr.take().unwrap()).lines().map(Result::unwrap);
        for wanted in ["building locked-spoof: ", &format!("· {name}: 40.0 MB of layers")] {
            assert!(said.any(|line| line.starts_with(wanted)), "{name}: no line `{wanted}`");
        }
        // Nothing arrives any more, and the log still shows how far it is.
        let is_alive = |line: &String| {
            line.starts_with(&format!("· {name}: ")) && line.contains(" MB of 40.0 MB, ")
        };
        let alive = said.find(is_alive).unwrap_or_default();
        assert!(alive.contains("B/s, ") && alive.ends_with(" left"), "{name}: {alive}");

        let interrupt = ["-INT".to_owned(), first.id().to_string()];
        assert!(Command::new("kill").args(interrupt).status().unwrap().success());
        let rest: Vec<String> = said.collect();
        assert_eq!(first.wait().unwrap().code(), Some(130), "{rest:?}");
        let hint = "hint: rerun the same command to continue from the cache";
        assert!(rest.iter().any(|line| line == hint), "{rest:?}");

        // Both runs together fetch hardly more than the image.
        project.run(&line).expect(0);
        let received =
            |record: &serde_json::Value| record["traffic"]["bytes_received"].as_u64().unwrap();
        let sum: u64 = project.records().iter().map(received).sum();
        let whole = large.image.layers[0].bytes.len() as u64;
        assert!((whole..=whole + whole / 20).contains(&sum), "{name}: {sum} of {whole} bytes");

        // Unchanged, no layer is fetched again.
        let asked = large.proxy.requests().len();
        project.run(&line).expect(0).prints("(up to date; no layers transferred)");
        assert_eq!(large.proxy.requests().len(), asked, "{name}");
    }
}

/// Runs a command on a terminal with 60 columns, and presses Ctrl-C when a text appears. Prints the
/// drawn lines that contain the text, then `---`, then what the terminal shows in the end.
const ON_A_TERMINAL: &str = r#"
import fcntl, os, pty, re, struct, sys, termios
COLUMNS, wanted = 60, sys.argv[1]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
seen, pressed = b"", False
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    seen += piece
    if not pressed and wanted.encode() in seen:
        pressed = True
        os.write(terminal, b"\x03")
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
text = seen.decode()
for drawn in re.split(r"\r|\n|\x1b\[[0-9;?]*[A-Za-z]", text):
    if wanted in drawn:
        print(drawn.replace("^C", ""))
print("---")
rows, row, column = [[]], 0, 0
for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.", text, re.DOTALL):
    if part[0] == "\x1b":
        count, what = part[2:-1], part[-1]
        if what == "A":
            row = max(0, row - int(count or 1))
        elif what == "B":
            row += int(count or 1)
        elif what == "K" and count == "2":
            rows[row] = []
        elif what == "K":
            rows[row] = rows[row][:column]
    elif part == "\r":
        column = 0
    elif part == "\n":
        row += 1
    else:
        if column == COLUMNS:
            row, column = row + 1, 0
        while len(rows) <= row:
            rows.append([])
        rows[row] += [" "] * (column + 1 - len(rows[row]))
        rows[row][column] = part
        column += 1
    while len(rows) <= row:
        rows.append([])
for line in rows:
    print("".join(line).rstrip())
sys.exit(code)
"#;

#[test]
fn a_terminal_shows_one_line_that_fits_and_nothing_of_it_stays() {
    let large = Large::new(405);
    let line = format!("{} --with-layers --output oci:image", large.line);
    let inner = large.project.command(&line.split_whitespace().collect::<Vec<_>>());
    let mut outer = Command::new("python3");
    outer.args(["-c", ON_A_TERMINAL, "MB/40."]).arg(inner.get_program()).args(inner.get_args());
    outer.env_clear().current_dir(large.project.path("")).env("TERM", "xterm");
    outer.env("PYTHONUTF8", "1");
    for (name, value) in inner.get_envs() {
        outer.env(name, value.unwrap_or_default());
    }
    let ran = ran(outer.stdin(Stdio::null()).output().unwrap()).expect(130);
    let (drawn, screen) = ran.stdout.split_once("---\n").unwrap();
    assert!(!drawn.is_empty(), "{screen}");
    for line in drawn.lines() {
        assert!(line.chars().count() <= 60 && line.contains("write oci:image"), "{line:?}");
        assert!(!line.contains("iB"), "{line:?}");
    }
    assert!(screen.contains("interrupted"), "{screen}");
    assert!(!screen.contains("write oci:image") && !screen.contains("MB/40."), "{screen}");
}
