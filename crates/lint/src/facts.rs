//! The facts in a file of any kind: variables, images, commands, packages.

use crate::compose;
use crate::shell::{self, Scope, Script, Setting, ShellCommand, UNKNOWN, Word};
use crate::tracks;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A Dockerfile or Containerfile.
    Dockerfile,
    /// A compose file.
    Compose,
    /// Lines of `NAME=value`.
    Environment,
    /// A list of Python requirements.
    Requirements,
    /// `versions.toml`.
    Pins,
    /// `python.toml`.
    Python,
    /// `tracks.toml`.
    Tracks,
    /// A shell script.
    Shell,
    /// Anything else: only its words are checked.
    Text,
}

/// The facts in a file.
#[derive(Debug)]
pub struct Facts<'t> {
    /// The file, as the caller names it.
    pub file: &'t str,
    /// Its kind.
    pub kind: Kind,
    /// Its text.
    pub text: &'t str,
    /// The variables it sets.
    pub settings: Vec<Setting>,
    /// The images it refers to.
    pub images: Vec<Image>,
    /// The commands it runs.
    pub commands: Vec<ShellCommand>,
    /// The Python packages it installs.
    pub packages: Vec<Package>,
    /// Variables that are used but never set.
    pub missing: Vec<(String, usize)>,
    /// Whether it mentions gfx1151.
    pub is_gfx1151: bool,
    /// Whether it passes the ROCm device to a container.
    pub has_kfd: bool,
}

/// A reference to an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its reference.
    pub reference: String,
    /// The line.
    pub line: usize,
}

/// A Python package to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name in lower case, with dashes.
    pub name: String,
    /// Its extras.
    pub extras: Vec<String>,
    /// The exact version, if one is given.
    pub version: Option<String>,
    /// The line.
    pub line: usize,
}

impl<'t> Facts<'t> {
    /// Extracts the facts of a file.
    pub fn read(file: &'t str, text: &'t str) -> Self {
        let kind = kind(file, text);
        let lower = text.to_ascii_lowercase();
        let mut facts = Self {
            file,
            kind,
            text,
            settings: Vec::new(),
            images: Vec::new(),
            commands: Vec::new(),
            packages: Vec::new(),
            missing: Vec::new(),
            is_gfx1151: lower.contains("gfx1151")
                || lower.contains("strix halo")
                || lower.contains("strix-halo"),
            has_kfd: text.contains("/dev/kfd"),
        };
        match kind {
            Kind::Dockerfile | Kind::Shell => {
                let script =
                    shell::script(if kind == Kind::Shell { "x.sh" } else { "Dockerfile" }, text);
                facts.script(script);
            }
            Kind::Compose => {
                let (settings, images) = compose::read(text);
                facts.settings = settings;
                facts.images = images;
            }
            Kind::Environment => facts.settings = environment(text),
            Kind::Requirements => {
                for (number, line) in numbered(text) {
                    let line = line.split(" #").next().unwrap_or_default().trim();
                    if !line.starts_with(['#', '-']) {
                        facts.packages.extend(package(line, number));
                    }
                }
            }
            Kind::Tracks => facts.settings = tracks::settings(text),
            Kind::Pins | Kind::Python | Kind::Text => {}
        }
        facts
    }

    fn script(&mut self, script: Script) {
        let Script { commands, settings, instructions, missing } = script;
        let mut stages: Vec<String> = Vec::new();
        for words in &instructions {
            match words[0].text.as_str() {
                "FROM" => {
                    let rest: Vec<&Word> =
                        words[1..].iter().filter(|w| !w.text.starts_with("--")).collect();
                    let stage = rest.iter().position(|w| w.text.eq_ignore_ascii_case("as"));
                    if let Some(image) = rest.first().filter(|image| !stages.contains(&image.text))
                    {
                        self.images.push(Image { reference: image.text.clone(), line: image.line });
                    }
                    stages.extend(stage.and_then(|at| rest.get(at + 1)).map(|w| w.text.clone()));
                }
                "COPY" => {
                    let from =
                        words.iter().find_map(|w| Some((w, w.text.strip_prefix("--from=")?)));
                    if let Some((word, image)) = from
                        && image.contains(['/', ':'])
                    {
                        self.images.push(Image { reference: image.to_owned(), line: word.line });
                    }
                }
                _ => {}
            }
        }
        for command in &commands {
            self.container(command);
            self.pip(command);
        }
        self.settings.extend(settings);
        self.commands = commands;
        self.missing = missing;
    }

