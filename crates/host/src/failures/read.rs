//! Reads `versions/failures.toml`.

use std::collections::BTreeMap;

use pins::patterns::{all_texts, longest, required_texts, syntax};
use pins::reader::{
    Entry, Report, Reported, Table, Wrong, collect, document, list, nearest, quote, wrong,
};
use pins::rows::removed;
use pins::{Known, ParseError};
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::forms;

use super::assess::Assessor;
use super::assess_read::AssessRows;
use super::texts::{LOOKED_UP, Texts};
use super::{Expression, Failure, Failures, Pattern, Proof, Subject, Use};

/// The largest pattern; [`size`] says what is counted.
const LARGEST_PATTERN: usize = 20_000;
/// The default of `within`, in lines.
const WITHIN: u64 = 30;

/// Parses the text of `failures.toml`. Messages call it `file`.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_failures(file: &str, text: &str) -> Result<Failures, ParseError> {
    parse_failures_over(file, text, None)
}

/// Parses the text of `failures.toml` like [`parse_failures`], and adds its rows to the rows of
/// `lower`, the name and text of another file in this format. A row replaces one with the same
/// name, and `remove` drops rows of `lower`.
///
/// # Errors
/// Returns all problems in the first file that has any.
pub fn parse_failures_over(
    file: &str,
    text: &str,
    lower: Option<(&str, &str)>,
) -> Result<Failures, ParseError> {
    let mut patterns = Patterns::default();
    let mut rows = Rows::default();
    if let Some((lower_file, lower_text)) = lower {
        rows = Rows::read(lower_file, lower_text, rows, &mut patterns)?;
    }
    let rows = Rows::read(file, text, rows, &mut patterns)?;
    let mentions = one_of(&rows.mentions);
    let unknown_names = one_of(&rows.unknown_names);
    let follow_ups = one_of(&rows.follow_ups);
    let errors = rows.errors.clone();
    let (subjects, all, assessor) = rows.in_order();
    let (texts, patterns_of, patterns) = patterns.compile(&subjects, &all, &errors);
    Ok(Failures {
        all,
        subjects,
        patterns,
        texts,
        patterns_of,
        mentions,
        unknown_names,
        follow_ups,
        assessor,
    })
}

/// The rows of a catalogue, by name. The subject of a failure is an index into `subjects`.
#[derive(Debug, Default)]
struct Rows {
    subjects: Vec<(String, Subject)>,
    failures: BTreeMap<String, Failure>,
    mentions: Vec<String>,
    unknown_names: Vec<String>,
    follow_ups: Vec<String>,
    /// The patterns of lines that state an error, as indexes.
    errors: Vec<usize>,
    assessed: AssessRows,
}

impl Rows {
    /// Reads the rows of a file and adds them to `lower`.
    fn read(
        file: &str,
        text: &str,
        lower: Self,
        patterns: &mut Patterns,
    ) -> Result<Self, ParseError> {
        let mut report = Report::new(file, text);
        let rows = document(&mut report).and_then(|entries| {
            let root = Table::root(&mut report, &entries)?;
            root.check_form(&mut report, forms::FAILURES.keys);
            let known = lower.names();
            let removed = removed(&mut report, &root, &known);
            let mentions = root.texts(&mut report, "mentions", "-> cudaError", mention);
            let unknown = root.texts(&mut report, "unknown-names", "NameError: name", mention);
            let errors = root.texts(&mut report, "errors", "Error: ", pattern);
            let follow_ups = root.texts(&mut report, "follow-ups", "failed to solve:", mention);
            let subjects = tables(&mut report, &root, "about", |report, entry| {
                read_subject(report, entry, patterns)
            });
            let mut rows = lower;
            let is_read = subjects.as_ref().map(|_| ()).map_err(|reported| *reported);
            rows.add_subjects(subjects.unwrap_or_default());
            let names: Vec<String> = rows.subjects.iter().map(|(name, _)| name.clone()).collect();
            let failures = tables(&mut report, &root, "failure", |report, entry| {
                read_failure(report, entry, &names, patterns)
            });
            is_read?;
            rows.assessed.read(&mut report, &root, &names)?;
            rows.mentions.extend(mentions?);
            rows.unknown_names.extend(unknown?);
            rows.errors.extend(patterns.add(errors?));
            rows.follow_ups.extend(follow_ups?);
            for name in removed? {
                rows.remove(&name);
            }
            rows.failures.extend(failures?);
            Ok(rows)
        });
        report.finish(rows)
    }

