//! The facts in a file of any kind: variables, images, commands, packages.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::dockerfile::{self, Instruction};
use crate::shell::{self, Document, Missing, Scope, Script, Setting, ShellCommand, UNKNOWN, Word};
use crate::target::Target;
use crate::{compose, containers, kubernetes, python, rules, tracks, units, usage, workflows};

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A Dockerfile or Containerfile.
    Dockerfile,
    /// A compose file.
    Compose,
    /// A Kubernetes manifest.
    Manifest,
    /// A quadlet: a systemd unit file of podman for a container or image.
    Quadlet,
    /// A systemd service, or a drop-in for one.
    Unit,
    /// A workflow of GitHub Actions, or the jobs of GitLab CI.
    Workflow,
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

impl Kind {
    /// Returns whether a whole line is a comment.
    pub(crate) fn is_comment(self, line: &str) -> bool {
        !matches!(self, Self::Text) && line.trim_start().starts_with(['#', ';'])
    }

    /// Returns whether other rules check the variables in such a file.
    pub(crate) fn has_settings(self) -> bool {
        !matches!(self, Self::Text | Self::Requirements)
    }
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
    /// The lines of the text.
    rows: Vec<&'t str>,
    instructions: OnceCell<Vec<Instruction>>,
    names_root: OnceCell<bool>,
    /// The lines that set variables which nothing reads; `rules::unread` finds them.
    pub(crate) unread: OnceCell<BTreeSet<usize>>,
    /// The variables it sets.
    pub settings: Vec<Setting>,
    /// The images it refers to.
    pub images: Vec<Image>,
    /// The containers that it starts or describes.
    pub containers: Vec<Container>,
    /// The images that it builds itself, for [`Context::built`](crate::Context::built).
    pub built: Vec<String>,
    /// The commands it runs.
    pub commands: Vec<ShellCommand>,
    /// The Python packages it installs.
    pub packages: Vec<Package>,
    /// Variables that are used but never set.
    pub missing: Vec<Missing>,
    /// Containers with all privileges on the host: the line, and the message.
    pub privileged: Vec<(usize, String)>,
    /// Keys of quadlets that Quadlet does not support, with their lines.
    pub(crate) unknown_keys: Vec<Word>,
    /// Problems in the structure of a compose file or unit.
    pub(crate) problems: Vec<Problem>,
    /// The bases of the stages, in order; the first one belongs to stage 1.
    pub(crate) stages: Vec<Stage>,
    /// The lines that are not comments. Rules that look for a text anywhere in a file search these,
    /// because a comment does nothing.
    pub(crate) code: String,
    target: OnceCell<Target>,
    /// The nesting depth of commands that start containers.
    depth: usize,
}

/// The maximum nesting depth of commands that start containers.
const DEEPEST: usize = 4;

/// A problem in the structure of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The rule.
    pub(crate) rule: &'static str,
    /// The line.
    pub(crate) line: usize,
    /// The message.
    pub(crate) message: String,
}

/// A stage of a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The name in `AS`.
    pub(crate) name: Option<String>,
    /// The image that it starts from; an earlier stage's image if it starts from that stage.
    pub(crate) base: String,
}

/// A reference to an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its reference.
    pub reference: String,
    /// The line.
    pub line: usize,
    /// The number of the stage that starts from it, counted from 1; 0 elsewhere.
    pub stage: usize,
}

impl Image {
    /// Creates a reference to an image.
    pub(crate) fn new(reference: &str, line: usize) -> Self {
        Self { reference: reference.to_owned(), line, stage: 0 }
    }
}

/// A container that a file starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// Its image; `None` if the file builds it or does not name one.
    pub image: Option<Word>,
    /// Its options in the form of `podman run` (`--device=/dev/kfd`), each with its line.
    pub options: Vec<Word>,
    /// The name of the service of a compose file.
    pub(crate) service: Option<Word>,
    /// What the base file of a compose file says about the service.
    pub(crate) base: Option<Box<Self>>,
}

impl Container {
    /// Creates a container that is not a service of a compose file.
    pub(crate) fn new(image: Option<Word>, options: Vec<Word>) -> Self {
        Self { image, options, service: None, base: None }
    }
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
    /// The Python version of the wheel, for example `3.12`, if the package is given as the URL of a
    /// wheel.
    pub python: Option<String>,
    /// Whether it is installed only under some condition, or from a URL.
    pub is_special: bool,
    /// Whether it has an upper limit: `<1`, `~=0.34`.
    pub is_limited: bool,
    /// The line.
    pub line: usize,
    /// The stage of a Dockerfile, from 1; 0 elsewhere.
    pub stage: usize,
    /// The number of the command that installs it; 0 in a list of requirements.
    pub command: usize,
}

