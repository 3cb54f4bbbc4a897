//! What a build with CMake needs and nothing installs, and what scripts in an image do wrong.

use super::images::path_and_tag;
use super::programs::packages;
use super::stages::{fixed_base, is_known_base, parent, parts};
use crate::data::{BuildRow, data, matches, matches_any};
use crate::dockerfile::Instruction;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Context, Exists, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    let scripts = scripts(facts, all, context.exists);
    for script in &scripts {
        old_options(script, found);
    }
    for stage in 1..=facts.stages.len() {
        let stages = lineage(facts, all, stage);
        let options = options(facts, &scripts, stage);
        if options.is_empty() {
            continue;
        }
        let Some(tools) = Tools::read(facts, all, &stages, &scripts) else { continue };
        missing(facts, &stages, &tools, &options, found);
    }
}

/// Returns a stage and those that it is based on.
fn lineage(facts: &Facts<'_>, all: &[Instruction], stage: usize) -> Vec<usize> {
    let mut stages = vec![stage];
    while let Some(earlier) = stages.last().and_then(|last| parent(facts, all, *last)) {
        stages.push(earlier);
    }
    stages
}

/// A script that an instruction copies into the image.
struct Script {
    stage: usize,
    line: usize,
    /// The path in the build context.
    path: String,
    text: String,
}

/// Returns the scripts that a Dockerfile copies and that can be read.
fn scripts(facts: &Facts<'_>, all: &[Instruction], files: Option<&dyn Exists>) -> Vec<Script> {
    let Some(files) = files else { return Vec::new() };
    let mut scripts = Vec::new();
    for own in all.iter().filter(|one| matches!(&*parts(one).0, "COPY" | "ADD")) {
        let (_, rest) = parts(own);
        let words: Vec<&str> =
            rest.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let Some((_, sources)) = words.split_last().filter(|_| !rest.contains("--from=")) else {
            continue;
        };
        for path in
            sources.iter().filter(|path| path.ends_with(".sh") && !path.contains(['$', '*']))
        {
            if let Some(text) = files.in_context(facts.file, path) {
                let path = (*path).to_owned();
                scripts.push(Script { stage: own.stage, line: own.line, path, text });
            }
        }
    }
    scripts
}

/// The rule for build options that a project no longer has.
const OLD: &str = "build-option-gone";

/// Checks the build options of a script. Its own findings are reported with the script; here, the
/// effect on the image counts.
fn old_options(script: &Script, found: &mut Findings<'_>) {
    let facts = Facts::read("script.sh", &script.text);
    let mut own = Findings { only: Some(&[OLD]), ..Findings::new("script.sh") };
    super::words::run(&facts, Context::default(), &mut own);
    let worst = own
        .all
        .iter()
        .filter(|one| one.severity < Severity::Information)
        .min_by_key(|one| one.line);
    if let Some(one) = worst {
        let message = format!("`{}`, line {}: {}", script.path, one.line, one.message);
        let hit = Hit::new(OLD, script.line, message).help(one.help.clone());
        found.hit(hit.at_most(Severity::Warning));
    }
}

/// An option of CMake that is switched on: `ggml_vulkan=on`.
struct On {
    /// In lower case, without its type.
    text: String,
    /// The script with the option, if it is not in the Dockerfile.
    script: Option<String>,
}

/// Returns the options of a stage's builds.
fn options(facts: &Facts<'_>, scripts: &[Script], stage: usize) -> Vec<On> {
    let mut options = Vec::new();
    for command in facts.commands.iter().filter(|one| one.stage == stage && configures(one)) {
        options.extend(of_command(command).map(|text| On { text, script: None }));
    }
    for script in scripts.iter().filter(|one| one.stage == stage) {
        let own = Facts::read("script.sh", &script.text);
        for command in own.commands.iter().filter(|one| configures(one)) {
            let path = || Some(script.path.clone());
            options.extend(of_command(command).map(|text| On { text, script: path() }));
        }
    }
    options
}

/// Returns whether a command configures a build with CMake. pip passes options in a variable.
fn configures(command: &ShellCommand) -> bool {
    let words = command.texts();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    program == "cmake" && !words.contains(&"--build")
}

