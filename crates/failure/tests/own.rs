//! Hiding secrets must not change a text of this project: people copy commands from help texts.

use std::fs;
use std::path::{Path, PathBuf};

use names::mask;

/// Data files with texts that are printed.
const DATA: [&str; 5] = ["compat.toml", "failures.toml", "gpus.toml", "lint.toml", "run.toml"];

/// Keys whose values are compared with files, and not printed.
const PATTERNS: [&str; 8] =
    ["all", "any", "except", "lines", "names", "options", "pattern", "unless"];

#[test]
fn no_text_of_a_data_file_changes() {
    let folder = root().join("versions");
    let mut changed = Vec::new();
    for file in DATA {
        let mut key = String::new();
        for line in fs::read_to_string(folder.join(file)).unwrap().lines() {
            // The name of a failure is printed before its cause.
            let failure = line.strip_prefix("[failure.").and_then(|rest| rest.strip_suffix(']'));
            let heading = failure.map(|one| format!("\"{one}: text\""));
            changed.extend(heading.iter().flat_map(|text| changes(file, text)));
            let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let named = line.split_once(" = ").filter(|(name, _)| name.chars().all(is_key));
            let value = named.map_or(line, |(name, value)| {
                name.clone_into(&mut key);
                value
            });
            if !line.starts_with('#') && !PATTERNS.contains(&key.as_str()) {
                changed.extend(changes(file, value));
            }
        }
    }
    assert_eq!(changed, Vec::<String>::new());
}

#[test]
fn no_text_of_the_code_changes() {
    let mut changed = Vec::new();
    let files = sources(&root().join("crates"));
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        let name = file.display().to_string();
        let text = fs::read_to_string(&file).unwrap();
        // Tests contain secrets, and come last.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> =
            code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        changed.extend(changes(&name, &code.join("\n")));
    }
    assert_eq!(changed, Vec::<String>::new());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the sources of a folder without tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !matches!(name, "tests" | "testkit" | "names" | "target") {
            all.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            all.push(path);
        }
    }
    all
}

/// Returns the quoted texts that change.
fn changes(file: &str, code: &str) -> Vec<String> {
    let texts = code.replace("'\"'", "").replace("\\\"", "'");
    // The program inserts the rest of an address, and a regular expression is not printed.
    let is_text = |text: &&str| !text.contains("://{") && !text.contains('\\');
    let quoted = texts.split('"').skip(1).step_by(2);
    let changed = quoted.filter(is_text).filter(|text| mask(text) != **text);
    changed.map(|text| format!("{file}: {text} → {}", mask(text))).collect()
}
