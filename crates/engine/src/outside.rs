//! Finds what a Dockerfile takes from outside of its plan: images, URLs, git repositories and the
//! host's network.
//!
//! A plan contains the base and the build context, and nothing else. An engine without network
//! access still fetches what `FROM`, `ADD`, `COPY --from` and `RUN --mount` name, because the
//! builder fetches it, not a `RUN`.

use std::collections::BTreeSet;

use crate::dockerfile::{Instruction, instructions, is_base};

/// An input of a Dockerfile that its plan does not contain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Outside {
    /// The line of the instruction, counted from 1.
    pub line: usize,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("the stage starts from `{0}`, which is not in the plan")]
    Base(String),
    #[error("`{0}` takes files from an image that is not in the plan")]
    Image(String),
    #[error("ADD fetches `{0}`, which is not in the plan")]
    Url(String),
    #[error("ADD fetches `{0}` if its value is a URL")]
    Variable(String),
    #[error("`{0}` gives this RUN the host's network")]
    Network(String),
}

impl Outside {
    /// Returns what to write instead.
    pub fn help(&self) -> &'static str {
        match self.problem {
            Problem::Base(_) => "start from `${BASE}`, from an earlier stage, or from `scratch`",
            Problem::Image(_) => {
                "name an earlier stage; put files of another image into the build context, with \
                 `files` of the stage"
            }
            Problem::Url(_) => {
                "put the file into the build context, with `files`, `sources` or `python` of the \
                 stage, and write COPY"
            }
            Problem::Variable(_) => "write COPY, which reads only the build context",
            Problem::Network(_) => {
                "remove it; `network = true` of the stage gives its RUN instructions a network"
            }
        }
    }
}

/// Checks that a Dockerfile takes everything from `${BASE}`, its own stages and its build context.
///
/// # Errors
/// Fails if an instruction names another image, a URL, a git repository or the host's network.
pub fn check_inputs(text: &str) -> Result<(), Outside> {
    let mut stages = Stages::default();
    for instruction in instructions(text) {
        let line = instruction.line;
        stages.check(&instruction).map_err(|problem| Outside { line, problem })?;
    }
    Ok(())
}

/// Checks that the instructions in `OnBuild` of a base take everything from the build.
///
/// # Errors
/// Fails as [`check_inputs`] does; the line is the number of the instruction.
pub fn check_triggers(triggers: &[&str]) -> Result<(), Outside> {
    let texts = triggers.iter().map(|text| text.replace('\n', " "));
    check_inputs(&texts.map(|text| text + "\n").collect::<String>())
}

/// The stages that an instruction can name.
#[derive(Debug, Default)]
struct Stages {
    names: BTreeSet<String>,
    count: usize,
}

impl Stages {
    fn check(&mut self, instruction: &Instruction) -> Result<(), Problem> {
        let mut keyword = instruction.keyword();
        let mut arguments = instruction.arguments.as_str();
        // A later stage on this one runs the instruction.
        if keyword == "ONBUILD" {
            let (first, rest) = arguments.split_once(char::is_whitespace).unwrap_or_default();
            (keyword, arguments) = (first.to_ascii_uppercase(), rest.trim_start());
        }
        let (options, rest) = options(arguments);
        match keyword.as_str() {
            "FROM" => return self.start(rest),
            "RUN" => {
                if let Some(option) = options.iter().find(|one| is_open(one)) {
                    return Err(Problem::Network((*option).to_owned()));
                }
            }
            "ADD" => check_sources(rest)?,
            _ => {}
        }
        let outside = options.iter().find(|one| origin(one).is_some_and(|name| !self.has(name)));
        outside.map_or(Ok(()), |option| Err(Problem::Image((*option).to_owned())))
    }

    /// Reads the arguments of a `FROM`.
    fn start(&mut self, arguments: &str) -> Result<(), Problem> {
        let mut words = arguments.split_whitespace();
        let image = words.next().unwrap_or_default().trim_matches('"');
        if !is_base(image) && image != "scratch" && !self.names.contains(&image.to_lowercase()) {
            return Err(Problem::Base(image.to_owned()));
        }
        self.count += 1;
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case("as")) {
            self.names.extend(words.next().map(str::to_lowercase));
        }
        Ok(())
    }

    /// Returns whether a name or number stands for an earlier stage.
    fn has(&self, name: &str) -> bool {
        let is_number = name.parse().is_ok_and(|number: usize| number + 1 < self.count);
        is_number || self.names.contains(&name.to_lowercase())
    }
}