    /// Reads `podman run` and similar commands: images, and variables that are passed on.
    fn container(&mut self, command: &ShellCommand) {
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        let program = words[0].rsplit('/').next().unwrap_or_default();
        if !matches!(program, "docker" | "podman" | "nerdctl") {
            return;
        }
        let at = words.iter().position(|word| matches!(*word, "run" | "create" | "pull"));
        let Some(at) = at else { return };
        let mut rest = command.words[at + 1..].iter();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            let (option, value) = text.split_once('=').map_or((text, None), |(o, v)| (o, Some(v)));
            if !text.starts_with('-') {
                self.images.push(Image { reference: text.to_owned(), line: word.line });
                return;
            }
            let takes = TAKES_VALUE.contains(&option) && value.is_none();
            let value = match (value, takes) {
                (Some(value), _) => Some(value.to_owned()),
                (None, true) => rest.next().map(|word| word.text.clone()),
                (None, false) => None,
            };
            if let ("-e" | "--env", Some(pair)) = (option, value)
                && let Some((name, value)) = pair.split_once('=')
            {
                let (name, value) = (name.to_owned(), value.to_owned());
                self.settings.push(Setting { name, value, line: word.line, scope: Scope::Run });
            }
        }
    }

    /// Reads `pip install` and similar commands.
    fn pip(&mut self, command: &ShellCommand) {
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        if !is_pip(&words) {
            return;
        }
        let Some(at) = words.iter().position(|word| *word == "install") else { return };
        for word in &command.words[at + 1..] {
            if !word.text.starts_with('-') {
                self.packages.extend(package(&word.text, word.line));
            }
        }
    }

    /// Returns the lines with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &'t str)> {
        numbered(self.text)
    }
}

/// Options of `run` whose value is the next word.
const TAKES_VALUE: [&str; 26] = [
    "-e",
    "--env",
    "-v",
    "--volume",
    "-p",
    "--publish",
    "--device",
    "--name",
    "--group-add",
    "--security-opt",
    "--shm-size",
    "--ipc",
    "--network",
    "--user",
    "-u",
    "-w",
    "--workdir",
    "--entrypoint",
    "--env-file",
    "--mount",
    "--cap-add",
    "--ulimit",
    "-m",
    "--memory",
    "--hostname",
    "--label",
];

/// Returns whether words call pip, also through Python or uv.
pub(crate) fn is_pip(words: &[&str]) -> bool {
    let program = words.first().map(|word| word.rsplit('/').next().unwrap_or_default());
    match program {
        Some("uv") => words.get(1) == Some(&"pip"),
        Some(program) if program.starts_with("pip") => true,
        Some(program) if program.starts_with("python") => {
            words.windows(2).any(|two| two == ["-m", "pip"])
        }
        Some(_) | None => false,
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Parses `NAME[extra]==1.0`.
fn package(text: &str, line: usize) -> Option<Package> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !rest.starts_with(['/', ':', UNKNOWN]);
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
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    Some(Package { name, extras, version, line })
}

fn kind(file: &str, text: &str) -> Kind {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        _ if name == "versions.toml" => Kind::Pins,
        _ if name == "tracks.toml" => Kind::Tracks,
        _ if name == "python.toml" => Kind::Python,
        "yml" | "yaml" if compose::is_compose(&name, text) => Kind::Compose,
        _ if name == ".env" || name.starts_with(".env.") || extension == "env" => Kind::Environment,
        "sh" | "bash" => Kind::Shell,
        "txt" if name.contains("requirements") => Kind::Requirements,
        "md" | "txt" | "toml" | "yml" | "yaml" | "json" | "rules" | "conf" | "rst" | "py" => {
            Kind::Text
        }
        _ if text.starts_with("#!")
            && text.lines().next().is_some_and(|line| line.contains("sh")) =>
        {
            Kind::Shell
        }
        _ if shell::is_dockerfile(&name, text) => Kind::Dockerfile,
        _ => Kind::Text,
    }
}

/// Reads lines of `NAME=value` and `export NAME=value`.
fn environment(text: &str) -> Vec<Setting> {
    let setting = |(line, text): (usize, &str)| {
        let text = text.trim();
        let text = text.strip_prefix("export ").unwrap_or(text);
        let (name, value) = text.split_once('=').filter(|_| !text.starts_with('#'))?;
        let value = value.trim();
        let quoted = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quoted {
            Some(quote) => value[1..].split(quote).next().unwrap_or_default(),
            None => value.split(" #").next().unwrap_or_default().trim_end(),
        };
        let value = if quoted == Some('\'') || !value.contains('$') {
            value.to_owned()
        } else {
            UNKNOWN.to_string()
        };
        Some(Setting { name: name.trim().to_owned(), value, line, scope: Scope::Run })
    };
    numbered(text).filter_map(setting).collect()
}
