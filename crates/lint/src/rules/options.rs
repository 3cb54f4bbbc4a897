//! Rules for options that a program does not have, and for values that an option does not accept.

use std::sync::LazyLock;

use regex::Regex;

use super::readers::names_fork;
use super::stages::parts;
use crate::data::options::{Answer, Program, Value, programs};
use crate::shell::{EMPTY, ShellCommand, UNKNOWN, Word};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if matches!(facts.kind, Kind::Text | Kind::Requirements) {
        return;
    }
    let own = instructions(facts);
    let mut commands =
        facts.commands.iter().chain(&own).filter_map(|one| Call::of(one, facts)).peekable();
    if commands.peek().is_none() {
        return held(facts, context, found);
    }
    let mut judged: Vec<(&str, Option<Severity>)> = Vec::new();
    for call in commands {
        let project = call.program.project.as_str();
        let known = judged.iter().find(|(name, _)| *name == project).map(|(_, severity)| *severity);
        let severity = known.unwrap_or_else(|| {
            let severity = severity(facts, context, call.program);
            judged.push((project, severity));
            severity
        });
        if let Some(severity) = severity {
            call.check(severity, found);
            call.format(severity, found);
        }
    }
    held(facts, context, found);
}

/// A command of a program whose options are known.
struct Call<'c> {
    program: &'static Program,
    words: &'c [Word],
}

/// Images whose entrypoint is such a program, by the start of their path.
const ENTRYPOINTS: [(&str, &str); 1] = [("vllm/vllm-openai", "vllm")];

impl<'c> Call<'c> {
    fn of(command: &'c ShellCommand, facts: &Facts<'_>) -> Option<Self> {
        let words = command.words.as_slice();
        let first = words.first()?.text.as_str();
        let name = first.rsplit('/').next().unwrap_or(first);
        let is_start = |start: &[String]| {
            let (own, rest) = start.split_first().map_or(("", start), |(own, rest)| (&**own, rest));
            let is_program = name == own || own == "python" && name.starts_with("python");
            let rest_starts = words.len() > rest.len()
                && rest.iter().zip(&words[1..]).all(|(one, word)| *one == word.text);
            is_program && rest_starts
        };
        for program in programs() {
            if let Some(start) = program.starts.iter().find(|start| is_start(start)) {
                return Some(Self { program, words: &words[start.len()..] });
            }
        }
        // The command of a service is the arguments of its image's entrypoint.
        let is_arguments = first.starts_with("--") && facts.kind == Kind::Compose;
        let [image] = facts.images.as_slice() else { return None };
        let (_, project) = ENTRYPOINTS.iter().find(|(path, _)| {
            is_arguments && super::image_path(&image.reference).starts_with(path)
        })?;
        let program = programs().iter().find(|one| one.project == *project)?;
        Some(Self { program, words })
    }

    /// Checks the options and their values.
    fn check(&self, severity: Severity, found: &mut Findings<'_>) {
        let program = self.program;
        let mut gone: Vec<(&Word, &str, &str)> = Vec::new();
        let mut at = 0;
        while let Some(word) = self.words.get(at) {
            at += 1;
            let text = word.text.as_str();
            if text == "--" {
                break;
            }
            if !is_option(text) || is_unsure(text) {
                continue;
            }
            let (name, joined) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            match program.answer(name) {
                Answer::Has(_) if joined.is_some() && program.is_exact => {
                    let message = format!("{} does not accept `{name}=…`", program.name);
                    let hit = Hit::new("option-value", word.line, message).at_most(severity);
                    found.hit(hit.help("write a space instead of `=`").evidence(evidence(program)));
                }
                Answer::Has(value) => at += self.value(word, value, joined, at, severity, found),
                Answer::Gone(one) => {
                    gone.push((word, name, &one.instead));
                    at += usize::from(one.has_value && joined.is_none());
                }
                Answer::Unknown => {
                    let message = format!("{} has no option `{name}`", program.name);
                    let hit = Hit::new("option-unknown", word.line, message).at_most(severity);
                    let hit = hit.about(name).evidence(evidence(program));
                    found.hit(match program.near(name) {
                        Some(near) => hit.help(format!("did you mean `{near}`?")),
                        None => hit,
                    });
                }
            }
        }
        if let Some(((first, ..), places)) = gone.first().zip(Some(found.places())) {
            let is_said = |(word, ..): &(&Word, &str, &str)| places.contains(&(word.line, GONE));
            if !gone.iter().any(is_said) {
                let names: Vec<(&str, &str)> =
                    gone.iter().map(|(_, name, new)| (*name, *new)).collect();
                found.hit(removed(program, &names, first.line).at_most(severity));
            }
        }
    }

    /// Returns the value of an option, and its line.
    fn given(&self, name: &str) -> Option<(&str, usize)> {
        let at = self.words.iter().position(|word| {
            let own = word.text.split('=').next().unwrap_or_default();
            own == name
        })?;
        let word = &self.words[at];
        let joined = word.text.split_once('=').map(|(_, value)| value);
        let value = joined.or_else(|| self.words.get(at + 1).map(|next| next.text.as_str()))?;
        Some((value, word.line))
    }

