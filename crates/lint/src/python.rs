//! Reads Python packages from pip commands and from requirement lines.

use crate::facts::Package;
use crate::shell::{ShellCommand, UNKNOWN};

/// Options of `pip install` whose value is the next word.
const TAKES_VALUE: [&str; 47] = [
    "-r",
    "--requirement",
    "--requirements",
    "-c",
    "--constraint",
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "-t",
    "--target",
    "--prefix",
    "--root",
    "--src",
    "--python",
    "-p",
    "--index",
    "--default-index",
    "--index-strategy",
    "--timeout",
    "--trusted-host",
    "--group",
    "--extra",
    "--python-version",
    // A local folder, or a repository, which other rules check.
    "-e",
    "--editable",
    "--abi",
    "--cache-dir",
    "--config-settings",
    "--constraints",
    "--build-constraints",
    "--exclude-newer",
    "--implementation",
    "--keyring-provider",
    "--link-mode",
    "--no-binary",
    "--no-build-isolation-package",
    "--only-binary",
    "--overrides",
    "--platform",
    "--prerelease",
    "--progress-bar",
    "--python-platform",
    "--python-preference",
    "--reinstall-package",
    "--resolution",
];

/// Returns whether words call pip, directly or through Python or uv.
pub(crate) fn is_pip(words: &[&str]) -> bool {
    let program = words.first().map(|word| word.rsplit('/').next().unwrap_or_default());
    match program {
        Some("uv") => words.get(1) == Some(&"pip"),
        Some(program) if program.starts_with("pip") && !program.starts_with("pipx") => true,
        Some(program) if program.starts_with("python") => {
            words.windows(2).any(|two| two == ["-m", "pip"])
        }
        Some(_) | None => false,
    }
}

/// Returns whether the value of an option of `pip install` is the next word. The last of combined
/// letters can take a value: `-Ur FILE`.
pub(crate) fn takes_value(option: &str) -> bool {
    let letters = option.strip_prefix('-').unwrap_or_default();
    let is_combined = letters.len() > 1 && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    let last = letters.get(letters.len().saturating_sub(1)..).filter(|_| is_combined);
    TAKES_VALUE.contains(&option)
        || last.is_some_and(|last| TAKES_VALUE.contains(&format!("-{last}").as_str()))
}

/// Returns the packages that a pip command installs.
pub(crate) fn installed(command: &ShellCommand) -> Vec<Package> {
    let words: Vec<&str> = command.texts();
    let at = words.iter().position(|word| *word == "install").filter(|_| is_pip(&words));
    let Some(at) = at.filter(|_| !words.contains(&"--dry-run")) else { return Vec::new() };
    let mut packages = Vec::new();
    let mut rest = command.words[at + 1..].iter();
    while let Some(word) = rest.next() {
        if takes_value(&word.text) {
            rest.next();
        } else if !word.text.starts_with('-') {
            packages.extend(package(&word.text, word.line));
        }
    }
    packages
}

/// Parses `NAME[extra]==1.0`, `NAME @ URL` and the URL of a wheel.
pub(crate) fn package(text: &str, line: usize) -> Option<Package> {
    if let Some(at) = text.find("://") {
        let scheme = text[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric()).len();
        return wheel(&text[scheme..], line);
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !rest.starts_with(['/', ':', UNKNOWN])
        && !text.trim_end().ends_with(".whl");
    if !is_name {
        return None;
    }
    let (extras, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((extras, rest)) => {
            (extras.split(',').map(|one| one.trim().to_owned()).collect(), rest)
        }
        None => (Vec::new(), rest),
    };
    let version = rest
        .trim_start()
        .strip_prefix("==")
        .map(|version| version.trim().split([';', ',', ' ']).next().unwrap_or_default().to_owned());
    let is_special = rest.contains([';', '@']);
    let condition = rest.find(';').unwrap_or(rest.len());
    let is_limited = rest[..condition].contains(['<', '~']);
    Some(Package { extras, version, is_special, is_limited, ..named(name, line) })
}

fn named(name: &str, line: usize) -> Package {
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    Package {
        name,
        extras: Vec::new(),
        version: None,
        python: None,
        is_special: false,
        is_limited: false,
        line,
        stage: 0,
        command: 0,
    }
}

/// Parses the URL of a wheel: `…/torch-2.9.1%2Brocm7.2.1-cp312-cp312-linux_x86_64.whl`.
fn wheel(url: &str, line: usize) -> Option<Package> {
    let path = url.split(['#', '?', ' ']).next().unwrap_or_default();
    let file = path.rsplit('/').next()?.strip_suffix(".whl")?;
    let file = file.replace("%2B", "+").replace("%2b", "+");
    let mut parts = file.split('-');
    let (name, version) = (parts.next()?, parts.next()?);
    let tags: Vec<&str> = parts.collect();
    let tag = tags.get(tags.len().checked_sub(3)?)?;
    let python = tag.strip_prefix("cp3").map(|minor| format!("3.{minor}"));
    let version = (!version.contains(UNKNOWN)).then(|| version.to_owned());
    Some(Package { version, python, is_special: true, ..named(name, line) })
}

/// Returns the minor version of Python in text such as `python3.13` or `--python=3.13`.
pub(crate) fn version_in(word: &str) -> Option<&str> {
    let rest = word.trim_start_matches(|c: char| !c.is_ascii_digit());
    let patch = rest.match_indices('.').nth(1).map_or(rest.len(), |(at, _)| at);
    let rest = &rest[..patch];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let version = &rest[..end];
    let minor = version.strip_prefix("3.")?;
    (!minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_in_all_forms() {
        let read = |text: &str| {
            package(text, 1).map(|one| (one.name, one.version, one.python, one.is_special))
        };
        let is = |name: &str, version: Option<&str>, python: Option<&str>, special| {
            Some((name.to_owned(), version.map(str::to_owned), python.map(str::to_owned), special))
        };
        assert_eq!(
            read("torch==2.9.1+rocm7.2.1"),
            is("torch", Some("2.9.1+rocm7.2.1"), None, false)
        );
        assert_eq!(read("Ninja_X"), is("ninja-x", None, None, false));
        assert_eq!(read("a==1 ; python_version > '3'"), is("a", Some("1"), None, true));
        let url =
            "https://h.example/w/torch-2.9.1%2Brocm7.2.1.lw.git1-cp312-cp312-linux_x86_64.whl";
        let wheel = is("torch", Some("2.9.1+rocm7.2.1.lw.git1"), Some("3.12"), true);
        assert_eq!(read(url), wheel);
        assert_eq!(read(&format!("torch @ {url}#sha256=1")), wheel);
        for text in [
            ">é://h.example/a",
            "https://h.example/a.tar.gz",
            "git+https://h.example/a",
            "./a.whl",
            "-e",
            "",
            "a.whl",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn pythons_are_found_in_words() {
        for (word, expected) in [
            ("python3.13", Some("3.13")),
            ("--python=3.12.4", Some("3.12")),
            ("docker.io/library/python:3.11-slim", Some("3.11")),
            ("python3", None),
            ("rocm7.2", None),
        ] {
            assert_eq!(version_in(word), expected, "{word}");
        }
    }
}