impl<'t> Facts<'t> {
    /// Extracts the facts of a file.
    pub fn read(file: &'t str, text: &'t str) -> Self {
        let kind = kind(file, text);
        let mut facts = Self {
            file,
            kind,
            text,
            rows: text.lines().collect(),
            instructions: OnceCell::new(),
            names_root: OnceCell::new(),
            unread: OnceCell::new(),
            settings: Vec::new(),
            images: Vec::new(),
            containers: Vec::new(),
            built: Vec::new(),
            commands: Vec::new(),
            packages: Vec::new(),
            missing: Vec::new(),
            privileged: Vec::new(),
            unknown_keys: Vec::new(),
            problems: Vec::new(),
            stages: Vec::new(),
            code: String::new(),
            target: OnceCell::new(),
            depth: 0,
        };
        // No rule for these files needs it.
        if !matches!(kind, Kind::Pins | Kind::Python) {
            let code = text.lines().filter(|line| !kind.is_comment(line));
            facts.code = code.collect::<Vec<_>>().join("\n");
        }
        match kind {
            Kind::Dockerfile => {
                facts.script(shell::script("Dockerfile", text));
                usage::comments(text, &mut facts);
            }
            Kind::Shell => {
                facts.script(shell::script("x.sh", text));
                usage::held(&mut facts);
                usage::arrays(&mut facts);
                usage::commands(&mut facts);
            }
            Kind::Compose => compose::read(text, &mut facts),
            Kind::Manifest => kubernetes::read(text, &mut facts),
            Kind::Workflow => workflows::read(text, &mut facts),
            Kind::Quadlet | Kind::Unit => units::read(text, file, &mut facts),
            Kind::Environment => {
                facts.settings = environment(text);
                let images = facts.settings.iter().filter(|one| one.is_image());
                facts.images.extend(images.map(|one| Image::new(&one.value, one.line)));
            }
            Kind::Requirements => {
                for (number, line) in numbered(text) {
                    let line = line.split(" #").next().unwrap_or_default().trim();
                    if !line.starts_with(['#', '-']) {
                        facts.packages.extend(python::package(line, number));
                    }
                }
            }
            Kind::Tracks => facts.settings = tracks::settings(text),
            Kind::Text if is_values(file) => kubernetes::values(text, &mut facts),
            Kind::Pins | Kind::Python | Kind::Text => {}
        }
        for container in &mut facts.containers {
            let marker = containers::ordinary_user(&container.options);
            container.options.extend(marker);
            container.options.extend(containers::gpu(&container.options, container.image.as_ref()));
        }
        facts
    }

    /// Adds the facts of a script.
    pub(crate) fn script(&mut self, script: Script) {
        let Script { commands, settings, instructions, missing, documents } = script;
        for words in &instructions {
            match words[0].text.as_str() {
                "FROM" => self.stage(&words[1..]),
                "COPY" => {
                    let from =
                        words.iter().find_map(|w| Some((w, w.text.strip_prefix("--from=")?)));
                    if let Some((word, image)) = from
                        && image.contains(['/', ':'])
                    {
                        self.images.push(Image::new(image, word.line));
                    }
                }
                _ => {}
            }
        }
        let mut settings = settings;
        for setting in settings.iter_mut().filter(|one| one.scope == Scope::Image) {
            setting.program = self.base(setting.stage).map(|stage| stage.base.clone());
        }
        self.settings.extend(settings);
        for command in &commands {
            containers::read(command, self);
            self.built.extend(containers::built(command).map(str::to_owned));
        }
        let first = self.commands.len();
        for (at, command) in commands.iter().enumerate() {
            let found = python::installed(command);
            self.packages.extend(found.into_iter().map(|package| Package {
                stage: command.stage,
                command: first + at + 1,
                ..package
            }));
        }
        self.commands.extend(commands.iter().cloned());
        self.missing.extend(missing);
        if self.depth < DEEPEST {
            self.depth += 1;
            for command in &commands {
                containers::inside(command, self);
            }
            self.depth -= 1;
        }
        for Document { place, text } in documents {
            if text.lines().any(|line| line.trim_end() == "services:") {
                compose::read(&text, self);
            } else {
                units::read(&text, &place, self);
            }
        }
    }

