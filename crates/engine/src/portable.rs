//! Checks and rewrites a Dockerfile so that every engine makes the same image from it.
//!
//! Measured on podman 4.3.1 and docker 20.10 (classic builder and BuildKit):
//!
//! - podman runs `CMD` and `ENTRYPOINT` in shell form with `/bin/sh -c`, regardless of `SHELL`;
//!   docker uses `SHELL`. [`portable_dockerfile`] writes them as lists, which all engines read in
//!   the same way.
//! - If a second `HEALTHCHECK` omits an option, docker's classic builder uses the value of the
//!   first; podman and BuildKit use the default. [`portable_dockerfile`] keeps only the last one.
//! - podman and docker's classic builder drop what a `RUN` writes to a volume; BuildKit keeps it.
//!   [`check_dockerfile`] refuses a `RUN` after a `VOLUME`.
//! - podman writes `EXPOSE 8080:80` and `80/TCP` into the config unchanged, and then cannot inspect
//!   the image. [`check_dockerfile`] refuses both.
//! - BuildKit pulls the parser that a `syntax` directive names from a registry; the others ignore
//!   the directive. [`portable_dockerfile`] removes it.
//! - A directory that `WORKDIR` creates after `USER` belongs to that user with BuildKit, and to
//!   root with the others. The Dockerfile does not show whether the directory exists:
//!   [`unclear_owners`] finds the lines.

use std::collections::BTreeMap;

use crate::dockerfile::{Instruction, instructions, is_base};

/// An instruction that gives different images on different engines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPortable {
    /// A `RUN` after a `VOLUME`.
    #[error(
        "line {run}: this RUN comes after VOLUME (line {volume}); podman and docker's classic \
         builder drop what it writes to the volume, but BuildKit keeps it: move VOLUME after the last \
         RUN"
    )]
    RunAfterVolume {
        /// The line of the `RUN`, counted from 1.
        run: usize,
        /// The line of the `VOLUME`, counted from 1.
        volume: usize,
    },
    /// An `EXPOSE` with a host port, or with a protocol in capitals.
    #[error(
        "line {line}: podman cannot read an image that exposes `{port}`: write only the \
         container's port, with its protocol in lower case"
    )]
    Port {
        /// The line of the `EXPOSE`, counted from 1.
        line: usize,
        /// The argument of the `EXPOSE`.
        port: String,
    },
}

/// Why the image of a Dockerfile is not based on `${BASE}`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOnBase {
    /// There is no `FROM`.
    #[error("the Dockerfile has no FROM")]
    NoFrom,
    /// The last `FROM` names something else.
    #[error("the image is based on `{image}`, not on the track's base")]
    Other {
        /// The line of the `FROM`, counted from 1.
        line: usize,
        /// The image that it names.
        image: String,
    },
    /// `BASE` is used, but no `ARG` before the first `FROM` declares it.
    #[error("`${{BASE}}` is empty: no ARG before the first FROM declares `BASE`")]
    Undeclared {
        /// The line of the `FROM`, counted from 1.
        line: usize,
    },
}

impl NotOnBase {
    /// Returns the line with the problem, counted from 1.
    pub fn line(&self) -> usize {
        match self {
            Self::NoFrom => 1,
            Self::Other { line, .. } | Self::Undeclared { line } => *line,
        }
    }
}

/// Checks that the image of a Dockerfile is based on the build argument `BASE`: its last `FROM`
/// must name `${BASE}`, or a stage based on it.
///
/// # Errors
/// Fails if it is based on anything else.
pub fn check_base(text: &str) -> Result<(), NotOnBase> {
    // For each stage based on `${BASE}`, the line of the FROM that names `${BASE}`.
    let mut on_base: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_declared = false;
    let mut last = Err(NotOnBase::NoFrom);
    for Instruction { line, text: instruction, .. } in instructions(text) {
        let mut words = instruction.split(' ');
        match words.next() {
            Some("ARG") if last == Err(NotOnBase::NoFrom) => {
                let mut names = words.filter_map(|word| word.split('=').next());
                is_declared |= names.any(|name| name == "BASE");
            }
            Some("FROM") => {
                let mut words = words.filter(|word| !word.starts_with("--"));
                let image = words.next().unwrap_or_default().trim_matches('"');
                let found = if is_base(image) {
                    Some(line)
                } else {
                    on_base.get(&image.to_lowercase()).copied()
                };
                let is_named = words.next().is_some_and(|word| word.eq_ignore_ascii_case("as"));
                if let Some((found, name)) = found.zip(words.next().filter(|_| is_named)) {
                    on_base.insert(name.to_lowercase(), found);
                }
                last = found.ok_or_else(|| NotOnBase::Other { line, image: image.to_owned() });
            }
            _ => {}
        }
    }
    match last {
        Ok(line) if !is_declared => Err(NotOnBase::Undeclared { line }),
        other => other.map(|_| ()),
    }
}