/// Splits the arguments of an instruction into its options and the rest.
fn options(arguments: &str) -> (Vec<&str>, &str) {
    let (mut found, mut rest) = (Vec::new(), arguments.trim_start());
    while rest.starts_with("--") {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        found.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    (found, rest)
}

/// Returns the stage or image that `--from=NAME` or `--mount=…,from=NAME` names.
fn origin(option: &str) -> Option<&str> {
    let name = option.strip_prefix("--from=").or_else(|| {
        let mount = option.strip_prefix("--mount=")?.trim_matches(['"', '\'']);
        mount.split(',').find_map(|part| part.trim_matches(['"', '\'']).strip_prefix("from="))
    });
    name.map(|name| name.trim_matches(['"', '\'']))
}

/// Returns whether an option of `RUN` gives it another network than that of the build.
fn is_open(option: &str) -> bool {
    option
        .strip_prefix("--network=")
        .is_some_and(|value| !matches!(value.trim_matches(['"', '\'']), "none" | "default"))
}

/// The starts of sources that `ADD` fetches.
const REMOTE: [&str; 6] = ["http://", "https://", "ftp://", "git://", "ssh://", "git@"];

/// Checks the sources of an `ADD`: all its words but the last one.
fn check_sources(arguments: &str) -> Result<(), Problem> {
    let listed = serde_json::from_str::<Vec<String>>(arguments).ok();
    let mut words = listed.unwrap_or_else(|| {
        let words = arguments.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        words.map(str::to_owned).collect()
    });
    words.pop();
    for word in words {
        let source = word.to_lowercase();
        let is_repository = source
            .split_once(':')
            .is_some_and(|(host, _)| host.contains('@') && !host.contains('/'));
        if source.contains("://") || is_repository {
            return Err(Problem::Url(word));
        }
        if let Some(at) = source.find('$')
            && REMOTE.iter().any(|start| start.starts_with(&source[..at]))
        {
            return Err(Problem::Variable(word));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check_inputs, check_triggers};

    /// Returns the line and the message for a Dockerfile with a base and a stage before `text`.
    fn found(text: &str) -> Option<String> {
        let text = format!("ARG BASE\nFROM ${{BASE}} AS One\nFROM ${{BASE}}\n{text}\n");
        check_inputs(&text).err().map(|outside| format!("{}: {outside}", outside.line))
    }

    #[test]
    fn a_build_takes_everything_from_its_plan() {
        for text in [
            "ADD a.tar b-${V}.tar /x/",
            "ADD [\"a b\", \"/x\"]",
            "ADD <<EOF /x\nhttps://h.example/a\nEOF",
            "COPY --from=one /a /b",
            "COPY --chown=1:1 --from=0 a b",
            "COPY https://h.example/a /b",
            "RUN --mount=type=cache,target=/c --mount=type=bind,from=one,target=/o make",
            "RUN --network=none --network=default curl https://h.example",
            "RUN echo --network=host --mount=from=debian",
            "FROM one AS two\nFROM Two",
            "FROM scratch AS files\nCOPY --from=one /a /\nFROM ${BASE}\nCOPY --from=files / /",
            "FROM --platform=linux/amd64 \"$BASE\"",
            "# ADD https://h.example/a /b",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn other_inputs_are_found() {
        let url = "which is not in the plan";
        let image = "takes files from an image that is not in the plan";
        for (text, expected) in [
            ("add http://h.example/a /b", format!("4: ADD fetches `http://h.example/a`, {url}")),
            (
                "ADD --checksum=sha256:1 a \\\n https://h.example/b.git#main /c",
                format!("4: ADD fetches `https://h.example/b.git#main`, {url}"),
            ),
            (
                "ADD [\"git@h.example:a/b.git\", \"/c\"]",
                format!("4: ADD fetches `git@h.example:a/b.git`, {url}"),
            ),
            (
                "ONBUILD ADD ssh://h.example/a /b",
                format!("4: ADD fetches `ssh://h.example/a`, {url}"),
            ),
            ("ADD $URL /b", "4: ADD fetches `$URL` if its value is a URL".to_owned()),
            (
                "ADD http${S}://h.example/a /b",
                format!("4: ADD fetches `http${{S}}://h.example/a`, {url}"),
            ),
            ("ADD ht${X} /b", "4: ADD fetches `ht${X}` if its value is a URL".to_owned()),
            ("COPY --from=debian:13 /a /b", format!("4: `--from=debian:13` {image}")),
            ("COPY --from=1 /a /b", format!("4: `--from=1` {image}")),
            ("COPY --from=$X /a /b", format!("4: `--from=$X` {image}")),
            ("ONBUILD COPY --from=busybox /a /b", format!("4: `--from=busybox` {image}")),
            (
                "RUN x\nRUN --mount=type=bind,source=/,from=h.example/a:1,target=/a make",
                format!("5: `--mount=type=bind,source=/,from=h.example/a:1,target=/a` {image}"),
            ),
            (
                "RUN --network=host curl h.example",
                "4: `--network=host` gives this RUN the host's network".to_owned(),
            ),
            ("FROM debian AS x", format!("4: the stage starts from `debian`, {url}")),
            ("FROM ${OTHER}", format!("4: the stage starts from `${{OTHER}}`, {url}")),
        ] {
            assert_eq!(found(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn triggers_of_a_base_are_checked() {
        assert!(check_triggers(&["RUN make", "COPY . /src"]).is_ok());
        assert_eq!(
            check_triggers(&["RUN make", "ADD https://h.example/a /b"]).unwrap_err().line,
            2
        );
    }
}