    /// Reads the words after `FROM`.
    fn stage(&mut self, words: &[Word]) {
        let rest: Vec<&Word> = words.iter().filter(|w| !w.text.starts_with("--")).collect();
        let at = rest.iter().position(|w| w.text.eq_ignore_ascii_case("as"));
        let name = at.and_then(|at| rest.get(at + 1)).map(|word| word.text.clone());
        let Some(image) = rest.first() else { return };
        let is_same = |stage: &&Stage| {
            stage.name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(&image.text))
        };
        let earlier = self.stages.iter().find(is_same).map(|stage| stage.base.clone());
        if earlier.is_none() {
            let stage = self.stages.len() + 1;
            self.images.push(Image { stage, ..Image::new(&image.text, image.line) });
        }
        let base = earlier.unwrap_or_else(|| image.text.clone());
        self.stages.push(Stage { name, base });
    }

    /// Returns a stage by its number from 1.
    pub(crate) fn base(&self, stage: usize) -> Option<&Stage> {
        self.stages.get(stage.checked_sub(1)?)
    }

    /// Returns the releases of a Python package that the file names: in a requirement, in the file
    /// name of a wheel, or in a variable such as `TORCH_VERSION`.
    pub(crate) fn releases_of<'a>(&'a self, package: &'a str) -> impl Iterator<Item = &'a str> {
        let installed = self.packages.iter().filter(move |one| one.name == package);
        let required = installed.filter_map(|one| one.version.as_deref());
        let wheels = self.code.match_indices(package).filter_map(move |(at, _)| {
            let is_start =
                !self.code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c));
            let rest = self.code[at + package.len()..].strip_prefix('-').filter(|_| is_start)?;
            let release = release_at(rest)?;
            rest[release.len()..].starts_with(['+', '%', '-', '*']).then_some(release)
        });
        let variables = self.settings.iter().filter(move |one| {
            let name = one.name.to_ascii_lowercase();
            let name = name.strip_suffix("_version").or_else(|| name.strip_suffix("_ver"));
            name.is_some_and(|name| name == package || name.strip_prefix("py") == Some(package))
        });
        let variables =
            variables.filter_map(|one| release_at(one.value.trim().trim_start_matches(['v', '='])));
        required.chain(wheels).chain(variables)
    }

    /// Returns the variables that the file defines, for [`Context::defined`](crate::Context::defined).
    pub fn defined(&self) -> impl Iterator<Item = &str> {
        let own = self.settings.iter().filter(|setting| !rules::passes_itself(self, setting));
        own.map(|setting| setting.name.as_str())
    }

    /// Returns the lines with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &'t str)> {
        self.rows.iter().enumerate().map(|(index, line)| (index + 1, *line))
    }

    /// Returns the instructions of a Dockerfile.
    pub(crate) fn instructions(&self) -> &[Instruction] {
        self.instructions.get_or_init(|| dockerfile::instructions(self.text))
    }

    /// Returns the GPUs that the file names.
    pub(crate) fn target(&self) -> &Target {
        self.target.get_or_init(|| {
            // No rule for these files needs them. Every plan checks the pins, so this saves time.
            let is_needed = !matches!(self.kind, Kind::Pins | Kind::Python);
            if is_needed { Target::read(self.file, self.text) } else { Target::default() }
        })
    }

    /// Adds the GPUs that the path of the file's folder names.
    pub(crate) fn add_place(&mut self, place: &str) {
        self.target();
        if let Some(target) = self.target.get_mut() {
            target.add_place(place);
        }
    }

    /// Returns whether a script has a sign that root runs its podman commands.
    pub(crate) fn names_root(&self) -> bool {
        *self.names_root.get_or_init(|| containers::names_root(&self.code))
    }

    /// Returns the kind of a file by its name and its text, or the text's first lines.
    pub fn kind_of(file: &str, text: &str) -> Kind {
        kind(file, text)
    }

    /// Returns a line by its number from 1; an empty one if there is none.
    pub(crate) fn line(&self, number: usize) -> &'t str {
        number.checked_sub(1).and_then(|at| self.rows.get(at)).copied().unwrap_or_default()
    }

    /// Returns the lines before a line, which is counted from 1.
    pub(crate) fn before(&self, number: usize) -> &[&'t str] {
        &self.rows[..number.saturating_sub(1).min(self.rows.len())]
    }
}

pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Returns whether a file has the values of a Helm chart: `values.yaml`, `rocm-values.yaml`.
fn is_values(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.contains("values") && (name.ends_with(".yaml") || name.ends_with(".yml"))
}

fn kind(file: &str, text: &str) -> Kind {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        _ if name == "versions.toml" => Kind::Pins,
        _ if name == "tracks.toml" => Kind::Tracks,
        _ if name == "python.toml" => Kind::Python,
        "yml" | "yaml" if compose::is_compose(&name, text) => Kind::Compose,
        "yml" | "yaml" if kubernetes::is_manifest(text) => Kind::Manifest,
        "yml" | "yaml" if workflows::is_workflow(&name, text) => Kind::Workflow,
        _ if is_environment(&name) => Kind::Environment,
        "sh" | "bash" => Kind::Shell,
        "container" | "build" | "image" if text.lines().any(|line| line.starts_with('[')) => {
            Kind::Quadlet
        }
        "pod" | "volume" | "kube" | "network" if is_quadlet(extension, text) => Kind::Quadlet,
        "service" => Kind::Unit,
        "socket" | "timer" if text.lines().any(|line| line.trim() == "[Unit]") => Kind::Unit,
        "conf" if text.lines().any(|line| line.trim() == "[Container]") => Kind::Quadlet,
        "conf" if text.lines().any(|line| line.trim() == "[Service]") => Kind::Unit,
        "txt" if name.contains("requirements") || is_in_requirements(file) => Kind::Requirements,
        "md" | "txt" | "toml" | "yml" | "yaml" | "json" | "rules" | "conf" | "rst" | "py"
        | "ini" | "cfg" | "nix" => Kind::Text,
        _ if text.starts_with("#!")
            && text.lines().next().is_some_and(|line| line.contains("sh")) =>
        {
            Kind::Shell
        }
        _ if shell::is_dockerfile(&name, text) => Kind::Dockerfile,
        _ => Kind::Text,
    }
}

/// Returns whether a file is in a folder for lists of packages: `requirements/server_rocm.txt`.
fn is_in_requirements(file: &str) -> bool {
    file.rsplit(['/', '\\']).nth(1).is_some_and(|folder| folder == "requirements")
}

/// Returns whether a file has the section of a quadlet with this extension. systemd-networkd has
/// files with the extension `network` too.
fn is_quadlet(extension: &str, text: &str) -> bool {
    let has = |section: &str| text.lines().any(|line| line.trim().eq_ignore_ascii_case(section));
    has(&format!("[{extension}]")) && !has("[Match]")
}

/// Returns whether a file, by its path in lower case, has lines of `NAME=value`: `.env`, `a.env`,
/// `env.example`, `.env-template`, `vllm.env.tmpl`.
pub(crate) fn is_environment(path: &str) -> bool {
    let name = path.rsplit(['/', ' ']).next().unwrap_or(path);
    let examples = ["example", "sample", "template", "tmpl", "dist", "default"];
    let plain =
        examples.iter().find_map(|end| name.strip_suffix(end)?.strip_suffix(['.', '-', '_']));
    let is_example = plain.is_some_and(|rest| rest == "env" || rest.ends_with(".env"));
    name == ".env" || name.starts_with(".env.") || name.ends_with(".env") || is_example
}

/// Reads lines of `NAME=value` and `export NAME=value`.
fn environment(text: &str) -> Vec<Setting> {
    let setting = |(number, line): (usize, &str)| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        let value = value.trim();
        let quoted = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quoted {
            Some(quote) => value[1..].split(quote).next().unwrap_or_default(),
            None if value.starts_with('#') => "",
            None => value.split(" #").next().unwrap_or_default().trim_end(),
        };
        let value = if quoted == Some('\'') || !value.contains('$') {
            value.to_owned()
        } else {
            UNKNOWN.to_string()
        };
        Some(Setting::new(name.trim(), &value, number, Scope::File))
    };
    numbered(text).filter_map(setting).collect()
}

/// Returns the release with which a text starts, for example `2.6.0` of `2.6.0+rocm6.4`.
fn release_at(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let release = text[..end].trim_end_matches('.');
    release.contains('.').then_some(release)
}