    /// Checks for the format of a model whose name says that it has none.
    fn format(&self, severity: Severity, found: &mut Findings<'_>) {
        let Some((format, line)) = self.given("--quantization").or_else(|| self.given("-q")) else {
            return;
        };
        let first = self.words.first().map(|word| word.text.as_str());
        let named = self.given("--model").map(|(model, _)| model).or(first);
        let Some(model) = named.filter(|_| FORMATS.contains(&format)) else { return };
        let lower = model.to_ascii_lowercase();
        // A folder can contain anything.
        let is_known = model.matches('/').count() == 1
            && model.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !is_unsure(model);
        if is_known && !SAYS_FORMAT.iter().any(|text| lower.contains(text)) {
            let message = format!("`{model}` does not seem to be in the format `{format}`");
            let hit = Hit::new("option-value", line, message).at_most(severity);
            found.hit(hit.help(format!(
                "name the model's version for `{format}`, or remove `--quantization`"
            )));
        }
    }

    /// Checks the value of an option. Returns the number of words that it has.
    fn value(
        &self,
        option: &Word,
        value: &Value,
        joined: Option<&str>,
        at: usize,
        severity: Severity,
        found: &mut Findings<'_>,
    ) -> usize {
        let count = match value {
            Value::None | Value::Any => return 0,
            Value::Texts => return 2,
            Value::Number | Value::Text | Value::Choices(_) => usize::from(joined.is_none()),
        };
        let next = self.words.get(at).map(|word| word.text.as_str());
        let Some(given) = joined.or(next).filter(|given| !is_unsure(given)) else { return count };
        let is_next_option =
            is_option(given) && !matches!(self.program.answer(given), Answer::Unknown);
        let problem = match value {
            Value::Number if is_next_option => Some("a number".to_owned()),
            Value::Number => {
                let is_number = given.parse::<f64>().is_ok();
                (is_number && given.contains('.')).then(|| "a whole number".to_owned())
            }
            Value::Choices(all) => {
                let is_one = all.iter().any(|one| one == given);
                let shown: Vec<String> =
                    all.iter().take(SHOWN).map(|one| format!("`{one}`")).collect();
                (!is_one).then(|| shown.join(", "))
            }
            _ => None,
        };
        if let Some(needed) = problem {
            let (name, program) = (&option.text, &self.program.name);
            // The part of a number before the point is used.
            let message = match given.split_once('.').filter(|_| *value == Value::Number) {
                Some((whole, _)) => format!("`{name}` of {program} reads `{given}` as `{whole}`"),
                None => format!("`{name}` of {program} does not accept `{given}`"),
            };
            let hit = Hit::new("option-value", option.line, message).at_most(severity);
            found.hit(hit.help(format!("write {needed}")).evidence(evidence(self.program)));
        }
        // The next option is checked too.
        if is_next_option { 0 } else { count }
    }
}

/// Formats into which a model must be converted before vLLM loads it.
const FORMATS: [&str; 4] = ["awq", "awq_marlin", "gptq", "gptq_marlin"];

/// Parts of the names of models that are converted.
const SAYS_FORMAT: [&str; 9] =
    ["awq", "gptq", "int4", "int8", "4bit", "4-bit", "8bit", "w4a16", "quant"];

/// The number of choices in a message.
const SHOWN: usize = 9;

/// Returns whether a word is an option, and not a negative number.
fn is_option(text: &str) -> bool {
    let rest = text.trim_start_matches('-');
    text.starts_with('-') && rest.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns whether a text is known only at run time, or stands for another one.
fn is_unsure(text: &str) -> bool {
    text.is_empty() || text.contains([UNKNOWN, '$', '{', '<', '%', '`'])
}

fn evidence(program: &Program) -> Option<&crate::Evidence> {
    Some(&program.evidence)
}

/// The rule for options that were removed.
const GONE: &str = "option-gone";

/// Returns the finding about options that were removed, each with what replaces it.
fn removed<'r>(program: &Program, gone: &[(&str, &str)], line: usize) -> Hit<'r> {
    let quoted = |all: &mut dyn Iterator<Item = &str>, word: &str| {
        let mut shown: Vec<String> = Vec::new();
        for text in all.filter(|text| !text.is_empty()).map(|text| format!("`{text}`")) {
            if !shown.contains(&text) {
                shown.push(text);
            }
        }
        shown.join(word)
    };
    let names = quoted(&mut gone.iter().map(|(name, _)| *name), " and ");
    let instead = quoted(&mut gone.iter().map(|(_, instead)| *instead), " or ");
    let message = format!("{} no longer has {names}, as of {}", program.name, program.until);
    let hit = Hit::new(GONE, line, message).evidence(evidence(program));
    if instead.is_empty() {
        hit.help("remove it, or pin a release that has it")
    } else {
        hit.help(format!("write {instead}, or pin a release that has the old name"))
    }
}

/// Returns the commands of `ENTRYPOINT` and `CMD`.
fn instructions(facts: &Facts<'_>) -> Vec<ShellCommand> {
    if facts.kind != Kind::Dockerfile {
        return Vec::new();
    }
    let mut commands = Vec::new();
    let mut entry: (usize, Vec<String>) = (0, Vec::new());
    for one in facts.instructions() {
        let (name, rest) = parts(one);
        if name != "ENTRYPOINT" && name != "CMD" {
            continue;
        }
        let Ok(list) = serde_json::from_str::<Vec<String>>(rest.trim()) else { continue };
        let is_arguments = list.first().is_some_and(|first| first.starts_with('-'));
        let before = if is_arguments && entry.0 == one.stage { entry.1.len() } else { 0 };
        let all = entry.1.iter().take(before).chain(&list);
        let words: Vec<Word> =
            all.map(|text| Word { text: text.clone(), line: one.line }).collect();
        if name == "ENTRYPOINT" {
            entry = (one.stage, list);
        }
        if !words.is_empty() {
            commands.push(ShellCommand { words, stage: one.stage, ..EMPTY });
        }
    }
    commands
}

/// Texts that show which release of a program a file uses.
static PIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"(tag|ref|rev|commit|version|branch|sha|build)\w*\s*[=:}-]+\s*.?(b\d{3}|v?\d+\.\d|[0-9a-f]{7})";
    let git = r"(checkout|reset --hard|-b|--branch)[ =]+.?(b\d{3}|v?\d+\.\d|[0-9a-f]{7})";
    let path = r"(download/|archive/|\.git@|[-:=])(b\d{3}|v\d+\.\d|[0-9a-f]{40})|@sha256";
    let package = r"(vllm|sglang|sgl)[\w./-]*(==|[:_-])v?\d+\.\d";
    Regex::new(&format!("{number}|{git}|{path}|{package}")).ok()
});

