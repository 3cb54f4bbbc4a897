//! What users do wrong, and how much the messages help them.
//!
//! `table.toml` lists the mistakes. Each message is scored: the share of its checks (what, where,
//! why, next step) that hold, times 3.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::Deserialize;
use testkit::{Answer, FaultProxy};

use crate::dsl::{Project, Ran, ran};

/// The lowest mean that is accepted, of 3.
const LOWEST_MEAN: f64 = 2.7;

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

    fn score(&self, ran: &Ran, registries: &Registries) -> Score {
        let is_failure = ran.code == self.code && !ran.stderr.contains("panicked");
        if !is_failure {
            return Score { points: 0.0, problems: format!("exit code {}", ran.code) };
        }
        // A next step is a hint, or it follows the first line.
        let after_first = ran.stderr.split_once('\n').map_or("", |(_, rest)| rest);
        let checks = [
            ("what", &self.what, ran.stderr.as_str()),
            ("where", &self.r#where, &ran.stderr),
            ("why", &self.why, &ran.stderr),
            ("next", &self.next, after_first),
        ];
        let (mut all, mut good, mut problems) = (0.0, 0.0, Vec::new());
        for (name, words, text) in checks.iter().filter(|(_, words, _)| !words.is_empty()) {
            all += 1.0;
            let text = text.to_lowercase();
            let missing = words
                .iter()
                .map(|word| registries.fill(word))
                .find(|word| !text.contains(&word.to_lowercase()));
            match missing {
                None => good += 1.0,
                Some(word) => problems.push(format!("{name} lacks `{word}`")),
            }
        }
        Score { points: 3.0 * good / all, problems: problems.join("; ") }
    }
}

#[test]
fn messages_say_what_where_why_and_what_is_next() {
    let table: Table = toml::from_str(include_str!("table.toml")).unwrap();
    assert!(table.mistake.len() >= 110, "{}", table.mistake.len());
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
