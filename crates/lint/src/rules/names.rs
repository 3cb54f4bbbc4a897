//! Rules for the names of GPUs and their targets.

use crate::data::data;
use crate::target::targets;
use crate::{Facts, Findings, Kind};

/// Words that can occur between a target and the name of its GPU.
const BETWEEN: [&str; 9] = ["amd", "radeon", "rx", "pro", "is", "the", "gpu", "aka", "ryzen"];

/// Checks comments and texts that give a GPU the target of another one.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for (line, text) in facts.lines() {
        let is_text = facts.kind == Kind::Text || facts.kind.is_comment(text);
        if is_text && text.len() < LONGEST && text.contains("gfx") {
            let lower = text.to_ascii_lowercase();
            if let Some(message) = mixed_up(&lower) {
                found.add("silicon-mixup", line, message);
            }
        }
    }
}

/// Lines of this many bytes or more are not checked.
const LONGEST: usize = 500;

/// Words of lines about a GPU that imitates another one.
const IMITATES: [&str; 12] = [
    "override", "hsa", "spoof", "pretend", "treat", "compat", "instead", "fallback", "imitat",
    "not ", "n't", "lie",
];

/// Returns the message if a line in lower case names one target, and next to it a GPU that has
/// another target.
fn mixed_up(lower: &str) -> Option<String> {
    let targets = targets(lower);
    let target = targets.first().filter(|_| targets.len() == 1)?;
    if IMITATES.iter().any(|word| lower.contains(word)) && !is_imitated(lower, target.as_str()) {
        return None;
    }
    let names = data().gpus.iter().flat_map(|row| row.words.iter().map(move |word| (row, word)));
    let named: Vec<_> = names.filter(|(_, word)| lower.contains(word.as_str())).collect();
    if named.iter().any(|(row, _)| row.target == *target) {
        return None;
    }
    let (row, word) = named.iter().find(|(_, word)| is_next(lower, target.as_str(), word))?;
    let is_only = named.iter().all(|(other, _)| other.target == row.target);
    is_only.then(|| format!("`{word}` is {}, not {target}", row.target))
}

/// Returns whether an arrow after a target leads to what it imitates, so that the target itself is
/// that of the GPU: `(gfx1031 → 10.3.0)`.
fn is_imitated(lower: &str, target: &str) -> bool {
    let rest = lower.split_once(target).map_or("", |(_, rest)| rest);
    let rest = rest.trim_start_matches([' ', ')', '`', '"']);
    let arrow = ["→", "->", "=>"].iter().find_map(|arrow| rest.strip_prefix(arrow));
    let value = arrow.unwrap_or_default().trim_start_matches([' ', '`', '"', '(']);
    // An arrow can also lead from the override to the GPU.
    value.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns whether only words in `BETWEEN` and punctuation separate a target from a GPU's name.
fn is_next(lower: &str, target: &str, word: &str) -> bool {
    let (Some(one), Some(other)) = (lower.find(target), lower.find(word)) else { return false };
    let (from, to) =
        if one < other { (one + target.len(), other) } else { (other + word.len(), one) };
    let between = lower.get(from..to).unwrap_or("…");
    let is_value = lower[..one].ends_with(['=', '"', ';']);
    // An assignment can be intended.
    !is_value
        && !between.contains(['=', '>', '/', '|', ','])
        && between
            .split(|c: char| !c.is_ascii_alphanumeric())
            .all(|part| part.is_empty() || BETWEEN.contains(&part) || part == "xtx" || part == "x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_belongs_to_the_name_next_to_it() {
        for (line, is_wrong) in [
            ("# gfx1100: radeon rx 7900 xtx", false),
            ("# gfx1100: rx 7800 xt", true),
            ("# rx 6700 xt (gfx1030)", true),
            ("# rx 6700 xt (gfx1031)", false),
            ("# rx 6700 xt: the override to gfx1030", false),
            ("# gfx1100 - 7900 xtx, 7800 xt", false),
            ("# gpu_targets=gfx1030 # rx 6700 xt", false),
            ("# gfx906 for the mi50, gfx1100", false),
            ("# override (e.g. rx 6700 xt gfx1030 → 10.3.0)", true),
            ("# override: rx 6700 xt -> gfx1030", false),
            ("# override for the rx 6700 xt (gfx1030)", false),
        ] {
            assert_eq!(mixed_up(line).is_some(), is_wrong, "{line}");
        }
    }
}
