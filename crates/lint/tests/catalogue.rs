//! Tests that every rule is violated by a realistic file, and that clean files violate none.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be read has failed")]

mod clean;
mod defects;
mod wrong;

use std::collections::BTreeSet;

use lint::{Context, Exists, Facts, Finding, Severity, check, rules};
use proptest::prelude::*;

const VERSIONS: &str = include_str!("../../../versions/versions.toml");
const COMPAT: &str = include_str!("../../../versions/compat.toml");

fn compat() -> pins::Compat {
    pins::parse_compat("versions/compat.toml", COMPAT).unwrap()
}

/// Returns the variables that a file defines.
fn defined(file: &str, text: &str) -> BTreeSet<String> {
    Facts::read(file, text).defined().map(str::to_owned).collect()
}

/// Returns the images that a file builds.
fn built(file: &str, text: &str) -> BTreeSet<String> {
    Facts::read(file, text).built.into_iter().collect()
}

/// A folder with one Dockerfile, npm's lock file and a Python project.
#[derive(Debug)]
struct Folder;

impl Exists for Folder {
    fn exists(&self, _file: &str, path: &str) -> Option<bool> {
        Some(matches!(path, "Dockerfile" | "Dockerfile.there" | "./package-lock.json"))
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        let text = match path.trim_start_matches("./") {
            "project/pyproject.toml" => "[project]\nrequires-python = \">=3.13\"\n",
            "node/Dockerfile" => "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nRUN npm ci\n",
            "setup.sh" => "mkdir -p ./prepared && chown 1000 ./prepared\n",
            "app/Dockerfile" => "FROM docker.io/a/b@sha256:1\nUSER app\n",
            "example.env" => "ONE=1\nTWO=2\nTHREE=3\n",
            "root/Dockerfile" => "FROM docker.io/a/b@sha256:1\n",
            "scripts/deaf.sh" => "#!/bin/bash\nexec python3 main.py $CLI_ARGS\n",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

fn findings(file: &str, text: &str) -> Vec<Finding> {
    let gpu = "gfx1151".parse().unwrap();
    findings_in(file, text, Context { project_gpu: Some(&gpu), ..Context::default() })
}

/// Returns the findings in a file, one for each line that they name.
fn findings_in(file: &str, text: &str, context: Context<'_>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for one in merged(file, text, context) {
        for line in &one.also {
            let mut other = one.clone();
            other.line = *line;
            all.push(other);
        }
        all.push(one);
    }
    all.sort_by_key(|one| one.line);
    all
}

/// Returns the findings in a file, one for each defect.
fn merged(file: &str, text: &str, context: Context<'_>) -> Vec<Finding> {
    let compat = compat();
    let exists = context.exists.or(Some(&Folder));
    check(
        file,
        text,
        Context { compat: Some(&compat), today: Some("2026-11-21"), exists, ..context },
    )
}

fn shown(found: &[Finding]) -> Vec<String> {
    found
        .iter()
        .map(|one| format!("{}:{}: {} [{}]", one.file, one.line, one.message, one.rule.id))
        .collect()
}

#[test]
fn every_rule_is_broken_by_a_file() {
    let mut broken = BTreeSet::new();
    let mut missed = Vec::new();
    for (rule, file, line, text) in &wrong::all() {
        let mut found = findings(file, text);
        // Some rules apply only if no GPU is known.
        found.extend(findings_in(file, text, Context::default()));
        match found.iter().find(|one| one.rule.id == *rule && one.line == *line) {
            Some(hit) => {
                assert!(hit.message.len() > 5 && hit.help.len() > 5, "{hit:?}");
                broken.insert(*rule);
            }
            None => {
                missed
                    .push(format!("{rule} in line {line} of\n{text}\nfound {:#?}", shown(&found)));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
    // The command-line tool reports this rule, because `check` takes only text.
    broken.insert("not-utf-8");
    let unbroken: Vec<&str> =
        rules().iter().map(|rule| rule.id.as_str()).filter(|id| !broken.contains(id)).collect();
    assert!(unbroken.is_empty(), "no file violates {unbroken:?}");
}

/// `Findings::hit` finds the rule of a row by its name. For names in the code, this test ensures
/// that they exist.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the source of the rules")]
fn every_rule_that_the_code_names_exists() {
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir("src/rules").unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for call in [".add(", ".add_with(", "Hit::new("] {
            let arguments = text.split(call).skip(1).map(str::trim_start);
            let quoted = arguments.filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
            names.extend(quoted.map(str::to_owned));
        }
    }
    assert!(names.len() > 20, "{names:?}");
    let unknown: Vec<&String> = names.iter().filter(|name| lint::rule(name).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_row_of_the_catalogue_has_a_rule_that_a_file_breaks() {
    let rows: BTreeSet<&str> =
        rules().iter().flat_map(|rule| rule.catalogue.iter().map(String::as_str)).collect();
    // 23 is no longer checked: the path of the device libraries differs, and people know theirs.
    for number in (1..=30).filter(|number| *number != 23) {
        assert!(rows.contains(format!("L{number}").as_str()), "L{number}");
    }
    for rule in rules() {
        assert!(rule.fact.ends_with('.') && !rule.advice.ends_with('.'), "{}", rule.id);
    }
}

#[test]
fn clean_files_break_no_rule() {
    assert!(clean::CLEAN.len() >= 30, "{}", clean::CLEAN.len());
    let all: Vec<String> =
        clean::CLEAN.iter().flat_map(|(file, text)| shown(&findings(file, text))).collect();
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn our_pins_get_what_they_deserve() {
    let found = findings("versions/versions.toml", VERSIONS);
    let unresolved = VERSIONS.matches("\"unresolved\"\n").count();
    let followed = VERSIONS.matches("follow = true").count();
    let discontinued = VERSIONS.matches("\ndiscontinued = ").count();
    let of = |id: &str| found.iter().filter(|one| one.rule.id == id).count();
    assert_eq!(of("pin-unresolved"), unresolved - followed);
    assert_eq!(of("pin-discontinued"), discontinued);
    // Two images with an old ROCm are kept for comparison, and comments allow them.
    assert_eq!(VERSIONS.matches("# build-pipeline: allow rocm-too-old\n").count(), 2);
    let all = findings("versions/versions.toml", &VERSIONS.replace("allow rocm-too-old", "-"));
    assert_eq!(all.len(), found.len() + 2);
    let known = ["pin-unresolved", "pin-discontinued"];
    let other: Vec<String> =
        shown(&found).into_iter().filter(|one| !known.iter().any(|id| one.contains(id))).collect();
    assert!(other.is_empty(), "{other:?}");
    assert!(found.iter().all(|one| one.severity != Severity::Error));
}

#[test]
fn a_comment_excuses_a_line() {
    let text = "FROM docker.io/a/b:1 # build-pipeline: allow image-unpinned\n\
        # build-pipeline: allow image-latest, image-short-name because it is a test\n\
        FROM a/c\nFROM a/d\n";
    let found = findings("Dockerfile", text);
    assert_eq!(
        found.iter().map(|one| one.line).collect::<BTreeSet<_>>(),
        BTreeSet::from([4]),
        "{:?}",
        shown(&found)
    );
}

#[test]
fn names_of_other_files_of_the_run_count_as_defined() {
    let script = "source versions.env\ngit clone -q https://h.example/a && git -C a checkout \"$A_COMMIT\" \"$B_COMMIT\"\n";
    let names = defined("versions.env", "A_COMMIT=1\n");
    let context = Context { defined: Some(&names), ..Context::default() };
    let found = check("build.sh", script, context);
    assert_eq!(shown(&found), ["build.sh:2: `B_COMMIT` is used, but not defined [undefined-pin]"]);
    // The variables in an unknown file cannot be known.
    assert!(check("build.sh", script, Context::default()).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_answered(
        text in "(\\PC|\n){0,120}",
        file in prop::sample::select(vec!["Dockerfile", "a.sh", ".env", "compose.yml", "versions.toml", "requirements.txt", "a.md"]),
    ) {
        drop(findings(file, &text));
    }

    #[test]
    fn damaged_files_are_answered(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), with in "[\"'$(){}<>|&;#\\\\\n `é]{0,4}") {
        let all = wrong::all();
        let (_, file, _, text) = all[which.index(all.len())];
        let mut at = at.index(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        drop(findings(file, &format!("{}{with}{}", &text[..at], &text[at..])));
    }
}
