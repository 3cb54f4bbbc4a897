//! Rules for words anywhere in a file, including comments.

use std::cell::{LazyCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use ::names::GpuTarget;
use aho_corasick::AhoCorasick;
use pins::patterns::{required_texts, syntax};
use regex::bytes::{Regex, RegexBuilder};

use super::{access, for_gpu, unread};
use crate::data::{Files, Part, WordRow, data};
use crate::shell::{ShellCommand, Word};
use crate::target::Match;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// Rows about words. Most lines have none of the texts that the patterns require, so one search for
/// all texts finds the few rows whose patterns must be matched.
#[derive(Debug)]
struct Rows {
    rows: Vec<Candidate>,
    texts: Option<AhoCorasick>,
    /// The number of texts.
    count: usize,
}

/// A row, and what a line must contain before the row's pattern is matched.
#[derive(Debug)]
struct Candidate {
    row: &'static WordRow,
    /// Choices of texts, as ranges of indexes; the line must contain a text of each choice.
    choices: Vec<Range<usize>>,
    pattern: OnceLock<Option<Regex>>,
    except: OnceLock<Option<Regex>>,
}

/// The length of the shortest text that is searched for. Shorter ones are in most lines.
const SHORTEST: usize = 3;

impl Rows {
    /// Returns the rows about lines or about commands.
    fn of(in_commands: bool) -> Self {
        let mut texts: Vec<Vec<u8>> = Vec::new();
        let rows = data().words.iter().filter(|row| (row.part == Part::Commands) == in_commands);
        let rows = rows.map(|row| {
            let choices = syntax(&row.pattern).map_or_else(Vec::new, |hir| required_texts(&hir));
            let is_long = |choice: &Vec<Vec<u8>>| choice.iter().all(|text| text.len() >= SHORTEST);
            let choices = choices.into_iter().filter(is_long).map(|choice| {
                let first = texts.len();
                texts.extend(choice);
                first..texts.len()
            });
            let choices = choices.collect();
            Candidate { row, choices, pattern: OnceLock::new(), except: OnceLock::new() }
        });
        let rows = rows.collect();
        Self { rows, texts: AhoCorasick::new(&texts).ok(), count: texts.len() }
    }

    /// Returns the rows whose patterns match a text in lower case.
    fn matching(&self, lower: &str) -> impl Iterator<Item = &Candidate> {
        let mut has = vec![self.texts.is_none(); self.count];
        for text in self.texts.iter().flat_map(|all| all.find_overlapping_iter(lower)) {
            has[text.pattern()] = true;
        }
        self.rows.iter().filter(move |row| row.matches(lower.as_bytes(), &has))
    }
}

impl Candidate {
    /// Returns whether the row applies to a text. `has` tells which texts it contains.
    fn matches(&self, lower: &[u8], has: &[bool]) -> bool {
        let except = || self.except.get_or_init(|| self.row.except.as_deref().and_then(compiled));
        self.choices.iter().all(|choice| has[choice.clone()].contains(&true))
            && self.pattern().is_some_and(|pattern| pattern.is_match(lower))
            && !except().as_ref().is_some_and(|except| except.is_match(lower))
    }

    fn pattern(&self) -> Option<&Regex> {
        self.pattern.get_or_init(|| compiled(&self.row.pattern)).as_ref()
    }
}

/// Returns a regular expression. A test proves that all patterns are valid.
fn compiled(pattern: &str) -> Option<Regex> {
    // Advice is ASCII; Unicode tables would only slow down the start.
    RegexBuilder::new(pattern).unicode(false).build().ok()
}

static LINES: LazyLock<Rows> = LazyLock::new(|| Rows::of(false));
static COMMANDS: LazyLock<Rows> = LazyLock::new(|| Rows::of(true));

/// The longest line that is checked, in bytes. Longer lines do not contain advice.
const LONGEST: usize = 2_000;

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let messages = message_lines(facts);
    let unread = unread::lines(facts);
    let failures = failure_lines(facts);
    let others = found.places();
    let is_image = facts.kind == Kind::Dockerfile;
    let whole = LazyCell::new(|| without_default_branch(facts));
    let has = |text: &String| whole.contains(text.as_str());
    let known: RefCell<BTreeMap<&str, bool>> = RefCell::default();
    let is_file = |row: &'static WordRow| {
        *known.borrow_mut().entry(&row.name).or_insert_with(|| {
            (row.needs.is_empty() || row.needs.iter().any(has))
                && !row.unless.iter().any(has)
                && !facts.target().is_only(&row.except_gpus)
        })
    };
    for (line, text) in facts.lines() {
        if text.len() > LONGEST {
            continue;
        }
        let lower = text.to_ascii_lowercase();
        for Candidate { row, .. } in LINES.matching(&lower) {
            let sure = facts.target().matches(&row.row.gpus, context);
            let is_message = messages.contains(&line);
            let is_idle = is_message || unread.contains(&line);
            let is_advice = !failures.contains(&line) && (row.part == Part::Comments || !is_idle);
            let is_other = sure == Match::Unknown && !row.without_gpu
                || row.row.rule == GROUP && is_image && access::gets_groups(facts, context);
            if !is_file(row) || !is_advice || !applies(row, facts.kind, &lower) || is_other {
                continue;
            }
            let hit = Hit::new(&row.row.rule, line, row.row.message.as_str()).of(&row.row);
            // The other rules say more precisely what is wrong.
            if let Some(hit) =
                for_gpu(hit, sure).filter(|_| !others.contains(&(line, &*row.row.rule)))
            {
                found.hit(hit);
            }
        }
        if !facts.kind.is_comment(&lower) && !messages.contains(&line) {
            moved_index(text, line, facts, context, found);
        }
    }
    in_commands(facts, context, &is_file, found);
}

