//! Rules for variables that select GPUs, and for defaults that replace empty values.

use crate::shell::{Setting, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    masked(facts, found);
    empty_values(facts, found);
}

/// The greatest distance, in lines, between two settings that belong together.
const NEAR: usize = 10;

/// Checks `HIP_VISIBLE_DEVICES`, whose numbers refer to the GPUs that remain after
/// `ROCR_VISIBLE_DEVICES`.
fn masked(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let of = |name: &'static str| facts.settings.iter().filter(move |one| one.name == name);
    for setting in of("HIP_VISIBLE_DEVICES") {
        let Setting { name, value, line, scope, stage, program } = setting;
        let first = value.split(',').next().and_then(|first| first.trim().parse::<usize>().ok());
        let is_beside = |one: &&Setting| {
            one.line.abs_diff(*line) <= NEAR
                && (one.scope, one.stage, &one.program) == (*scope, *stage, program)
                && !one.value.contains(UNKNOWN)
        };
        let outer = of("ROCR_VISIBLE_DEVICES").find(is_beside).map(|one| one.value.trim());
        let (Some(first), Some(outer)) = (first, outer.filter(|one| !one.is_empty())) else {
            continue;
        };
        if first >= outer.split(',').count() {
            let message = format!(
                "`{name}={value}` selects from `ROCR_VISIBLE_DEVICES={outer}`, which contains no such GPU"
            );
            let hit = Hit::new("visible-devices-form", *line, message).at_most(Severity::Warning);
            found.hit(hit.help("set only `ROCR_VISIBLE_DEVICES`"));
        } else if value.trim() == outer && !is_all(outer, facts.line(*line)) {
            let message = format!("`{name}={value}` selects from `ROCR_VISIBLE_DEVICES={outer}`");
            found.add("visible-devices-twice", *line, message);
        }
    }
}

/// Returns whether a list of GPUs is fixed and selects the first ones in their order, so that the
/// second selection keeps all that the first leaves.
fn is_all(list: &str, line: &str) -> bool {
    let is_own = |(at, one): (usize, &str)| one.trim().parse() == Ok(at);
    list.split(',').enumerate().all(is_own) && !line.contains('$')
}

/// The number of comment lines above a line that are read.
const ABOVE: usize = 3;

/// Words for an empty value.
const EMPTY: [&str; 4] = ["\"\"", "''", "empty", "blank"];

/// Words for something that is switched off.
const OFF: [&str; 5] = ["disable", "turn off", "turns off", "switch off", "switches off"];

/// Checks `${NAME:-value}` below a comment that says that an empty value switches something off.
fn empty_values(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Compose | Kind::Shell) || !facts.code.contains(":-") {
        return;
    }
    let lines: Vec<(usize, &str)> = facts.lines().collect();
    for (at, (line, text)) in lines.iter().enumerate() {
        let Some(name) = with_default(text).filter(|_| !facts.kind.is_comment(text)) else {
            continue;
        };
        let above = lines[..at].iter().rev().take(ABOVE);
        let above = above.take_while(|(_, one)| facts.kind.is_comment(one)).map(|(_, one)| *one);
        let own = text.split_once(" #").map(|(_, comment)| comment);
        if own.into_iter().chain(above).any(|comment| says_empty(comment, name)) {
            let message = format!(
                "`:-` replaces an empty `{name}`, although the comment says that it switches something off"
            );
            let hit = Hit::new("default-replaces-empty", *line, message);
            found.hit(hit.help(format!("write `${{{name}-…}}`, which keeps an empty value")));
        }
    }
}

/// Returns the name in `${NAME:-value}`, if the value is plain text.
fn with_default(text: &str) -> Option<&str> {
    let (before, after) = text.split_once(":-")?;
    let (_, name) = before.rsplit_once("${")?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let has_value = after.starts_with(|c: char| c.is_ascii_alphanumeric() || "/.".contains(c));
    (is_name && !name.is_empty() && has_value).then_some(name)
}

/// Returns whether a comment says that an empty value of a variable switches something off.
fn says_empty(comment: &str, name: &str) -> bool {
    let lower = comment.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let names_other = comment
        .split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        .any(|word| word.contains('_') && word.len() > 4 && word != name);
    let is_denied = [" not ", "n't", "never", "unless", "instead"];
    has(&EMPTY) && has(&OFF) && !has(&is_denied) && !names_other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_says_that_an_empty_value_switches_something_off() {
        for (comment, expected) in [
            ("# the override; set to \"\" in .env to disable", true),
            ("# leave empty to turn off", true),
            ("# leave empty for the default", false),
            ("# set to 0 to disable", false),
            ("# leave OTHER_NAME empty to disable", false),
            ("# an empty value does not disable it", false),
        ] {
            assert_eq!(says_empty(comment, "A_B"), expected, "{comment}");
        }
        assert_eq!(with_default("  A: ${A_B:-11.0.0}"), Some("A_B"));
        for text in ["A: ${A:-}", "A: ${A:-$B}", "a:-b", "A: ${A-1}"] {
            assert_eq!(with_default(text), None, "{text}");
        }
    }
}