    /// Returns the names of the failures that another file can remove.
    fn names(&self) -> Vec<String> {
        self.failures.keys().map(|name| format!("failure.{name}")).collect()
    }

    /// Adds subjects. A subject replaces an existing one with the same name.
    fn add_subjects(&mut self, subjects: BTreeMap<String, Subject>) {
        for (name, subject) in subjects {
            match self.subjects.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = subject,
                None => self.subjects.push((name, subject)),
            }
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(failure) = name.strip_prefix("failure.") {
            self.failures.remove(failure);
        }
    }

    fn in_order(self) -> (Vec<Subject>, Vec<Failure>, Assessor) {
        let subjects = self.subjects.into_iter().map(|(_, subject)| subject).collect();
        (subjects, self.failures.into_values().collect(), self.assessed.compile())
    }
}

/// Reads all tables `[kind.name]`.
pub(super) fn tables<T>(
    report: &mut Report<'_>,
    root: &Table<'_>,
    kind: &str,
    read: impl FnMut(&mut Report<'_>, &Entry<'_>) -> Result<(String, T), Reported>,
) -> Result<BTreeMap<String, T>, Reported> {
    let Some(entry) = root.get(kind) else { return Ok(BTreeMap::new()) };
    let place = quote(&format!("[{kind}.name]"));
    let all = entry.table(report, &place)?;
    collect(report, all.entries(), read)
}

/// All patterns of the file, each once, with their fixed texts.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    all: Vec<Checked>,
    known: BTreeMap<String, usize>,
}

/// A pattern that was checked.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    text: String,
    /// Whether each of its fixed texts is a match.
    is_fixed: bool,
    /// Every match contains at least one of these texts.
    fixed: Vec<Vec<u8>>,
}

/// All fixed texts, the indexes of the patterns for each text, and the patterns.
type Compiled = (Texts, Vec<Vec<usize>>, Vec<Pattern>);

impl Patterns {
    /// Adds patterns, and returns their indexes.
    pub(super) fn add(&mut self, patterns: Vec<Checked>) -> Vec<usize> {
        let mut add = |pattern: Checked| {
            let next = self.all.len();
            *self.known.entry(pattern.text.clone()).or_insert_with(|| {
                self.all.push(pattern);
                next
            })
        };
        patterns.into_iter().map(&mut add).collect()
    }

    fn compile(self, subjects: &[Subject], failures: &[Failure], errors: &[usize]) -> Compiled {
        let (texts, patterns_of) = self.fixed();
        let mut patterns: Vec<Pattern> = self
            .all
            .into_iter()
            .map(|one| {
                let expression = (!one.is_fixed).then(|| Expression::new(one.text));
                Pattern { expression, uses: Vec::new(), is_once: false }
            })
            .collect();
        let mut use_all = |indexes: &[usize], meaning: Use| {
            indexes.iter().for_each(|index| patterns[*index].uses.push(meaning));
        };
        for (index, subject) in subjects.iter().enumerate() {
            use_all(&subject.signs, Use::Sign(index));
            use_all(&subject.against, Use::Against(index));
        }
        for (index, failure) in failures.iter().enumerate() {
            use_all(&failure.proof.unless, Use::Unless(index));
            use_all(&failure.proof.details, Use::Detail(index));
            use_all(&failure.proof.lines, Use::Line(index));
        }
        use_all(errors, Use::Error);
        let is_about =
            |subject: &usize| failures.iter().any(|one| one.proof.about == Some(*subject));
        for pattern in &mut patterns {
            pattern.is_once = pattern.uses.iter().all(|one| match one {
                Use::Line(_) | Use::Unless(_) | Use::Detail(_) | Use::Error => false,
                Use::Sign(subject) => !is_about(subject),
                Use::Against(_) => true,
            });
        }
        (texts, patterns_of, patterns)
    }

