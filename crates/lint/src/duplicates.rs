//! One defect is one finding, at the line where the owner repairs it; the finding names the other
//! lines.
//!
//! Two findings are about the same defect if a rule reports the same subject twice, or if two rules
//! say the same of one line. A rule names its subject with `Hit::about`. Otherwise the subject is
//! the message with the help, or less, as the key `once` of the rule in `versions/lint.toml` says. Its
//! key `yields-to` names the rules that say the same better. A comment describes the code: if a rule
//! reports both, the comment is not a defect of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::data::{Once, matches_any};
use crate::{Finding, Severity};

/// Keeps one finding for each defect, and sorts the findings by line.
pub(crate) fn once(mut found: Vec<Finding>, is_comment: impl Fn(usize) -> bool) -> Vec<Finding> {
    said_better(&mut found);
    worst_of_line(&mut found);
    let in_code: BTreeSet<&'static str> =
        found.iter().filter(|one| !is_comment(one.line)).map(|one| one.rule.id.as_str()).collect();
    found.retain(|one| !is_comment(one.line) || !in_code.contains(one.rule.id.as_str()));
    let mut subjects: BTreeMap<(&str, String), Vec<Finding>> = BTreeMap::new();
    for one in found {
        let about = match (one.rule.once, &one.subject) {
            (Some(Once::File), _) => String::new(),
            (Some(Once::Line | Once::Kind), None) => kind_of(&one.message),
            (_, Some(subject)) => subject.clone(),
            (_, None) => format!("{}\n{}", one.message, one.help),
        };
        subjects.entry((&one.rule.id, about)).or_default().push(one);
    }
    let merged = subjects.into_values().filter_map(|same| {
        let others: BTreeSet<usize> = same.iter().map(|one| one.line).collect();
        // The worst place comes first.
        let mut first = same.into_iter().min_by_key(|one| (one.severity, one.line))?;
        first.also = others.into_iter().filter(|line| *line != first.line).collect();
        Some(first)
    });
    let mut merged: Vec<Finding> = merged.collect();
    let key = |one: &Finding| (one.line, one.rule.id.as_str(), one.message.clone(), one.severity);
    merged.sort_by_key(key);
    merged
}

/// Drops the findings for which another finding of the same line says more.
fn said_better(found: &mut Vec<Finding>) {
    let mut rules: BTreeMap<usize, BTreeSet<&'static str>> = BTreeMap::new();
    for one in found.iter() {
        rules.entry(one.line).or_default().insert(&one.rule.id);
    }
    found.retain(|one| {
        let is_better =
            |rule: &&str| *rule != one.rule.id && matches_any(&one.rule.yields_to, rule);
        !rules.get(&one.line).is_some_and(|here| here.iter().any(is_better))
    });
}

/// Drops all but the worst finding of a line, for rules of which one is enough.
fn worst_of_line(found: &mut Vec<Finding>) {
    let is_one = |one: &Finding| one.rule.once == Some(Once::Line);
    let mut worst: BTreeMap<(usize, &'static str), (Severity, String)> = BTreeMap::new();
    for one in found.iter().filter(|one| is_one(one)) {
        let own = (one.severity, one.message.clone());
        let first = worst.entry((one.line, &one.rule.id)).or_insert_with(|| own.clone());
        if own.0 < first.0 {
            *first = own;
        }
    }
    found.retain(|one| {
        let first = worst.get(&(one.line, one.rule.id.as_str()));
        first.is_none_or(|(severity, text)| *severity == one.severity && *text == one.message)
    });
}

/// Returns a message without the names and addresses in it.
fn kind_of(message: &str) -> String {
    let plain: String = message.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let words = plain.split(' ').filter(|word| !word.contains("://") && !word.contains('@'));
    words.collect::<Vec<_>>().join(" ")
}
