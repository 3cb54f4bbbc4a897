//! Mistakes of users, and a score for each message.
//!
//! `table.toml` lists the mistakes. Each message is scored: the share of its checks (what, where,
//! why, next step) that hold, times 3.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::Deserialize;
use testkit::{Answer, FaultProxy};

use crate::dsl::{Project, Ran, ran};

/// The lowest mean that is accepted, of 3.
const LOWEST_MEAN: f64 = 2.9;

/// Functions for the scripts of the table.
const HELPERS: &str = include_str!("helpers.sh");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mistake: Vec<Mistake>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    #[serde(default)]
    given: String,
    run: String,
    #[serde(default = "wrong_input")]
    code: i32,
    what: Vec<String>,
    #[serde(default)]
    r#where: Vec<String>,
    #[serde(default)]
    why: Vec<String>,
    next: Vec<String>,
}

fn wrong_input() -> i32 {
    2
}

/// A mistake's score, and why it is not 3.
struct Score {
    points: f64,
    problems: String,
}

/// Registries that each refuse every request in their own way, keyed by the variable with the
/// address.
struct Registries(BTreeMap<&'static str, FaultProxy>);

impl Registries {
    fn start() -> Self {
        let page = Answer::new(200).header("Content-Type", "text/html").body("<html>log in</html>");
        let answers = [
            ("S401", Answer::new(401).header("WWW-Authenticate", "Basic realm=\"own\"")),
            ("S404", Answer::new(404)),
            ("S429", Answer::new(429).header("Retry-After", "86400")),
            ("HTML", page),
        ];
        Self(BTreeMap::from(answers.map(|(name, answer)| {
            let registry = FaultProxy::alone();
            registry.on("*", "").does(answer);
            (name, registry)
        })))
    }

    /// Returns the text with the addresses in place of the variables.
    fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, registry)| {
            text.replace(&format!("${name}"), &registry.host())
        })
    }
}

impl Mistake {
    fn run(&self, registries: &Registries) -> Ran {
        let project = Project::new();
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_build-pipeline"));
        let shell = |script: &str| {
            let path = std::env::var("PATH").unwrap();
            let mut shell = std::process::Command::new("sh");
            shell
                .args(["-c", &format!("{HELPERS}\n{script}")])
                .current_dir(project.path(""))
                .env_clear()
                .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
                .env("HOME", project.path("home"))
                .env("CONTAINERS_REGISTRIES_CONF", project.path("registries.conf"))
                .env("HEX", "0".repeat(64))
                .env("HEX40", "0".repeat(40))
                .stdin(std::process::Stdio::null());
            for (name, registry) in &registries.0 {
                shell.env(name, registry.host());
            }
            ran(shell.output().unwrap())
        };
        shell(&self.given).expect(0);
        shell(&self.run)
    }

    /// Returns what the user typed and wrote.
    fn input(&self) -> String {
        format!("{}\n{}", self.given, self.run)
    }

    /// Returns whether a message that only repeats the input would say what is wrong, and why.
    fn is_echo(&self) -> bool {
        let input = self.input();
        self.what.iter().chain(&self.why).all(|word| contains(&input, word))
    }

    fn score(&self, ran: &Ran, registries: &Registries) -> Score {
        let is_failure = ran.code == self.code && !ran.stderr.contains("panicked");
        if !is_failure {
            return Score { points: 0.0, problems: format!("exit code {}", ran.code) };
        }
        let (said, hints) = parts(&ran.stderr);
        let new = without_quoted(&said, &self.input());
        let checks = [
            ("what", &self.what, said.clone()),
            ("where", &self.r#where, format!("{said}\n{hints}")),
            ("why", &self.why, new),
            ("next", &self.next, hints),
        ];
        let (mut all, mut good, mut problems) = (0.0, 0.0, Vec::new());
        for (name, words, text) in checks.iter().filter(|(_, words, _)| !words.is_empty()) {
            all += 1.0;
            let mut words = words.iter().map(|word| registries.fill(word));
            match words.find(|word| !contains(text, word)) {
                None => good += 1.0,
                Some(word) => problems.push(format!("{name} lacks `{word}`")),
            }
        }
        Score { points: 3.0 * good / all, problems: problems.join("; ") }
    }
}

/// Returns a message without excerpts of files, and its hints.
fn parts(stderr: &str) -> (String, String) {
    let is_excerpt = |line: &str| {
        line.trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start()
            .starts_with('|')
    };
    let is_hint = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("hint:") || line.starts_with("= help:") || line.starts_with("help:")
    };
    let lines = stderr.lines().filter(|line| !is_excerpt(line));
    let (hints, said): (Vec<&str>, Vec<&str>) = lines.partition(is_hint);
    (said.join("\n"), hints.join("\n"))
}

