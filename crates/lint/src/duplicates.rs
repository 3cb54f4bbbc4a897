//! One defect is one finding, at the line where the owner repairs it; the finding names the other
//! lines.
//!
//! Two findings are about the same defect if a rule reports the same subject twice, or if two rules
//! say the same of one line. A rule names its subject with `Hit::about`. Otherwise the subject is
//! the help with the message, of which only an error keeps the values in backticks, or less, as the
//! key `once` of the rule in `versions/lint.toml` says. If the messages differ, the finding names the
//! values of all. The key `yields-to` names the rules that say the same better. A comment describes
//! the code: if a rule reports both, the comment is not a defect of its own.

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
            // Each error keeps its sentence.
            (_, None) if one.severity == Severity::Error => {
                format!("{}\n{}", one.message, one.help)
            }
            (_, None) => format!("{}\n{}", kind_of(&one.message), one.help),
        };
        subjects.entry((&one.rule.id, about)).or_default().push(one);
    }
    let merged = subjects.into_values().filter_map(|same| {
        let others: BTreeSet<usize> = same.iter().map(|one| one.line).collect();
        let messages: BTreeSet<(usize, String)> =
            same.iter().map(|one| (one.line, one.message.clone())).collect();
        // The worst place comes first.
        let mut first = same.into_iter().min_by_key(|one| (one.severity, one.line))?;
        first.message = with_others(&first.message, &messages);
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

/// How many values of other messages a message names.
const OTHERS: usize = 4;

/// Adds the values in other messages, which have their lines, to a message.
///
/// A message with other words says something else of its values.
fn with_others(message: &str, messages: &BTreeSet<(usize, String)>) -> String {
    let mut others: Vec<&str> = Vec::new();
    let own = kind_of(message);
    let alike = messages.iter().filter(|(_, other)| kind_of(other) == own);
    for value in alike.flat_map(|(_, other)| other.split('`').skip(1).step_by(2)) {
        if !message.contains(&format!("`{value}`")) && !others.contains(&value) {
            others.push(value);
        }
    }
    let named: Vec<String> = others.iter().take(OTHERS).map(|value| format!("`{value}`")).collect();
    match others.len().saturating_sub(OTHERS) {
        _ if named.is_empty() => message.to_owned(),
        0 => format!("{message} (also {})", named.join(", ")),
        more => format!("{message} (also {} and {more} more)", named.join(", ")),
    }
}

/// Returns a message without the names and addresses in it.
fn kind_of(message: &str) -> String {
    let plain: String = message.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let words = plain.split(' ').filter(|word| !word.contains("://") && !word.contains('@'));
    words.collect::<Vec<_>>().join(" ")
}
