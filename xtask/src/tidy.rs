//! Project rules that no linter checks.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::run::root;
use crate::say;

/// Each crate, with the crates of this project that it may use. All others are forbidden. Pure
/// crates (`true`) must not use any crate that accesses files, the network, the environment or the
/// clock.
const CRATES: &[(&str, bool, &[&str])] = &[
    ("names", true, &[]),
    ("text", true, &["names"]),
    ("pins", true, &["names", "text"]),
    ("patcher", true, &["names", "pins"]),
    ("lint", true, &["names", "patcher", "pins", "text"]),
    ("plan", true, &["names", "text"]),
    ("export", true, &["names", "plan", "text"]),
    ("planner", true, &["names", "patcher", "pins", "plan"]),
    ("record", true, &["names", "pins", "plan", "text"]),
    ("host", false, &["names", "pins", "text"]),
    ("net", false, &["names"]),
    ("tar-stream", true, &[]),
    ("seal", true, &["names", "tar-stream"]),
    ("oci", false, &["names", "net"]),
    ("engine", false, &["names"]),
    (
        "executor",
        false,
        &[
            "audit", "debian", "engine", "gpu-code", "names", "oci", "patcher", "pins", "plan",
            "record", "seal", "slim", "sources",
        ],
    ),
    ("gpu-code", false, &["names"]),
    ("audit", false, &["gpu-code", "seal", "text"]),
    ("slim", false, &["audit", "gpu-code", "names", "seal"]),
    (
        "build-pipeline",
        false,
        &[
            "audit", "compare", "engine", "executor", "export", "failure", "gpu-code", "host",
            "launch", "lint", "names", "oci", "patcher", "patching", "pins", "plan", "planner",
            "project", "record", "slim", "sources", "terminal", "text", "upkeep",
        ],
    ),
    (
        "terminal",
        false,
        &[
            "executor", "failure", "launch", "names", "oci", "pins", "plan", "project", "record",
            "sources", "text",
        ],
    ),
    (
        "project",
        false,
        &[
            "audit", "debian", "engine", "executor", "failure", "gpu-code", "lint", "names", "oci",
            "patcher", "pins", "plan", "planner", "record", "seal", "slim", "sources", "text",
        ],
    ),
    (
        "compare",
        false,
        &[
            "executor", "failure", "names", "oci", "plan", "planner", "project", "record", "seal",
            "slim", "text",
        ],
    ),
    ("failure", false, &["executor", "names", "oci", "pins", "planner", "sources"]),
    (
        "patching",
        false,
        &[
            "executor", "failure", "gpu-code", "host", "lint", "names", "patcher", "pins",
            "project", "sources", "text",
        ],
    ),
    (
        "launch",
        false,
        &["engine", "failure", "host", "names", "pins", "plan", "project", "record", "text"],
    ),
    (
        "upkeep",
        false,
        &[
            "debian", "export", "failure", "names", "oci", "patcher", "patching", "pins",
            "planner", "project", "record", "sources", "text",
        ],
    ),
    ("debian", false, &["names", "pins", "sources"]),
    ("sources", false, &["names", "net", "pins", "tar-stream"]),
    ("testkit", false, &["names"]),
];

/// External crates that a pure crate may use: they only compute.
const PURE_OUTSIDE: [&str; 17] = [
    "aho-corasick",
    // Compresses streams in memory.
    "flate2",
    "jiff",
    // Compresses buffers in memory.
    "libdeflater",
    "regex",
    "regex-syntax",
    // Hashes buffers in memory.
    "ring",
    "saphyr-parser",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "shlex",
    "similar",
    "strsim",
    "thiserror",
    "toml",
];

/// External crates that only some crates of this workspace may use, and those crates.
const OF_FEW_CRATES: [(&str, &[&str]); 8] = [
    // `text` only removes escape sequences with it.
    ("anstream", &["terminal", "text"]),
    ("anstyle", &["terminal"]),
    ("annotate-snippets", &["terminal"]),
    ("clap", &["build-pipeline"]),
    ("clap_complete", &["build-pipeline"]),
    ("clap_mangen", &["build-pipeline"]),
    ("console", &["terminal"]),
    ("indicatif", &["terminal"]),
];