/// The rule for users who cannot open the GPU, which a group of the host lets them do.
const GROUP: &str = "render-group-missing";

/// Names of default branches.
const DEFAULT: [&str; 2] = ["main", "master"];

/// Returns the code in lower case, without the options of `git clone` that name a default branch:
/// such a clone is the same as one without a branch.
fn without_default_branch(facts: &Facts<'_>) -> String {
    let lower = facts.code.to_ascii_lowercase();
    let branches = facts.commands.iter().filter(|one| one.words[0].text == "git").flat_map(|one| {
        let pairs = one.words.windows(2).filter(|two| matches!(&*two[0].text, "-b" | "--branch"));
        pairs.map(|two| two[1].text.as_str())
    });
    let branches: Vec<&str> = branches.collect();
    let is_default = !branches.is_empty() && branches.iter().all(|one| DEFAULT.contains(one));
    if is_default { lower.replace("--branch", "").replace("clone -b", "clone") } else { lower }
}

/// Rules that do not apply to commands for the GPUs of another vendor.
const FOR_VENDOR: [&str; 3] = ["cuda-package", "nvidia-leftover", "tensorflow-from-index"];

/// Checks the rows about commands.
fn in_commands(
    facts: &Facts<'_>,
    context: Context<'_>,
    is_file: &dyn Fn(&'static WordRow) -> bool,
    found: &mut Findings<'_>,
) {
    let is_row = |one: &&Candidate| is_file(one.row) && applies(one.row, facts.kind, "");
    for command in facts.commands.iter().filter(|command| !is_talk(command)) {
        let words: Vec<&str> = command.texts();
        let lower = words.join(" ").to_ascii_lowercase();
        for candidate in COMMANDS.matching(&lower).filter(is_row) {
            let row = candidate.row;
            let end = candidate.pattern().and_then(|one| one.find(lower.as_bytes()));
            let line = line_at(command, end.map_or(0, |one| one.end()));
            let hit = Hit::new(&row.row.rule, line, row.row.message.as_str()).of(&row.row);
            let sure = facts.target().matches(&row.row.gpus, context);
            let is_unknown = sure == Match::Unknown && !row.without_gpu;
            let is_other = command.is_for_other && FOR_VENDOR.contains(&&*row.row.rule);
            if let Some(hit) = for_gpu(hit, sure).filter(|_| !is_unknown && !is_other) {
                found.hit(hit);
            }
        }
    }
}

/// Returns the line of the word at a position of a command, whose words are joined with spaces.
fn line_at(command: &ShellCommand, position: usize) -> usize {
    let mut left = position;
    let is_before = |word: &&Word| {
        let length = word.text.len() + 1;
        let is_before = left > length;
        left = left.saturating_sub(length);
        is_before
    };
    let mut words = command.words.iter().skip_while(is_before);
    words.next().unwrap_or(&command.words[0]).line
}

/// Prefixes of the names of shell functions that print messages.
const PRINTS: [&str; 13] = [
    "debug", "die", "err", "fail", "info", "log", "msg", "note", "ok", "pass", "print_", "success",
    "warn",
];

/// Returns whether a command prints a message, or looks for something.
fn is_talk(command: &ShellCommand) -> bool {
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    let is_search = matches!(program, "grep" | "egrep" | "[" | "[[" | "test");
    let is_function = program != "passwd" && PRINTS.iter().any(|start| program.starts_with(start));
    command.is_message() || (is_search || is_function) && !command.is_saved
}

/// Returns the lines on which a script only prints messages or searches for text.
pub(super) fn message_lines(facts: &Facts<'_>) -> BTreeSet<usize> {
    let lines = |is_kind: fn(&ShellCommand) -> bool| {
        let commands = facts.commands.iter().filter(move |one| is_kind(one));
        commands.flat_map(|command| command.words.iter().map(|word| word.line))
    };
    // The command after a pipe shows the purpose of its input.
    let others: BTreeSet<usize> = lines(|one| !is_talk(one) && !is_input(one)).collect();
    lines(is_talk).filter(|line| !others.contains(line)).collect()
}

/// Prefixes of the names of shell functions that print a message and exit.
const STOPS: [&str; 6] = ["abort", "die", "err", "exit_with", "fail", "fatal"];

/// Returns the lines with messages about what just failed: those of `die`, and those before `exit`.
fn failure_lines(facts: &Facts<'_>) -> BTreeSet<usize> {
    let starts = |command: &ShellCommand, names: &[&str]| {
        names.iter().any(|name| command.words[0].text.starts_with(name))
    };
    let mut lines = BTreeSet::new();
    let mut is_before_exit = false;
    for command in facts.commands.iter().rev() {
        let is_failure = starts(command, &STOPS) || is_before_exit && is_talk(command);
        if is_failure {
            lines.extend(command.words.iter().map(|word| word.line));
        }
        is_before_exit = is_failure || starts(command, &["exit", "return"]);
    }
    lines
}

/// Returns whether a command only passes text to another one: `cat /proc/cmdline | grep …`.
fn is_input(command: &ShellCommand) -> bool {
    command.is_piped && matches!(&*command.words[0].text, "cat" | "echo" | "printf")
}

fn applies(row: &WordRow, kind: Kind, lower: &str) -> bool {
    let is_code = matches!(kind, Kind::Dockerfile | Kind::Shell);
    let is_comment = kind.is_comment(lower);
    let is_file = match row.files {
        Files::Any => true,
        Files::Text => !kind.has_settings() || is_comment,
        Files::Code => is_code,
        Files::Dockerfile => kind == Kind::Dockerfile,
    };
    is_file
        && (row.part == Part::Comments || !is_comment)
        && !(row.may_be_denied && is_denied(lower))
}

/// Returns whether a line warns against something.
fn is_denied(lower: &str) -> bool {
    const DENIALS: [&str; 14] = [
        " not ",
        "n't",
        "never",
        "avoid",
        "instead of",
        "deprecated",
        "obsolete",
        "no longer",
        "remove",
        "wrong",
        "unlike",
        "rather than",
        "without",
        "skipped",
    ];
    DENIALS.iter().any(|word| lower.contains(word))
}

/// Checks for URLs of indexes that moved or no longer get new packages.
fn moved_index(
    text: &str,
    line: usize,
    facts: &Facts<'_>,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    for (at, _) in text.match_indices("https://") {
        let url = &text[at..];
        let hit = stale_index(url, line, facts.target().only(context), context);
        let Some(hit) = hit else { continue };
        let Some(command) = for_pins(facts, line, url) else {
            found.hit(hit);
            continue;
        };
        // These builds are gone: that is what the owner must know.
        let places = found.places();
        let is_gone = |word: &Word| places.contains(&(word.line, "nightly-removed"));
        if !command.words.iter().any(is_gone) {
            let newer = hit.help.clone().unwrap_or_default();
            let advice = format!(
                "keep it for these versions, but mirror the wheels; for newer ones, {newer}"
            );
            found.hit(hit.at_most(Severity::Information).help(advice));
        }
    }
}