/// Names of Dockerfiles that can install what a script starts.
const DOCKERFILES: [&str; 4] = ["Containerfile", "Dockerfile", "../Containerfile", "../Dockerfile"];

/// Returns the severity of a wrong option; `None` if the file uses another release, or a copy of the
/// program that can have other options.
fn severity(facts: &Facts<'_>, context: Context<'_>, program: &Program) -> Option<Severity> {
    let project = program.project.as_str();
    let place = context.exists.and_then(|files| files.place(facts.file)).unwrap_or_default();
    let beside = DOCKERFILES.iter().filter_map(|one| context.exists?.text(facts.file, one));
    let mut texts: Vec<String> = vec![facts.text.to_ascii_lowercase()];
    texts.extend(beside.map(|text| text.to_ascii_lowercase()));
    let is_copy = |text: &String| {
        program.copies.iter().any(|copy| text.contains(copy)) || names_fork(text, program.origins())
    };
    let names_it = |line: &&str| line.contains(project) || line.contains("llama");
    let is_pinned = |text: &String| {
        let pin = PIN.as_ref();
        text.lines().filter(names_it).any(|line| pin.is_some_and(|pin| pin.is_match(line)))
    };
    let place = if place.is_empty() { facts.file.to_owned() } else { place };
    if is_in_source(&place.to_ascii_lowercase(), project)
        || texts.iter().any(is_copy)
        || texts.iter().any(is_pinned)
    {
        return None;
    }
    let is_newest = program.origins().iter().any(|origin| texts[0].contains(origin));
    // Scripts that only try something out use a build of their own.
    let is_server = program.starts[0].iter().any(|word| word.contains("serve"));
    match (is_newest, is_server) {
        (true, _) => Some(Severity::Warning),
        (false, true) => Some(Severity::Information),
        (false, false) => None,
    }
}

/// Folders of the projects, whose scripts are for the source beside them.
const SOURCE: [&str; 7] = ["benchmarks", "ci", "docs", "examples", "scripts", "tests", "tools"];

/// Returns whether a path in lower case is in a copy of a project's source.
fn is_in_source(place: &str, project: &str) -> bool {
    let name = project.split('.').next().unwrap_or(project);
    let folders: Vec<&str> = place.split('/').collect();
    folders.windows(2).any(|two| two[0].contains(name) && SOURCE.contains(&two[1]))
}

/// Checks the variables with options of a program that the file names.
fn held(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let is_said = found.places().iter().any(|(_, rule)| *rule == GONE);
    let values = facts.settings.iter().filter(|one| one.value.trim_start().starts_with('-'));
    let lower = facts.code.to_ascii_lowercase();
    for setting in values.take(MOST).filter(|_| !is_said) {
        let words: Vec<&str> = setting.value.split_whitespace().collect();
        for program in programs() {
            let start = program.starts[0].join(" ");
            let project = program.project.split('.').next().unwrap_or_default();
            let is_named = lower.contains(&start)
                || facts.kind == Kind::Environment && lower.contains(project);
            let gone = || words.iter().find_map(|word| Some((*word, program.removed(word)?)));
            if is_named
                && let Some((word, gone)) = gone()
                && let Some(severity) = severity(facts, context, program)
            {
                let gone = [(word, &*gone.instead)];
                found.hit(removed(program, &gone, setting.line).at_most(severity));
                break;
            }
        }
    }
}

/// The number of variables that are checked.
const MOST: usize = 200;