/// The maximum number of lines of a source file, including unit tests. Longer files are hard to
/// navigate.
const LONGEST_FILE: usize = 700;

/// The code of lint's rules. It must not contain versions: these belong in data files, with a
/// source.
const LINT_RULES: &str = "crates/lint/src/rules/";

/// The built-in tracks. Code must not contain their names: a project can replace or omit them.
const TRACKS: &str = "versions/tracks.toml";

/// Names of built-in tracks that also have another meaning, with the prefixes of the paths in which
/// they are allowed.
const OTHER_WORDS: [(&str, &str); 6] = [
    // A kind of pin, and the origin of a fact.
    ("source", "crates/"),
    // The program.
    ("ollama", "crates/lint/src/"),
    // Repositories of vendors.
    ("official", "crates/lint/src/data/"),
    // A way to use a GPU.
    ("vulkan", "crates/host/src/forms.rs"),
    ("vulkan", "crates/host/src/run/row.rs"),
    ("vulkan", "crates/lint/src/rules/commands.rs"),
];

/// The only file that reads the environment.
const ENVIRONMENT: &str = "crates/project/src/environment.rs";

/// Checks all rules and reports every violation at once.
pub(crate) fn check() -> Result<()> {
    let metadata =
        MetadataCommand::new().no_deps().other_options(vec!["--locked".to_owned()]).exec()?;
    let mut breaches = Vec::new();
    crates(&metadata, &mut breaches)?;
    code_map(&mut breaches)?;
    let default_run: Vec<&str> =
        metadata.packages.iter().filter_map(|package| package.default_run.as_deref()).collect();
    if default_run != ["build-pipeline"] {
        // The first command in README.md is a `cargo run` that names no program.
        breaches.push(format!("`cargo run` starts {default_run:?}, not `build-pipeline`"));
    }
    let tracks = std::fs::read_to_string(root()?.join(TRACKS)).context(TRACKS)?;
    let tracks = track_names(&tracks)?;
    for file in tracked_files()? {
        text(&file, &tracks, &mut breaches)?;
    }
    if breaches.is_empty() {
        return Ok(());
    }
    breaches.iter().for_each(|breach| say(&format!("tidy: {breach}")));
    bail!("{} project rules are broken", breaches.len())
}

/// Checks the dependencies of all crates, and the lints that they enable.
fn crates(metadata: &Metadata, breaches: &mut Vec<String>) -> Result<()> {
    let pure_rules = std::fs::read_to_string(root()?.join("crates/pins/clippy.toml"))?;
    let ours: BTreeSet<&str> = CRATES.iter().map(|(name, ..)| *name).collect();
    for package in metadata.packages.iter().filter(|package| package.name.as_str() != "xtask") {
        let name = package.name.as_str();
        let Some((_, is_pure, allowed)) = CRATES.iter().find(|(known, ..)| *known == name) else {
            breaches.push(format!("crate `{name}` is not in the table of xtask/src/tidy.rs"));
            continue;
        };
        for used in uses(package) {
            let is_allowed = if ours.contains(used) {
                allowed.contains(&used)
            } else if let Some((_, few)) = OF_FEW_CRATES.iter().find(|(crate_, _)| *crate_ == used)
            {
                few.contains(&name)
            } else {
                !is_pure || PURE_OUTSIDE.contains(&used)
            };
            if !is_allowed {
                breaches.push(format!("crate `{name}` must not use `{used}`"));
            }
        }
        let folder = package.manifest_path.parent().context("a manifest is not in a folder")?;
        let manifest = std::fs::read_to_string(&package.manifest_path)?;
        if !manifest.contains("[lints]\nworkspace = true") {
            breaches.push(format!("crate `{name}` does not use the workspace's lints"));
        }
        if *is_pure
            && std::fs::read_to_string(folder.join("clippy.toml")).unwrap_or_default() != pure_rules
        {
            breaches.push(format!(
                "crates/{name}/clippy.toml differs from the clippy.toml of the other pure crates"
            ));
        }
    }
    Ok(())
}