/// Returns the command that installs builds for one release of ROCm from a URL, which is on a line of
/// the command, or in a variable. The builds stay on the index that got them.
fn for_pins<'f>(facts: &'f Facts<'_>, line: usize, url: &str) -> Option<&'f ShellCommand> {
    let is_pin = |word: &Word| word.text.contains("==") && word.text.contains("+rocm");
    let pins = |command: &&ShellCommand| command.words.iter().any(is_pin);
    let end = facts.commands.partition_point(|one| one.words[0].line <= line);
    let own = end.checked_sub(1).and_then(|at| facts.commands.get(at));
    let is_in = |one: &&ShellCommand| one.words.iter().any(|word| word.line == line);
    let is_set = facts.settings.iter().any(|one| one.line == line);
    let url = url.split([' ', '"', '\'']).next().unwrap_or(url);
    let users = || {
        let all = facts.commands.iter().filter(|_| is_set);
        all.filter(|one| one.words.iter().any(|word| word.text.contains(url))).find(pins)
    };
    own.filter(is_in).filter(pins).or_else(users)
}

/// Returns the violation if a URL belongs to an index that moved or no longer gets new packages.
/// `gpu` is the only GPU that the file targets.
pub(super) fn stale_index(
    url: &str,
    line: usize,
    gpu: Option<&GpuTarget>,
    context: Context<'_>,
) -> Option<Hit<'static>> {
    let row = context.compat?.moved_index(url)?;
    let rest = &url[row.url.len()..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let shown = format!("{}{}", row.url, &rest[..end]);
    let message = format!("the index `{}` {}", shown.trim_end_matches('.'), row.why);
    let hit = Hit::new("index-moved", line, message).compat(&row.evidence);
    let named = url.split('/').find(|part| part.parse::<GpuTarget>().is_ok());
    let gpu = gpu.map(GpuTarget::as_str).or(named).unwrap_or("TARGET");
    Some(hit.help(format!("use {}", row.instead.replace("{gpu}", gpu))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_are_valid() {
        for row in &data().words {
            let patterns = row.except.iter().chain([&row.pattern]);
            for pattern in patterns {
                assert!(compiled(pattern).is_some() && syntax(pattern).is_some(), "{}", row.name);
            }
        }
        assert_eq!(LINES.rows.len() + COMMANDS.rows.len(), data().words.len());
        assert!(LINES.texts.is_some() && COMMANDS.texts.is_some());
    }
}