    /// Returns the fixed texts, and the indexes of the patterns for each.
    pub(super) fn fixed(&self) -> (Texts, Vec<Vec<usize>>) {
        let mut texts: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (index, pattern) in self.all.iter().enumerate() {
            for text in &pattern.fixed {
                texts.entry(text.clone()).or_default().push(index);
            }
        }
        let (texts, patterns_of) = texts.into_iter().unzip();
        (Texts::new(texts), patterns_of)
    }

    /// Returns the expressions of all patterns.
    pub(super) fn expressions(self) -> impl Iterator<Item = Expression> {
        self.all.into_iter().map(|one| Expression::new(one.text))
    }
}

impl Checked {
    /// Returns the pattern.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Accepts the name of a table.
pub(super) fn name(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    what: &str,
) -> Result<String, Reported> {
    entry.key.parse::<names::PinName>().map(|name| name.to_string()).map_err(|_| {
        let help =
            "a name consists of lower-case letters, digits and single dashes, starts with a letter, and does not end with a dash";
        let message = format!("{} is not the name of a {what}", quote(entry.key));
        report.add(&entry.key_span, wrong(message, help))
    })
}

fn read_subject(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    patterns: &mut Patterns,
) -> Result<(String, Subject), Reported> {
    let place = quote(&format!("[about.{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::SUBJECT.keys);
    let name = name(report, entry, "subject");
    let signs = table.texts(report, "signs", "HIP error: ", pattern);
    if signs.as_ref().is_ok_and(Vec::is_empty) {
        table.add_missing(report, "signs", "signs = [\"HIP error: \"]");
    }
    let against = table.texts(report, "against", "NVIDIA GeForce", pattern);
    let advice = table.texts(report, "advice", "Strix Halo:", text);
    let unsure = table.optional(report, "unsure", text);
    let is_first = table.flag(report, "first");
    let is_windows = table.flag(report, "windows");
    let (signs, against, advice) = (signs?, against?, advice?);
    let (signs, against) = (patterns.add(signs), patterns.add(against));
    let (unsure, is_first, is_windows) = (unsure?, is_first?, is_windows?);
    Ok((name?, Subject { signs, against, advice, unsure, is_first, is_windows }))
}

fn read_failure(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    subjects: &[String],
    patterns: &mut Patterns,
) -> Result<(String, Failure), Reported> {
    let place = quote(&format!("[failure.{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::FAILURE.keys);
    let name = name(report, entry, "failure");
    let proof = read_proof(report, &table, subjects, patterns);
    let is_harmless = table.flag(report, "harmless");
    let is_unclear = table.flag(report, "unclear");
    let is_presumed = table.flag(report, "presumed");
    let follows = table.texts(report, "follows", "ring-timeout", text);
    let cause = table.required(report, "cause", "cause = \"what happened\"", text);
    let reasons = table.texts(report, "reasons", "Strix Halo: why", text);
    let fix = table.texts(report, "fix", "what to do", text);
    if fix.as_ref().is_ok_and(Vec::is_empty) {
        table.add_missing(report, "fix", "fix = [\"what to do\"]");
    }
    let known = table.required(report, "known", "known = \"one source\"", Known::parse);
    let evidence = table.required(report, "evidence", "evidence = \"ROCm/TheRock#5763\"", text);
    let checked = table.date(report, "checked");
    let failure = Failure {
        name: entry.key.to_owned(),
        cause: cause?,
        reasons: reasons?,
        fix: fix?,
        known: known?,
        evidence: evidence?,
        checked: checked?,
        is_harmless: is_harmless?,
        is_unclear: is_unclear?,
        is_presumed: is_presumed?,
        follows: follows?,
        proof: proof?,
    };
    Ok((name?, failure))
}

fn read_proof(
    report: &mut Report<'_>,
    table: &Table<'_>,
    subjects: &[String],
    patterns: &mut Patterns,
) -> Result<Proof, Reported> {
    let any = table.texts(report, "any", "invalid device function", pattern);
    let all = table.texts(report, "all", "invalid device function", pattern);
    let unless = table.texts(report, "unless", "is_available() = True", pattern);
    let details = table.texts(report, "details", "Kernel Name: ", pattern);
    let within = within(report, table);
    let about = about(report, table, subjects);
    let (any, all) = (any?, all?);
    let needs_all = !all.is_empty();
    if needs_all != any.is_empty() {
        let help =
            "`any` needs one of its patterns to match, `all` needs every one; write one of the two";
        let what = if needs_all { "both `any` and `all`" } else { "neither `any` nor `all`" };
        return Err(report.add(&table.span(), wrong(format!("{} has {what}", table.place()), help)));
    }
    Ok(Proof {
        lines: patterns.add(if needs_all { all } else { any }),
        needs_all,
        within: within?,
        unless: patterns.add(unless?),
        details: patterns.add(details?),
        about: about?,
    })
}

/// Reads the key `about`, the name of a subject.
pub(super) fn about(
    report: &mut Report<'_>,
    table: &Table<'_>,
    subjects: &[String],
) -> Result<Option<usize>, Reported> {
    table.optional(report, "about", |text| {
        subjects.iter().position(|name| name == text).ok_or_else(|| {
            let names = subjects.iter().map(String::as_str);
            let help = match nearest(text, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the subjects are {}", list(names)),
            };
            wrong(format!("there is no subject `[about.{text}]`"), help)
        })
    })
}

fn within(report: &mut Report<'_>, table: &Table<'_>) -> Result<u64, Reported> {
    let Some(entry) = table.get("within") else { return Ok(WITHIN) };
    match entry.integer().and_then(|number| u64::try_from(number).ok()) {
        Some(number) if (1..=100_000).contains(&number) => Ok(number),
        _ => Err(entry.add_type(report, "a number of lines", "write `within = 30`")),
    }
}

pub(super) fn text(text: &str) -> Result<String, Wrong> {
    match text.chars().count() {
        0..=500 => Ok(text.to_owned()),
        length => {
            let message = format!("{} is {length} characters long", quote(text));
            Err(wrong(message, "shorten it to 500 characters"))
        }
    }
}

/// Returns an expression that matches what one of `all` matches, or `None` if `all` is empty.
pub(super) fn one_of(all: &[String]) -> Option<Expression> {
    let groups: Vec<String> = all.iter().map(|one| format!("(?:{one})")).collect();
    (!groups.is_empty()).then(|| Expression::new(groups.join("|")))
}

/// Accepts the pattern of a mention, or of an error that follows from another one.
pub(super) fn mention(text: &str) -> Result<String, Wrong> {
    expression(text).map(|_| text.to_owned())
}

/// Accepts a regular expression.
fn expression(text: &str) -> Result<Hir, Wrong> {
    let hir = syntax(text).ok_or_else(|| {
        wrong(
            format!("{} is not a regular expression for bytes", quote(text)),
            "close every bracket and group, put `\\` before a special character that is meant literally, and use no look-around and no classes of Unicode characters",
        )
    })?;
    if size(&hir) > LARGEST_PATTERN {
        let message = format!("{} is too large", quote(text));
        return Err(wrong(message, "repeat parts of it less often"));
    }
    Ok(hir)
}

/// Returns about how many states the compiled expression has. A state takes less than 100 bytes.
fn size(hir: &Hir) -> usize {
    let all = |parts: &[Hir]| parts.iter().map(size).fold(parts.len(), usize::saturating_add);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        // A character has up to four bytes.
        HirKind::Class(Class::Unicode(class)) => 4 * class.ranges().len(),
        HirKind::Capture(capture) => size(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => all(parts),
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min).max(1);
            size(&repeated.sub).saturating_add(1).saturating_mul(times as usize)
        }
    }
}

/// Accepts a pattern, and returns it with its fixed texts; every match contains one of them.
pub(super) fn pattern(text: &str) -> Result<Checked, Wrong> {
    let hir = expression(text)?;
    match longest(required_texts(&hir)) {
        Some(fixed) if fixed.iter().all(|piece| piece.len() >= LOOKED_UP) => {
            Ok(Checked { text: text.to_owned(), is_fixed: is_fixed(&hir), fixed })
        }
        _ => Err(wrong(
            format!("{} has too little fixed text", quote(text)),
            format!("write at least {LOOKED_UP} consecutive characters that occur in every match"),
        )),
    }
}

/// Returns whether a pattern is a text or a choice of texts, so that each of its fixed texts is a
/// match.
fn is_fixed(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => is_fixed(&capture.sub),
        HirKind::Alternation(branches) => branches.iter().all(is_fixed),
        _ => all_texts(hir).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_of_texts_is_fixed() {
        for (pattern, expected) in [
            ("abcdef", true),
            ("(abcdef|ghijkl)", true),
            ("(abcdef|ghijkl)x", true),
            ("(abcdef|ghijkl)x+", false),
            ("abcdef$", false),
            ("(abcdef|gh[ij]kl)", true),
            ("(abcdef|gh[ij]+kl)", false),
        ] {
            assert_eq!(is_fixed(&syntax(pattern).unwrap()), expected, "{pattern}");
        }
    }

    /// Expressions are compiled when a log needs them, so all must be valid.
    #[test]
    fn every_expression_can_be_compiled() {
        let catalogue = include_str!("../../../../versions/failures.toml");
        let failures = parse_failures("versions/failures.toml", catalogue).unwrap();
        let of_patterns = failures.patterns.iter().filter_map(|one| one.expression.as_ref());
        let of_lines = [&failures.mentions, &failures.unknown_names, &failures.follow_ups];
        for one in of_patterns.chain(of_lines.into_iter().flatten()) {
            assert!(one.regex().is_some(), "{one:?}");
        }
        // The largest patterns that are accepted.
        for pattern in ["a{10000}", "(abcdef?){1600}", "[ac-e]{6000}", "(ab|[c-f]g?){1500}"] {
            assert!(expression(pattern).is_ok(), "{pattern}");
            assert!(Expression::new(pattern.to_owned()).regex().is_some(), "{pattern}");
        }
        for pattern in ["a{10001}", "(a{200}){200}", "(a?){9000}{9000}", "[ac-e]{20000}"] {
            assert!(expression(pattern).is_err(), "{pattern}");
        }
    }

    /// The expression of a pattern with such a text would be matched in nearly every line of a log.
    #[test]
    fn no_common_word_is_a_fixed_text() {
        let catalogue = include_str!("../../../../versions/failures.toml");
        let failures = parse_failures("versions/failures.toml", catalogue).unwrap();
        let words = "Building CXX object build/src/file.cpp.o -O3 warning: failed error: \
                     Linking shared library python3 install amd gpu /usr/lib/x86_64-linux-gnu \
                     INFO [model_runner.py:1] Loading model weights took 12.3 GiB and 4.5 seconds \
                     Engine 000: Avg generation throughput: 5 tokens/s, GPU KV cache usage: 1% \
                     POST /v1/chat/completions HTTP/1.1 200 OK load_tensors: layer 1 assigned \
                     to device slot update_slots: prompt processing progress available required \
                     level=INFO source=sched.go:1 msg= model=/root/.ollama/models/blobs/sha256-0 \
                     Requirement already satisfied: in dist-packages Downloading Collecting \
                     -manylinux_2_28_x86_64.whl True False None amdgpu: ring uses version \
                     kernel: systemd[1]: Started tensor torch.Size dtype torch.bfloat16 \
                     File \"/usr/local/lib/python3.12/site-packages/attention/graph.py\", line 7";
        let mut hits = Vec::new();
        failures.texts.find(words.as_bytes(), &(0..words.len()), |hit| {
            let patterns = failures.patterns_of[hit.text].iter();
            let patterns = patterns.map(|one| &failures.patterns[*one]);
            let patterns = patterns.filter(|one| one.uses != [Use::Error]);
            hits.extend(patterns.filter_map(|one| one.expression.as_ref()));
        });
        assert!(hits.is_empty(), "{hits:?}");
    }
}