/// Returns the dependencies of a crate, except those that only its tests use.
fn uses(package: &Package) -> impl Iterator<Item = &str> {
    package
        .dependencies
        .iter()
        .filter(|used| used.kind != DependencyKind::Development)
        .map(|used| used.name.as_str())
}

/// Checks that the code map of ARCHITECTURE.md names every crate, and no other, and that its steps for
/// a new lint rule name every module with rules.
fn code_map(breaches: &mut Vec<String>) -> Result<()> {
    let text =
        std::fs::read_to_string(root()?.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let named: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("### `")?.split('`').next()).collect();
    let there: BTreeSet<&str> = CRATES.iter().map(|(name, ..)| *name).chain(["xtask"]).collect();
    breaches.extend(
        there.difference(&named).map(|name| format!("ARCHITECTURE.md's code map lacks `{name}`")),
    );
    breaches.extend(
        named
            .difference(&there)
            .map(|name| format!("ARCHITECTURE.md's code map has `{name}`, which is not a crate")),
    );
    for file in std::fs::read_dir(root()?.join(LINT_RULES)).context(LINT_RULES)? {
        let path = file?.path();
        let module = path.file_stem().unwrap_or_default().to_string_lossy();
        if module != "mod" && !text.contains(&format!("`{module}`")) {
            breaches.push(format!("ARCHITECTURE.md does not name `{module}` of {LINT_RULES}"));
        }
    }
    Ok(())
}

fn tracked_files() -> Result<Vec<String>> {
    let files =
        crate::run::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// Checks the rules for one source file.
fn text(file: &str, tracks: &[String], breaches: &mut Vec<String>) -> Result<()> {
    let is_rust = file.ends_with(".rs");
    let is_prose = [".md", ".toml", ".yml"].iter().any(|end| file.ends_with(end));
    let path = root()?.join(file);
    if !(is_rust || is_prose) || file.contains("/malformed/") || !path.is_file() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&path).with_context(|| file.to_owned())?;
    for (number, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            breaches.push(format!("{file}:{}: trailing white space", number + 1));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        breaches.push(format!("{file}: no newline at the end"));
    }
    if is_rust {
        rust(file, &text, tracks, breaches);
    }
    Ok(())
}

fn rust(file: &str, text: &str, tracks: &[String], breaches: &mut Vec<String>) {
    if !text.starts_with("//! ") {
        breaches.push(format!("{file}: does not start with `//!` and the purpose of the file"));
    }
    let lines = text.lines().count();
    let is_test = Path::new(file).components().any(|part| part.as_os_str() == "tests")
        || file.ends_with("tests.rs");
    if lines > LONGEST_FILE && !is_test {
        breaches.push(format!("{file}: {lines} lines; the maximum is {LONGEST_FILE}"));
    }
    if file.starts_with("xtask/") {
        return;
    }
    let is_helper = file.starts_with("crates/testkit/");
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    if file.starts_with(LINT_RULES) {
        breaches.extend(versions(product).map(|(line, version)| {
            format!("{file}:{line}: `{version}`: facts about versions belong in versions/lint.toml")
        }));
    }
    if !is_test && !is_helper {
        // `Builder::spawn` and `spawn_scoped` return an error instead.
        let panicking =
            ["thread::spawn(", "scope.spawn("].iter().find(|call| product.contains(**call));
        breaches.extend(panicking.map(|call| {
            format!("{file}: `{call}`: panics if the machine allows no more threads; use std::thread::Builder")
        }));
        breaches.extend(named(file, product, tracks).map(|(line, name)| {
            format!("{file}:{line}: \"{name}\": code must not contain the names of tracks; they are data in {TRACKS}")
        }));
    }
    // Cargo passes values to build scripts in environment variables.
    let is_build_script = file.split('/').nth(2) == Some("build.rs");
    let may_read = is_test || is_build_script || is_helper || file == ENVIRONMENT;
    if !may_read && product.contains("env::var") {
        breaches.push(format!("{file}: only `{ENVIRONMENT}` reads the environment"));
    }
    // The first are not tests: other tests start them from their own executable. nightly.yml runs
    // the second.
    let text = text
        .replace("#[ignore = \"no test: another test starts it\"]", "")
        .replace("#[ignore = \"runs every night: it takes minutes\"]", "");
    // The words are in two parts, so that this file does not break its own rule.
    for (word, why) in [
        ("#[igno", "re", "run the test or remove it"),
        ("should_", "panic", "assert the returned error instead"),
        ("#[allo", "w(", "use #[expect(…, reason = …)]"),
    ]
    .map(|(head, tail, why)| (format!("{head}{tail}"), why))
    {
        if text.contains(&word) {
            breaches.push(format!("{file}: `{word}`: {why}"));
        }
    }
}

