//! The commands in TUTORIAL.md and README.md do what the text says.

use std::process::Command;

use crate::dsl::{Project, ran, workspace};

#[test]
fn the_tutorials_commands_run() {
    let project = Project::new();
    let text = std::fs::read_to_string(workspace().join("TUTORIAL.md")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_build-pipeline")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let (line, code) = match line.split_once("# exit ") {
                Some((line, code)) => (line, code.trim().parse().unwrap()),
                None => (line, 0),
            };
            let mut command = Command::new("bash");
            command.args(["-o", "pipefail", "-c", line]).current_dir(project.path("")).env_clear();
            command
                .env("PATH", &path)
                .env("HOME", project.path("home"))
                .env("CONTAINERS_REGISTRIES_CONF", "/dev/null");
            ran(command.output().unwrap()).expect(code);
            count += 1;
        }
    }
    assert!(count >= 12, "found only {count} commands");
}

/// Every command line in every block is parsed without an error, even if it cannot run here.
#[test]
fn the_commands_in_all_pages_are_understood() {
    let project = Project::new();
    let mut count = 0;
    for page in ["README.md", "TUTORIAL.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(workspace().join(page)).unwrap();
        for block in text.split("```").skip(1).step_by(2) {
            for line in block.lines() {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                let Some(words) = line.strip_prefix("build-pipeline ") else { continue };
                // The rest is for the shell, or is passed on to a container.
                let ends = [" #", " | ", " > ", " && ", ";", " -- ", "\\", "…"];
                let end = ends.iter().filter_map(|end| words.find(end)).min();
                let words = &words[..end.unwrap_or(words.len())];
                // With `--help`, a command ends successfully if it is parsed up to there.
                let line = format!("{} --help", words.replace('\'', ""));
                let words: Vec<&str> = line.split_whitespace().collect();
                let ran = ran(project.command(&words).output().unwrap());
                assert_eq!(ran.stderr, "", "{page}: build-pipeline {line}");
                count += 1;
            }
        }
    }
    assert!(count > 100, "found only {count} commands");
}

#[test]
fn the_readmes_words_are_there() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let project = Project::new();
    let help: String = [
        "--help",
        "init --help",
        "plan --help",
        "verify --help",
        "export --help",
        "patch apply --help",
        "patch audit --help",
        "bump --help",
        "outdated --help",
        "lint --help",
        "run --help",
        "clean --help",
        "pins show --help",
        "bundle --help",
        "mirror --help",
        "records --help",
    ]
    .map(|line| project.run(line).expect(0).stdout)
    .concat();
    for word in readme
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--") && !word.starts_with("---") && word.len() > 2)
    {
        let is_cargo = ["--release", "--locked", "--path"].contains(&word);
        assert!(is_cargo || help.contains(word), "README.md names `{word}`, which --help does not");
    }
}

/// README lists exactly the tracks and variants that need an unresolved pin.
#[test]
fn the_readme_lists_what_cannot_be_built() {
    let project = Project::new();
    let cannot = |line: &str| {
        let planned = project.run(&format!("plan {line}"));
        planned.code != 0 && planned.stderr.contains(" is unresolved")
    };
    let tracks: toml::Table = project.read("versions/tracks.toml").parse().unwrap();
    let mut wanted = Vec::new();
    for (track, table) in &tracks {
        if cannot(track) {
            wanted.push(track.clone());
            continue;
        }
        let variants = table.get("variants").and_then(toml::Value::as_table);
        let lines =
            variants.into_iter().flatten().map(|(name, _)| format!("{track} --variant {name}"));
        wanted.extend(lines.filter(|line| cannot(line)));
    }
    wanted.sort();
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let (_, list) = readme.split_once("At present, this affects ").unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let mut listed: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    listed.sort_unstable();
    assert_eq!(listed, wanted);
}
