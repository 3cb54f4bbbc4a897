//! Rules for the Python that starts the program of an image: it is not the one for which pip has
//! installed the packages.

use super::images;
use super::pythons::of_image;
use super::stages::{fixed_base, parent, parts};
use crate::dockerfile::Instruction;
use crate::python::{is_pip, version_in};
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    let last = facts.stages.len();
    let mut stages = vec![last];
    while let Some(earlier) = stages.last().and_then(|stage| parent(facts, all, *stage)) {
        stages.push(earlier);
    }
    let own: Vec<&Instruction> = all.iter().filter(|one| stages.contains(&one.stage)).collect();
    let Some(program) = start(&own, last) else { return };
    let base = fixed_base(facts, all, last);
    other(facts, (&own, &stages), (base, program), found);
}

/// Returns the program that starts a container.
fn start<'i>(own: &[&'i Instruction], last: usize) -> Option<&'i str> {
    let of = |name: &str| own.iter().rev().find(|one| parts(one).0 == name);
    let first = of("ENTRYPOINT").or_else(|| of("CMD")).filter(|one| one.stage == last)?;
    let rest = parts(first).1;
    let mut words = rest.split(|c: char| c.is_whitespace() || "[],\"'".contains(c));
    let program = words.find(|word| !word.is_empty() && !word.contains('=') && *word != "exec")?;
    // A path belongs to a folder whose programs are not known.
    (!program.contains(['/', '$'])).then_some(program)
}

/// Texts, in lower case, with which pip or the name `python3` can belong to another Python.
const SETTLES: [&str; 17] = [
    "--python",
    "--target",
    "<<",
    "alias ",
    "altinstall",
    "conda",
    "ensurepip",
    "get-pip",
    "make install",
    "mamba",
    "mise ",
    "pyenv",
    "python-pip",
    "site-packages",
    "update-alternatives",
    "uv ",
    "virtualenv",
];

/// Returns whether an instruction can give pip or `python3` another Python.
fn settles(one: &Instruction) -> bool {
    let text = one.text.to_ascii_lowercase();
    let is_link = |word: &str| word.ends_with("/bin/python3") || word.ends_with("/bin/pip3");
    let links = text.contains("ln ") && text.split_whitespace().any(is_link);
    let copies = text.contains("--from=") && text.contains("python");
    links
        || copies
        || text.contains("-m venv")
        || text.contains("-m pip")
        || text.contains(".sh")
        || SETTLES.iter().any(|word| text.contains(word))
}

/// Checks for the pip of a distribution beside a Python of another release, which starts the program.
fn other(
    facts: &Facts<'_>,
    (own, stages): (&[&Instruction], &[usize]),
    (base, program): (&str, &str),
    found: &mut Findings<'_>,
) {
    let path = images::parts(base).path;
    let is_plain = matches!(path, "debian" | "ubuntu") || path.starts_with("rocm/dev-ubuntu-");
    let runs = || own.iter().filter(|one| parts(one).0 == "RUN");
    let Some(version) = of_image(base).filter(|_| is_plain) else { return };
    let Some(started) = version_in(program).or_else(|| linked(program, own)) else { return };
    if started == version || runs().any(|one| settles(one)) {
        return;
    }
    let installs = |one: &&ShellCommand| {
        let words = one.texts();
        let rest = words.iter().skip_while(|word| **word != "install").skip(1);
        let mut names = rest.filter(|word| !word.starts_with('-'));
        matches!(words[0], "pip" | "pip3")
            && is_pip(&words)
            && stages.contains(&one.stage)
            && names.any(|word| !matches!(*word, "pip" | "setuptools" | "wheel"))
    };
    if let Some(command) = facts.commands.iter().find(installs) {
        let message = format!(
            "`{}` installs for Python {version} of `{base}`, but `{program}` is Python {started}",
            command.words[0].text
        );
        found.add("pip-other-python", command.words[0].line, message);
    }
}

/// Returns the Python to which `python` is linked: `ln -sf /usr/bin/python3.11 /usr/bin/python`.
fn linked<'i>(program: &str, own: &[&'i Instruction]) -> Option<&'i str> {
    let links = own.iter().filter(|one| program == "python" && one.text.contains("ln "));
    links.into_iter().find_map(|one| {
        let words: Vec<&str> = one.text.split_whitespace().collect();
        words.windows(2).find_map(|two| {
            let is_link = two[1].trim_end_matches(';').ends_with("/bin/python");
            version_in(two[0]).filter(|_| is_link && two[0].contains("/python"))
        })
    })
}