/// Returns the names of the tracks in the text of a `tracks.toml`.
fn track_names(text: &str) -> Result<Vec<String>> {
    let all: toml::Table = toml::from_str(text).context(TRACKS)?;
    Ok(all.into_iter().filter(|(_, value)| value.is_table()).map(|(name, _)| name).collect())
}

/// Returns the names of tracks that code contains as string literals, with their line numbers.
/// Skips comments.
fn named<'a>(
    file: &'a str,
    code: &'a str,
    tracks: &'a [String],
) -> impl Iterator<Item = (usize, &'a str)> {
    let is_other = move |name: &str| {
        OTHER_WORDS.iter().any(|(word, start)| *word == name && file.starts_with(start))
    };
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.flat_map(move |(index, line)| {
        let names = tracks.iter().map(String::as_str).filter(move |name| !is_other(name));
        names
            .filter(|name| line.contains(&format!("\"{name}\"")))
            .map(move |name| (index + 1, name))
    })
}

/// Returns versions and GPU targets in code, such as `7.2` and `gfx9`, with their line numbers.
/// Skips comments.
fn versions(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.filter_map(move |(index, line)| {
        let word = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).find(|word| {
            let is_version = word.match_indices('.').any(|(at, _)| {
                is_digit(word[..at].chars().last()) && is_digit(word[at + 1..].chars().next())
            });
            is_version || word.strip_prefix("gfx").is_some_and(|rest| is_digit(rest.chars().next()))
        })?;
        Some((index + 1, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn track_names_are_found_in_code_but_not_in_comments_or_sentences() {
        let text = "schema = 1\ngpu = \"gfx1151\"\n[my-track]\n[ollama]\nenv.A = \"1\"\n[source]\n";
        let tracks = track_names(text).unwrap();
        assert_eq!(tracks, ["my-track", "ollama", "source"]);
        let code = "// \"my-track\"\nif track == \"my-track\" {}\nlet a = \"for example `my-track`\";\n\
            matches!(name, \"ollama\" | \"my-track\")\nlet b = \"source\";\n";
        let found = |file| named(file, code, &tracks).collect::<Vec<_>>();
        let own = [(2, "my-track"), (4, "my-track"), (4, "ollama")];
        assert_eq!(found("crates/plan/src/lib.rs"), own);
        assert_eq!(found("crates/lint/src/units.rs"), own[..2]);
    }

    #[test]
    fn versions_are_found_in_code_but_not_in_comments() {
        let code = "// 7.2.1\nlet a = \"vLLM v0.10.3\";\nlet b = \"gfx1151\";\nlet c = d.0;\nlet e = 1..2;\n\
            if tag == \"6.4.1-complete\" {}\n/// Since 10.0.\nlet f = \"gfx\";\n";
        let found: Vec<_> = versions(code).collect();
        assert_eq!(found, [(2, "v0.10.3"), (3, "gfx1151"), (6, "6.4.1")]);
    }
}
