//! Long transfers: the lines in a log, the line on a terminal, and what is fetched again after an
//! interruption.

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use testkit::{Fault, FaultProxy, PushedImage, RandomImage, shared_registry};

use crate::dsl::{Base, Project, Terminal};

/// The size of the only layer, in bytes.
const LAYER: usize = 40_000_000;
/// The number of its bytes that arrive before the transfer is interrupted.
const ARRIVES: usize = 32 << 20;

/// A project, and a base with a large layer behind a proxy. The first transfer of the layer is
/// interrupted, the second one stalls, and all others succeed.
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
        // Nothing arrives any more, but the log still shows the progress.
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

        // The two runs together fetch little more than the image.
        project.run(&line).expect(0);
        let received =
            |record: &serde_json::Value| record["traffic"]["bytes_received"].as_u64().unwrap();
        let sum: u64 = project.records().iter().map(received).sum();
        let whole = large.image.layers[0].bytes.len() as u64;
        assert!((whole..=whole + whole / 20).contains(&sum), "{name}: {sum} of {whole} bytes");

        // Nothing changed, so no layer is fetched again.
        let asked = large.proxy.requests().len();
        project.run(&line).expect(0).prints("(up to date; no layers transferred)");
        assert_eq!(large.proxy.requests().len(), asked, "{name}");
    }
}

/// Something that a terminal receives.
enum Part {
    /// A character.
    Character(char),
    /// An escape sequence: the text between `[` and its last letter, and this letter.
    Sequence(String, char),
}

fn parts(text: &str) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), text.chars());
    while let Some(one) = rest.next() {
        if one != '\u{1b}' {
            parts.push(Part::Character(one));
            continue;
        }
        assert_eq!(rest.next(), Some('['), "{text:?}");
        let mut inner = String::new();
        let last = rest.by_ref().find(|one| {
            inner.push(*one);
            one.is_ascii_alphabetic()
        });
        inner.pop();
        parts.push(Part::Sequence(inner, last.unwrap()));
    }
    parts
}

/// Returns the lines that were drawn one after another on a terminal.
fn drawn(text: &str) -> String {
    let plain = |part| match part {
        Part::Character('\r') | Part::Sequence(..) => '\n',
        Part::Character(one) => one,
    };
    parts(text).into_iter().map(plain).collect()
}

/// Returns what a terminal shows in the end.
fn screen(text: &str, columns: usize) -> String {
    let (mut rows, mut row, mut column) = (vec![Vec::new()], 0, 0);
    for part in parts(text) {
        match part {
            Part::Sequence(count, 'A') => row -= count.parse().unwrap_or(1).min(row),
            Part::Sequence(count, 'B') => row += count.parse().unwrap_or(1),
            Part::Sequence(which, 'K') if which == "2" => rows[row].clear(),
            Part::Sequence(_, 'K') => rows[row].truncate(column),
            Part::Sequence(..) => {}
            Part::Character('\r') => column = 0,
            Part::Character('\n') => row += 1,
            Part::Character(one) => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                rows.resize(rows.len().max(row + 1), Vec::new());
                let length = rows[row].len().max(column + 1);
                rows[row].resize(length, ' ');
                rows[row][column] = one;
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    let line = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Presses Ctrl-C during a long transfer on a terminal with 60 columns, once it shows `wanted`, and
/// returns what the terminal received.
fn interrupted_on(kind: &str, seed: u64, wanted: &str) -> String {
    let large = Large::new(seed);
    let line = format!("{} --with-layers --output oci:image", large.line);
    let mut inner = large.project.command(&line.split_whitespace().collect::<Vec<_>>());
    inner.env("TERM", kind);
    let terminal = Terminal { lines: 24, columns: 60, wanted, keys: "\u{3}" };
    terminal.run(&large.project.path(""), &inner).expect(130).stdout
}

#[test]
fn a_terminal_shows_one_line_that_fits_and_nothing_of_it_stays() {
    let text = interrupted_on("xterm", 405, "MB/40.");
    let drawn = drawn(&text).replace("^C", "");
    let mut lines = drawn.lines().filter(|line| line.contains("MB/40.")).peekable();
    assert!(lines.peek().is_some(), "{drawn}");
    for line in lines {
        assert!(line.chars().count() <= 60 && line.contains("write oci:image"), "{line:?}");
        assert!(!line.contains("iB"), "{line:?}");
    }
    let screen = screen(&text, 60);
    assert!(screen.contains("interrupted"), "{screen}");
    assert!(!screen.contains("write oci:image") && !screen.contains("MB/40."), "{screen}");
}

#[test]
fn a_terminal_that_cannot_redraw_lines_shows_those_of_a_log() {
    let text = interrupted_on("dumb", 408, " MB of 40.0 MB, ");
    assert!(text.contains("· oci:image: 40.0 MB of layers"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
