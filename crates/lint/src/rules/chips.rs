//! A rule for names of GPUs with a wrong target.

use ::names::GpuTarget;

use crate::data::data;
use crate::{Facts, Findings};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let overrides = facts.text.to_ascii_lowercase().contains("hsa_override");
    for (line, text) in facts.lines() {
        let lower = text.to_ascii_lowercase();
        if let Some(message) = mixed_up(&lower).or_else(|| explained(&lower, overrides)) {
            found.add("silicon-mixup", line, message);
        }
    }
}

/// Words of lines about a GPU that is treated as another one.
const TREATED: [&str; 14] = [
    "override", "spoof", " as ", "treat", "emulat", "pretend", "instead", "not ", "n't", "compat",
    "fallback", "mimic", "like", "closest",
];

/// Returns the problem if a line in lower case has a GPU with the target of another one:
/// `Strix Halo (gfx1201)`.
fn mixed_up(lower: &str) -> Option<String> {
    if !lower.contains("gfx") {
        return None;
    }
    for row in &data().gpus {
        for word in &row.words {
            let Some((before, rest)) = lower.split_once(word.as_str()) else { continue };
            // `Strix Halo gfx1201`, `Strix Halo (gfx1201)`
            let Some(at) = rest.find("gfx") else { continue };
            let (between, after) = rest.split_at(at);
            let between = between.strip_suffix('(').unwrap_or(between);
            let is_name = between.len() <= NAME
                && between.ends_with(' ')
                && between.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ' || c == '+');
            let has_other = [" and ", " or ", " to ", " on "].iter().any(|w| between.contains(w));
            let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
            let Ok(target) = after[..end].parse::<GpuTarget>() else { continue };
            // Other targets may be right: the first steppings of MI300 had targets of their own.
            let is_known = data().gpus.iter().any(|one| one.target == target);
            // What the line says elsewhere is about something else.
            let start = before.get(before.len().saturating_sub(NEAR)..).unwrap_or(before);
            let rest_of = after.get(..end + NEAR).unwrap_or(after);
            let has = |one: &&str| start.contains(one) || rest_of.contains(one);
            let is_treated = TREATED.iter().any(has);
            if is_name && !is_treated && !has_other && is_known && target != row.target {
                return Some(format!("`{word}` is {}, not {target}", row.target));
            }
        }
    }
    None
}

/// Words that can stand between a target and the name of its GPU.
const BRANDS: [&str; 5] = ["amd", "radeon", "rx", "gpu", "the"];

/// Returns the problem if a line in lower case explains a target with the name of another GPU:
/// `gfx1200 = RX 9070`, `gfx1200 (Radeon RX 9070 XT)`. `overrides` tells whether the file sets a target
/// for other GPUs of its family.
fn explained(lower: &str, overrides: bool) -> Option<String> {
    if !lower.contains("gfx") || TREATED.iter().any(|word| lower.contains(word)) {
        return None;
    }
    for row in &data().gpus {
        for word in &row.words {
            let Some((before, rest)) = lower.split_once(word.as_str()) else { continue };
            // The RX 6800M is another GPU than the RX 6800.
            if rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                continue;
            }
            let Some(at) = before.rfind("gfx") else { continue };
            let after = &before[at..];
            let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
            let (target, between) = after.split_at(end);
            let Ok(target) = target.parse::<GpuTarget>() else { continue };
            let is_sign = between.trim_start().starts_with(['=', '(', ':']);
            let mut words =
                between.split(|c: char| " =(:".contains(c)).filter(|one| !one.is_empty());
            let is_name = is_sign && words.all(|one| BRANDS.contains(&one));
            // A list of targets before the sign, or an assignment, says nothing about the name.
            let is_list = before[..at].ends_with(['/', ',', ';', '=', '"']);
            let is_known = data().gpus.iter().any(|one| one.target == target);
            let is_override =
                overrides && family(&target).is_some() && family(&target) == family(&row.target);
            // The names of a list: `gfx942 + gfx90a (MI300X, MI250)`.
            let is_named = lower.contains(&row.target.to_string());
            let is_other = target != row.target && !is_named;
            if is_name && is_known && !is_list && !is_override && is_other {
                return Some(format!("`{word}` is {}, not {target}", row.target));
            }
        }
    }
    None
}

/// Returns the family in which one GPU can be treated as another: all but the last digit of the
/// target of an RDNA GPU.
fn family(target: &GpuTarget) -> Option<String> {
    let name = target.to_string();
    let end = name.len().checked_sub(1).filter(|end| *end == "gfx".len() + 3)?;
    Some(name[..end].to_owned())
}

/// The number of bytes around a name in which a line can say that it is treated as another GPU.
const NEAR: usize = 30;

/// The length of the longest rest of a name: ` xtx`, `+ 395`.
const NAME: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_explained_with_its_own_name() {
        for (text, expected) in [
            ("#   gfx1200 = rx 9070/xt      (rdna4)", Some("`rx 9070` is gfx1201, not gfx1200")),
            ("# gfx1201 (radeon rx 9060 xt)", Some("`rx 9060` is gfx1200, not gfx1201")),
            ("#   gfx1100 = rx 7900 xtx     (rdna3)", None),
            ("# gfx1031: rx 6800m", None),
            ("# gfx1030 = rx 6800, rx 6700 xt with an override", None),
            ("-e arch=gfx1030,gfx1031 (rx 6800)", None),
            ("gfx1030: also for the rx 6700 xt", None),
            ("# covers gfx942 + gfx90a (mi300a/x/mi250/210)", None),
        ] {
            assert_eq!(explained(text, false).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn names_belong_to_their_targets() {
        for (text, expected) in [
            ("# strix halo (gfx1201)", Some("`strix halo` is gfx1151, not gfx1201")),
            ("# amd (rocm 6.2+, strix halo gfx1201)", Some("`strix halo` is gfx1151, not gfx1201")),
            (
                "# override for amd gpus (rocm 6.2+, strix halo gfx1201 / rdna 4)",
                Some("`strix halo` is gfx1151, not gfx1201"),
            ),
            ("override: rx 6700 xt gfx1030", None),
            ("rx 6700 xt to gfx1030", None),
            ("rx 7900 xtx (gfx1101)", Some("`7900 xt` is gfx1100, not gfx1101")),
            ("ryzen ai max+ 395 (gfx1151)", None),
            ("rx 7900 xtx (gfx1100)", None),
            ("rx 6700 xt (gfx1030 as an override)", None),
            ("rx 7900 xt, rx 7800 xt (gfx1101)", None),
            ("mi300a (gfx940)", None),
            ("rx 6700 xt (set it to gfx1030)", None),
        ] {
            assert_eq!(mixed_up(text).as_deref(), expected, "{text}");
        }
    }
}