/// Returns the options of a command: `-DA=B`, `-D A=B`.
fn of_command(command: &ShellCommand) -> impl Iterator<Item = String> {
    let words = &command.words;
    (1..words.len()).filter_map(|at| {
        let text = words[at].text.as_str();
        let is_next = words[at - 1].text == "-D";
        let option = text.strip_prefix("-D").or_else(|| is_next.then_some(text))?;
        let lower = option.to_ascii_lowercase();
        let (name, value) = lower.split_once('=')?;
        let name = name.split(':').next().unwrap_or(name);
        Some(format!("{name}={value}"))
    })
}

/// What a stage installs.
struct Tools<'f> {
    /// The packages with the package managers that install them.
    packages: Vec<(&'f str, &'f str)>,
    /// The line of the first command that installs packages, in the stage itself if it has one.
    line: usize,
    /// The text of the stage's instructions, in lower case.
    text: String,
}

/// Texts, in lower case, that show that a stage may install more than can be read.
const UNREADABLE: [&str; 15] = [
    "$(cat",
    "--mount=type=bind,from",
    "<<",
    "amdgpu-install",
    "ansible",
    "brew ",
    "conda",
    "emerge",
    "git clone https://github.com/microsoft/vcpkg",
    "mamba",
    "nix",
    "spack",
    "therock",
    "vcpkg",
    "xargs",
];

impl<'f> Tools<'f> {
    /// Reads what stages install; `None` if it cannot be known.
    fn read(
        facts: &'f Facts<'_>,
        all: &[Instruction],
        stages: &[usize],
        scripts: &[Script],
    ) -> Option<Self> {
        let own: Vec<&Instruction> = all.iter().filter(|one| stages.contains(&one.stage)).collect();
        let is_copied =
            |name: &str| scripts.iter().any(|one| one.path.rsplit('/').next() == Some(name));
        let mut text = String::new();
        for one in &own {
            let (name, rest) = parts(one);
            let lower = rest.to_ascii_lowercase();
            let runs_script = name == "RUN"
                && rest.split(|c: char| c.is_whitespace() || matches!(c, '&' | ';' | '|')).any(
                    |word| {
                        word.ends_with(".sh") && !is_copied(word.rsplit('/').next().unwrap_or(word))
                    },
                );
            let brings_folder = name == "COPY"
                && rest.contains("--from=")
                && !rest.split_whitespace().any(|word| word.contains("/bin/"));
            let is_archive = name == "ADD" && (lower.contains(".tar") || lower.contains("://"));
            let unpacks = name == "RUN"
                && lower.contains("tar ")
                && ["-c /opt", "-c /usr", "-c / "].iter().any(|folder| lower.contains(folder));
            let is_unreadable = name == "RUN" && UNREADABLE.iter().any(|part| lower.contains(part));
            if runs_script || brings_folder || is_archive || unpacks || is_unreadable {
                return None;
            }
            text.push_str(&lower);
            text.push('\n');
        }
        let mut packages_of = Vec::new();
        let mut line = None;
        let commands = facts.commands.iter().filter(|one| stages.contains(&one.stage));
        for command in commands {
            let words = command.texts();
            let manager = words[0].rsplit('/').next().unwrap_or_default();
            let names = if manager == "pacman" {
                words[1..].iter().copied().filter(|word| !word.starts_with('-')).collect()
            } else {
                packages(&words).unwrap_or_default()
            };
            if names.iter().any(|name| name.contains(UNKNOWN)) {
                return None;
            }
            let is_first =
                line.is_none_or(|(stage, _)| stage != stages[0] && command.stage == stages[0]);
            if !names.is_empty() && is_first {
                line = Some((command.stage, command.words[0].line));
            }
            packages_of.extend(names.into_iter().map(|name| (manager, name)));
        }
        let copied = scripts.iter().filter(|one| stages.contains(&one.stage));
        // A script can install packages itself.
        let installs = ["apt-get install", "apt install", "dnf install", "pacman -s", "apk add"];
        for script in copied {
            let lower = script.text.to_ascii_lowercase();
            if installs.iter().any(|part| lower.contains(part)) {
                return None;
            }
        }
        Some(Self { packages: packages_of, line: line.map_or(1, |(_, line)| line), text })
    }