/// The state of a stage that later instructions and stages depend on.
#[derive(Debug, Clone, Default)]
struct Stage {
    /// The words of `SHELL`, if it is set.
    shell: Option<Vec<String>>,
    /// The line of the first `VOLUME`.
    volume: Option<usize>,
    /// The line of the last `HEALTHCHECK`.
    health_check: Option<usize>,
    /// Whether `USER` is not root.
    has_user: bool,
}

/// The stages of a Dockerfile up to an instruction.
#[derive(Debug, Default)]
struct Stages {
    /// The state of the base.
    base: Stage,
    current: Stage,
    /// The finished stages, by name and by number.
    ended: BTreeMap<String, Stage>,
    names: Vec<String>,
    count: usize,
}

impl Stages {
    fn on(base: Stage) -> Self {
        Self { base, ..Self::default() }
    }

    /// Records an instruction and returns its keyword.
    fn read(&mut self, instruction: &Instruction) -> String {
        let keyword = instruction.keyword();
        match keyword.as_str() {
            "FROM" => self.start(&instruction.text),
            "SHELL" => {
                if let Ok(words) = serde_json::from_str(&instruction.arguments) {
                    self.current.shell = Some(words);
                }
            }
            "VOLUME" => drop(self.current.volume.get_or_insert(instruction.line)),
            "USER" => {
                let user = instruction.arguments.split(':').next().unwrap_or_default();
                self.current.has_user = !["root", "0"].contains(&user);
            }
            "HEALTHCHECK" => self.current.health_check = Some(instruction.line),
            _ => {}
        }
        keyword
    }

    /// Starts the stage of a `FROM`.
    fn start(&mut self, from: &str) {
        for name in std::mem::take(&mut self.names) {
            self.ended.insert(name, self.current.clone());
        }
        let mut words = from.split(' ').skip(1).filter(|word| !word.starts_with("--"));
        let image = words.next().unwrap_or_default().to_ascii_lowercase();
        self.current = match image.as_str() {
            "$base" | "${base}" => self.base.clone(),
            name => self.ended.get(name).cloned().unwrap_or_default(),
        };
        self.names = vec![self.count.to_string()];
        self.count += 1;
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case("as")) {
            self.names.extend(words.next().map(str::to_ascii_lowercase));
        }
    }
}

