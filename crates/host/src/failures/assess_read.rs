//! Reads the kinds of failures and the components of `versions/failures.toml`.

use std::collections::BTreeMap;

use pins::reader::{Entry, Report, Reported, Table, Wrong, list, quote, wrong};

use crate::forms;

use super::Expression;
use super::assess::{Advice, Assessor, Component, FailureKind, Meaning, Strength, placeholder};
use super::read::{Patterns, about, mention, name, one_of, pattern, tables, text};

/// The rows of the file.
#[derive(Debug, Default)]
pub(super) struct AssessRows {
    kinds: BTreeMap<String, FailureKind>,
    components: BTreeMap<String, Component>,
    patterns: Patterns,
    mild: Vec<String>,
    loud: Vec<String>,
    /// The patterns of lines that show that a program works, as indexes.
    goes_on: Vec<usize>,
    /// The patterns of lines that show that a program overcomes a failure, as indexes.
    overcome: Vec<usize>,
    /// The patterns of lines that show that a program only tries something, as indexes.
    probes: Vec<usize>,
}

impl AssessRows {
    /// Reads the rows of a file, and adds them to those of another one.
    pub(super) fn read(
        &mut self,
        report: &mut Report<'_>,
        root: &Table<'_>,
        subjects: &[String],
    ) -> Result<(), Reported> {
        let mild = root.texts(report, "mild", "WARNING: ", mention);
        let loud = root.texts(report, "loud", "NCCL WARN", mention);
        let goes_on = root.texts(report, "goes-on", "startup complete", pattern);
        let overcome = root.texts(report, "overcome", "retrying without", pattern);
        let probes = root.texts(report, "probes", "Performing Test ", pattern);
        let patterns = &mut self.patterns;
        let kinds = tables(report, root, "kind", |report, entry| {
            read_kind(report, entry, subjects, patterns)
        });
        let components = tables(report, root, "component", |report, entry| {
            read_component(report, entry, patterns)
        });
        self.mild.extend(mild?);
        self.loud.extend(loud?);
        self.goes_on.extend(patterns.add(goes_on?));
        self.overcome.extend(patterns.add(overcome?));
        self.probes.extend(patterns.add(probes?));
        self.kinds.extend(kinds?);
        self.components.extend(components?);
        Ok(())
    }

    pub(super) fn compile(self) -> Assessor {
        let kinds: Vec<FailureKind> = self.kinds.into_values().collect();
        let components: Vec<Component> = self.components.into_values().collect();
        let (texts, patterns_of) = self.patterns.fixed();
        let expressions: Vec<Expression> = self.patterns.expressions().collect();
        let mut meanings = vec![Vec::new(); expressions.len()];
        let mut add = |signs: &[usize], meaning: Meaning| {
            signs.iter().for_each(|sign| meanings[*sign].push(meaning));
        };
        for (index, kind) in kinds.iter().enumerate() {
            add(&kind.signs, Meaning::Kind(index));
            add(&kind.with, Meaning::With(index));
        }
        add(&self.goes_on, Meaning::GoesOn);
        add(&self.overcome, Meaning::Overcome);
        add(&self.probes, Meaning::Probe);
        for (index, component) in components.iter().enumerate() {
            add(&component.signs, Meaning::Component(index));
        }
        let (mild, loud) = (one_of(&self.mild), one_of(&self.loud));
        Assessor { kinds, components, expressions, meanings, texts, patterns_of, mild, loud }
    }
}

fn read_kind(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    subjects: &[String],
    patterns: &mut Patterns,
) -> Result<(String, FailureKind), Reported> {
    let place = quote(&format!("[kind.{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::FAILURE_KIND.keys);
    let name = name(report, entry, "kind of failure");
    let signs = table.texts(report, "signs", "cannot open (?P<name>[a-z]+)", pattern);
    let with = table.texts(report, "with", "generated when compiling for", pattern);
    let unless = table.texts(report, "unless", "ops_gpu", mention);
    let strength = table.optional(report, "strength", strength);
    let what = table.required(report, "what", "what = \"a library is missing\"", text);
    let fix = table.texts(report, "fix", "install it", text);
    let advice = table.texts(report, "advice", "instead", advice);
    let about = about(report, &table, subjects);
    let (signs, what) = (signs?, what?);
    let lacks = |group: &str| {
        let start = format!("(?P<{group}>");
        signs.iter().any(|sign| !sign.text().contains(&start))
    };
    let mut rest = what.as_str();
    while let Some((_, group, after)) = placeholder(rest) {
        if lacks(group) {
            let message = format!("a pattern of {} has no group `{group}`", table.place());
            let help =
                format!("write `(?P<{group}>…)` in each pattern, or leave `{{{group}}}` out");
            return Err(report.add(&table.span(), wrong(message, help)));
        }
        rest = after;
    }
    let (signs, with) = (patterns.add(signs), patterns.add(with?));
    let strength = strength?.unwrap_or(Strength::Cause);
    let (fix, advice, about) = (fix?, advice?, about?);
    let unless = one_of(&unless?);
    let kind = FailureKind {
        name: entry.key.to_owned(),
        signs,
        with,
        unless,
        strength,
        what,
        fix,
        advice,
        about,
    };
    Ok((name?, kind))
}

fn read_component(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    patterns: &mut Patterns,
) -> Result<(String, Component), Reported> {
    let place = quote(&format!("[component.{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::COMPONENT.keys);
    let name = name(report, entry, "component");
    let signs = table.texts(report, "signs", "/aiter/", pattern);
    let title = table.required(report, "title", "title = \"AITER\"", text);
    let what = table.required(report, "what", "what = \"AMD's kernels\"", text);
    let gpus = table.texts(report, "gpus", "gfx942", text);
    let mut texts = BTreeMap::new();
    for (key, advice) in Advice::ALL {
        let all = table.texts(report, key, "what to do", text)?;
        if !all.is_empty() {
            texts.insert(advice, all);
        }
    }
    let link = table.optional(report, "report", text);
    let evidence = table.required(report, "evidence", "evidence = \"ROCm/aiter\"", text);
    let checked = table.date(report, "checked");
    let (is_caller, is_program) = (table.flag(report, "caller"), table.flag(report, "program"));
    let component = Component {
        name: entry.key.to_owned(),
        title: title?,
        signs: patterns.add(signs?),
        what: what?,
        gpus: gpus?,
        advice: texts,
        report: link?,
        evidence: evidence?,
        checked: checked?,
        is_caller: is_caller?,
        is_program: is_program?,
    };
    Ok((name?, component))
}

fn strength(text: &str) -> Result<Strength, Wrong> {
    match text {
        "cause" => Ok(Strength::Cause),
        "error" => Ok(Strength::Error),
        "general" => Ok(Strength::General),
        "reason" => Ok(Strength::Reason),
        "end" => Ok(Strength::End),
        _ => Err(wrong(
            format!("{} is no strength", quote(text)),
            "write `reason`, `cause`, `error`, `general` or `end`",
        )),
    }
}

fn advice(text: &str) -> Result<Advice, Wrong> {
    let found = Advice::ALL.into_iter().find(|(key, _)| *key == text);
    found.map(|(_, advice)| advice).ok_or_else(|| {
        let keys = list(Advice::ALL.into_iter().map(|(key, _)| key));
        wrong(format!("{} is no key of a component", quote(text)), format!("the keys are {keys}"))
    })
}