    /// Returns the package manager of the stage.
    fn manager(&self) -> Option<&'f str> {
        let known = |(manager, _): &&(&'f str, &str)| {
            matches!(*manager, "apt" | "apt-get" | "dnf" | "microdnf" | "apk" | "pacman" | "yum")
        };
        self.packages.iter().find(known).map(|(manager, _)| *manager)
    }
}

/// Returns whether a package brings what a row is about. It can be a pattern: `'rocblas-*'`.
fn brings(names: &[String], package: &str) -> bool {
    matches_any(names, package)
        || package.contains(['*', '?']) && names.iter().any(|name| matches(package, name))
}

/// Checks whether a build lacks what the rows say. The install command is the place where the owner
/// adds a package.
fn missing(
    facts: &Facts<'_>,
    stages: &[usize],
    tools: &Tools<'_>,
    options: &[On],
    found: &mut Findings<'_>,
) {
    let Some(manager) = tools.manager() else { return };
    let mut all: Vec<Lack<'_>> = Vec::new();
    for row in data().builds.iter().filter(|row| is_for_base(facts, row, stages)) {
        let Some(on) = options.iter().find(|one| is_on(row, one)) else { continue };
        let Some(first) = row.lacking(manager, tools) else { continue };
        let name = on.text.split('=').next().unwrap_or_default().to_ascii_uppercase();
        let subject = match &on.script {
            Some(path) => format!("`{path}` builds with `{name}`, which needs"),
            None => format!("the build with `{name}` needs"),
        };
        match all.iter_mut().find(|one| one.subject == subject) {
            Some(one) => {
                one.needs.push(&row.needs);
                one.packages.push(format!("`{first}`"));
            }
            None => all.push(Lack {
                subject,
                needs: vec![&row.needs],
                packages: vec![format!("`{first}`")],
                row,
            }),
        }
    }
    for Lack { subject, needs, packages, row } in all {
        let message = format!("{subject} {}, which nothing installs", needs.join(", and "));
        let hit = Hit::new("build-needs-package", tools.line, message);
        let help = format!("install {} in the stage of the build", packages.join(", "));
        found.hit(hit.evidence(row.evidence.as_ref()).help(help));
    }
}

/// What the build with an option lacks.
struct Lack<'r> {
    /// The start of the message.
    subject: String,
    needs: Vec<&'r str>,
    /// The packages to install.
    packages: Vec<String>,
    row: &'r BuildRow,
}

/// Returns whether an option switches on what a row is about.
fn is_on(row: &BuildRow, on: &On) -> bool {
    let (name, value) = on.text.split_once('=').unwrap_or((&on.text, ""));
    let is_switch = matches!(value, "on" | "1" | "true" | "yes");
    row.options.iter().any(|option| match option.split_once('=') {
        Some(_) => matches(option, &on.text),
        None => is_switch && matches(option, name),
    })
}

/// Returns whether the base of a stage certainly lacks what a row is about.
fn is_for_base(facts: &Facts<'_>, row: &BuildRow, stages: &[usize]) -> bool {
    let base = fixed_base(facts, facts.instructions(), stages[0]);
    let is_known = if row.images.is_empty() {
        is_known_base(facts, stages[stages.len() - 1])
    } else {
        matches_any(&row.images, &path_and_tag(base))
    };
    is_known && !base.is_empty()
}

impl BuildRow {
    /// Returns the package to install, if no package of a stage brings what the row is about.
    fn lacking(&self, manager: &str, tools: &Tools<'_>) -> Option<&str> {
        let names = match manager {
            "apt" | "apt-get" => &self.apt,
            "apk" => &self.apk,
            "pacman" => &self.pacman,
            _ => &self.dnf,
        };
        let has = |texts: &[String]| texts.iter().any(|text| tools.text.contains(text));
        let is_there = tools.packages.iter().any(|(_, package)| brings(names, package));
        let is_its = self.projects.is_empty() || has(&self.projects);
        let first = names.first()?;
        (is_its && !is_there && !has(&self.unless)).then_some(first)
    }
}