/// Removes the quoted parts of a text that are also in the input.
fn without_quoted(text: &str, input: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces
        .map(|(number, piece)| {
            let is_quoted = number % 2 == 1;
            if is_quoted && input.to_lowercase().contains(&piece.to_lowercase()) {
                ""
            } else {
                piece
            }
        })
        .collect()
}

/// Returns whether a text contains a phrase, as whole words.
fn contains(text: &str, phrase: &str) -> bool {
    let (text, phrase) = (text.to_lowercase(), phrase.to_lowercase());
    let joins = |one: Option<char>, other: Option<char>| {
        one.is_some_and(char::is_alphanumeric) && other.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(&phrase).any(|(start, found)| {
        let (before, after) = (&text[..start], &text[start + found.len()..]);
        !joins(before.chars().next_back(), found.chars().next())
            && !joins(found.chars().next_back(), after.chars().next())
    })
}

#[test]
fn an_echo_of_the_input_is_no_help() {
    let mistake = |more: &str| -> Mistake {
        toml::from_str(&format!("run = \"x --port 80000\"\nwhat = [\"80000\"]\n{more}")).unwrap()
    };
    let ran = |stderr: &str| Ran { code: 2, stdout: String::new(), stderr: stderr.to_owned() };
    let registries = Registries(BTreeMap::new());
    let points = |mistake: &Mistake, stderr: &str| mistake.score(&ran(stderr), &registries).points;
    let row = mistake("why = [\"65535\"]\nnext = [\"8000\"]");
    let good = "error: `80000` is larger than 65535\nhint: for example `--port 8000`";
    assert!((points(&row, good) - 3.0).abs() < 0.01);
    // The number in the echo and in the excerpt is not a next step, and a quoted option is no
    // reason.
    for echo in [
        "error: cannot use `--port 80000`",
        "error: cannot use `--port 80000`\n  |\n1 | port = 8000\nhint: write `80000` correctly",
    ] {
        assert!((points(&row, echo) - 1.0).abs() < 0.01, "{echo}");
    }
    assert!(!row.is_echo());
    assert!(mistake("next = [\"8000\"]").is_echo());
    assert!(mistake("why = [\"--port\"]\nnext = [\"8000\"]").is_echo());
}

#[test]
fn messages_say_what_where_why_and_what_is_next() {
    let table: Table = toml::from_str(include_str!("table.toml")).unwrap();
    assert!(table.mistake.len() >= 110, "{}", table.mistake.len());
    let echoes = table.mistake.iter().filter(|mistake| mistake.is_echo());
    let echoes: Vec<&str> = echoes.map(|mistake| mistake.run.as_str()).collect();
    assert_eq!(echoes, [""; 0], "an echo of the input would have these words");
    let registries = Registries::start();
    let next = Mutex::new(table.mistake.iter().enumerate());
    let scores = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((at, mistake)) = next.lock().unwrap().next() else { return };
                    let ran = mistake.run(&registries);
                    let score = mistake.score(&ran, &registries);
                    scores.lock().unwrap().insert(at, (score, ran.stderr));
                }
            });
        }
    });
    let scores = scores.into_inner().unwrap();
    assert_eq!(scores.len(), table.mistake.len());
    for (at, (score, said)) in &scores {
        if !score.problems.is_empty() {
            let line = &table.mistake[*at].run;
            println!("{:.2} {line}\n   {}\n{said}", score.points, score.problems);
        }
    }
    let all = || scores.values().map(|(score, _)| score.points);
    let mean = all().sum::<f64>() / f64::from(u32::try_from(scores.len()).unwrap());
    let full = all().filter(|points| *points > 2.99).count();
    let zero = all().filter(|points| *points < 0.01).count();
    println!("{} mistakes: mean {mean:.2} of 3, {full} with 3, {zero} with 0", scores.len());
    assert!(mean >= LOWEST_MEAN, "the mean is {mean:.2}");
    assert_eq!(zero, 0, "messages without any help");
}