/// Checks that every engine makes the same image from a Dockerfile.
///
/// # Errors
/// Fails if a `RUN` comes after a `VOLUME` of its stage or of a stage that it is based on, or if
/// podman cannot read back an `EXPOSE`.
pub fn check_dockerfile(text: &str) -> Result<(), NotPortable> {
    let mut stages = Stages::default();
    for instruction in instructions(text) {
        let (keyword, line) = (stages.read(&instruction), instruction.line);
        match (keyword.as_str(), stages.current.volume) {
            ("RUN", Some(volume)) => return Err(NotPortable::RunAfterVolume { run: line, volume }),
            ("EXPOSE", _) => {
                // `${NAME:-80}` also contains capitals and colons.
                let is_bad = |word: &&str| {
                    !word.contains('$') && word.contains(|c: char| c == ':' || c.is_uppercase())
                };
                if let Some(port) = instruction.arguments.split_whitespace().find(is_bad) {
                    return Err(NotPortable::Port { line, port: port.to_owned() });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the lines on which a `WORKDIR` comes after a `USER` that is not root. `has_user` is set
/// if the base has a user other than root.
pub fn unclear_owners(text: &str, has_user: bool) -> Vec<usize> {
    let mut stages = Stages::on(Stage { has_user, ..Stage::default() });
    let is_unclear = |instruction: &Instruction| {
        stages.read(instruction) == "WORKDIR" && stages.current.has_user
    };
    instructions(text).into_iter().filter(is_unclear).map(|found| found.line).collect()
}

/// Returns the line of the `HEALTHCHECK` that applies to the image of a Dockerfile, if there is
/// one.
fn health_check(instructions: &[Instruction]) -> Option<usize> {
    let mut stages = Stages::default();
    for instruction in instructions {
        stages.read(instruction);
    }
    stages.current.health_check
}

/// Returns whether a Dockerfile replaces the health check of its base.
pub fn has_health_check(text: &str) -> bool {
    health_check(&instructions(text)).is_some()
}

/// Returns a Dockerfile from which all engines make the same image: `CMD` and `ENTRYPOINT` after
/// `SHELL` become lists, at most one `HEALTHCHECK` remains, and there is no `syntax` directive.
/// `shell` is the shell of the base, `${BASE}`. Instructions keep their line numbers.
pub fn portable_dockerfile(text: &str, shell: Option<Vec<String>>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    remove_syntax(&mut lines);
    let instructions = instructions(text);
    let health_check = health_check(&instructions);
    let mut stages = Stages::on(Stage { shell, ..Stage::default() });
    for instruction in instructions {
        let keyword = stages.read(&instruction);
        let written = match (keyword.as_str(), &stages.current.shell) {
            ("HEALTHCHECK", _) if health_check != Some(instruction.line) => String::new(),
            ("CMD" | "ENTRYPOINT", Some(stage_shell)) if is_shell_form(&instruction.arguments) => {
                let words: Vec<_> = stage_shell.iter().chain([&instruction.arguments]).collect();
                format!("{keyword} {}", serde_json::json!(words))
            }
            _ => continue,
        };
        let mut written = Some(written);
        for line in lines.iter_mut().take(instruction.last).skip(instruction.line - 1) {
            *line = written.take().unwrap_or_default();
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Removes the `syntax` directive, for which BuildKit pulls a parser from a registry. Only
/// directives may precede the `escape` directive, so that one moves to its line.
fn remove_syntax(lines: &mut [String]) {
    let key = |line: &String| {
        let directive = line.trim().strip_prefix('#').or_else(|| line.trim().strip_prefix("//"));
        let key = directive?.split_once('=')?.0.trim().to_ascii_lowercase();
        Some(key).filter(|key| !key.contains(char::is_whitespace))
    };
    let keys: Vec<String> = lines.iter().map_while(key).collect();
    let Some(at) = keys.iter().position(|one| one == "syntax") else { return };
    let escape = keys.iter().position(|one| one == "escape").filter(|escape| *escape > at);
    if let Some(escape) = escape {
        lines.swap(at, escape);
    }
    lines[escape.unwrap_or(at)] = "#".to_owned();
}

/// Returns whether the arguments of a command are not a list.
fn is_shell_form(arguments: &str) -> bool {
    !arguments.is_empty() && serde_json::from_str::<Vec<String>>(arguments).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash() -> Vec<String> {
        ["/bin/bash", "-c"].map(str::to_owned).to_vec()
    }

    #[test]
    fn commands_in_shell_form_become_lists_after_shell() {
        let text = "FROM ${BASE} AS One\nCMD a\nSHELL [\"/bin/bash\", \"-c\"]\ncmd  a  \\\n  # why\n\n   \"b\" $C\\\nd  \n\
            ENTRYPOINT [\"x\"]\nENTRYPOINT [x]\nRUN a\nFROM alpine\nCMD b\nFROM one\nCMD c\nFROM 0\nCMD d\nCMD\n";
        let expected = "FROM ${BASE} AS One\nCMD a\nSHELL [\"/bin/bash\", \"-c\"]\nCMD [\"/bin/bash\",\"-c\",\"a     \\\"b\\\" $Cd\"]\n\n\n\n\n\
            ENTRYPOINT [\"x\"]\nENTRYPOINT [\"/bin/bash\",\"-c\",\"[x]\"]\nRUN a\nFROM alpine\nCMD b\nFROM one\nCMD [\"/bin/bash\",\"-c\",\"c\"]\nFROM 0\nCMD [\"/bin/bash\",\"-c\",\"d\"]\nCMD\n";
        assert_eq!(portable_dockerfile(text, None), expected);
    }

    #[test]
    fn the_shell_of_the_base_counts_where_the_stage_starts_from_it() {
        let text = "ARG BASE\nFROM --platform=linux/amd64 $BASE\nCMD a\nFROM other\nCMD a\n";
        let expected = text.replacen("CMD a", "CMD [\"/bin/bash\",\"-c\",\"a\"]", 1);
        assert_eq!(portable_dockerfile(text, Some(bash())), expected);
        assert_eq!(portable_dockerfile(text, None), text);
    }

    #[test]
    fn no_parser_is_pulled() {
        for (text, expected) in [
            ("# syntax=docker/dockerfile:1\nFROM a\n", "#\nFROM a\n"),
            ("#Syntax = x\n# escape=`\nRUN a `\n b\n", "# escape=`\n#\nRUN a `\n b\n"),
            ("# check=x\n//syntax=x\nFROM a\n", "# check=x\n#\nFROM a\n"),
            ("FROM a\n# syntax=x\n", "FROM a\n# syntax=x\n"),
            ("# the syntax = x\nFROM a\n", "# the syntax = x\nFROM a\n"),
        ] {
            assert_eq!(portable_dockerfile(text, None), expected, "{text}");
        }
    }

    #[test]
    fn a_heredoc_is_no_instruction_and_stays() {
        let text =
            "FROM ${BASE}\nSHELL [\"/bin/bash\",\"-c\"]\nRUN <<EOF\nCMD a\nVOLUME /x\nEOF\nRUN b\n";
        assert_eq!(portable_dockerfile(text, None), text);
        assert_eq!(check_dockerfile(text), Ok(()));
    }

    #[test]
    fn a_run_after_a_volume_is_refused_also_in_a_later_stage() {
        let fails = |text: &str| match check_dockerfile(text) {
            Err(NotPortable::RunAfterVolume { run, volume }) => Err((run, volume)),
            Err(other) => panic!("{other}"),
            Ok(()) => Ok(()),
        };
        assert_eq!(fails("FROM a\nRUN x\nVOLUME /x\nCOPY a /x\n"), Ok(()));
        assert_eq!(fails("FROM a\nvolume /x \\\n /y\n\nrun x\n"), Err((5, 2)));
        assert_eq!(fails("FROM a AS one\nVOLUME /x\nFROM b\nRUN x\n"), Ok(()));
        assert_eq!(fails("FROM a AS one\nVOLUME /x\nFROM One AS two\nRUN x\n"), Err((4, 2)));
    }

    #[test]
    fn ports_that_podman_cannot_read_back_are_refused() {
        for (ports, wanted) in [
            ("80 90/udp 1-3", None),
            ("${P:-80}", None),
            ("80 8080:80", Some(2)),
            ("1/UDP", Some(2)),
        ] {
            let found = check_dockerfile(&format!("FROM a\nEXPOSE {ports}\n"));
            let line = found.err().map(|error| match error {
                NotPortable::Port { line, .. } => line,
                other => panic!("{other}"),
            });
            assert_eq!(line, wanted, "{ports}");
        }
    }

    #[test]
    fn the_last_from_must_lead_to_the_base() {
        let other = |line, image: &str| Err(NotOnBase::Other { line, image: image.to_owned() });
        for (text, expected) in [
            ("ARG BASE\nFROM ${BASE}\n", Ok(())),
            ("arg A BASE=x\nfrom --platform=linux/amd64 \"$BASE\" as One\nFROM one\n", Ok(())),
            ("ARG BASE\nFROM scratch AS files\nFROM ${BASE:-x}\nCOPY --from=files / /\n", Ok(())),
            ("", Err(NotOnBase::NoFrom)),
            ("ARG BASE\n# FROM ${BASE}\nRUN x\n", Err(NotOnBase::NoFrom)),
            ("FROM ${BASE}\nARG BASE\n", Err(NotOnBase::Undeclared { line: 1 })),
            ("ARG BASE\n\nFROM debian:13\nRUN x\n", other(3, "debian:13")),
            ("ARG BASE\nFROM ${BASE} AS a\nFROM b AS c\nFROM c\n", other(4, "c")),
            ("ARG BASE\nFROM $base\n", other(2, "$base")),
            ("ARG BASE\nFROM\n", other(2, "")),
        ] {
            assert_eq!(check_base(text), expected, "{text}");
        }
    }

    #[test]
    fn a_workdir_after_a_user_is_found() {
        let text = "FROM ${BASE}\nWORKDIR /a\nUSER 0:5\nWORKDIR /b\nUSER app\nWORKDIR /c\nUSER root\nWORKDIR /d\n";
        assert_eq!(unclear_owners(text, false), [6]);
        assert_eq!(unclear_owners(text, true), [2, 6]);
    }

    #[test]
    fn only_the_health_check_that_counts_is_kept() {
        let text = "FROM a AS one\nHEALTHCHECK CMD a\nFROM b\nHEALTHCHECK --interval=1s \\\n CMD b\nFROM one\nHEALTHCHECK CMD c\nHEALTHCHECK CMD d\n";
        let expected = "FROM a AS one\n\nFROM b\n\n\nFROM one\n\nHEALTHCHECK CMD d\n";
        assert_eq!(portable_dockerfile(text, None), expected);
        assert!(has_health_check(text) && !has_health_check("FROM a\nHEALTHCHECK NONE\nFROM b\n"));
        assert!(has_health_check("FROM a AS x\nHEALTHCHECK NONE\nFROM x\nRUN HEALTHCHECK\n"));
    }
}
