//! Rules for variables and build options that no release of a program reads.

use std::collections::BTreeSet;

use super::variables::{is_in, is_own};
use crate::data::{Place, ReaderRow, data, matches_any};
use crate::shell::{Scope, Setting};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    nvidia(facts, found);
    libraries(facts, found);
    misplaced(facts, context, found);
    let lower = facts.code.to_ascii_lowercase();
    for row in &data().readers {
        let is_file = row.needs.is_empty() || has_only(&lower, &row.needs);
        let is_file = is_file && !row.unless.iter().any(|text| lower.contains(text));
        if !is_file {
            continue;
        }
        if row.is_options {
            options(facts, row, found);
        } else {
            variables(facts, row, context, found);
        }
    }
}

/// The host of most repositories.
const HOST: &str = "github.com/";

/// Returns whether a text in lower case contains one of these repositories (`OWNER/NAME`), and no
/// other repository with a similar name, which may be a fork with names of its own.
fn has_only(lower: &str, repositories: &[String]) -> bool {
    repositories.iter().any(|one| lower.contains(one.as_str())) && !names_fork(lower, repositories)
}

/// Returns whether a text in lower case contains a repository with a name like those of these
/// repositories (`OWNER/NAME`), but of another owner.
pub(super) fn names_fork(lower: &str, repositories: &[String]) -> bool {
    let names = || repositories.iter().filter_map(|one| one.split_once('/'));
    let words = || names().filter_map(|(_, name)| name.split(['.', '-', '_']).next());
    let mut others = lower.match_indices(HOST).map(|(at, _)| &lower[at + HOST.len()..]);
    let is_other = |rest: &str| {
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | ';'));
        let path = &rest[..end.unwrap_or(rest.len())];
        let is_own = repositories.iter().any(|one| {
            path.strip_prefix(one.as_str()).is_some_and(|after| {
                after.is_empty() || after.starts_with(['/', '#', '@']) || after.starts_with(".git")
            })
        });
        !is_own && words().any(|word| path.contains(word)) && !path.contains("llama-swap")
    };
    others.any(is_other)
}

/// Checks for options of a build that are set as variables.
fn misplaced(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    // make reads variables; CMake does not.
    let has_make = facts.commands.iter().any(|command| command.words[0].text == "make");
    let places = found.places();
    let is_read = |name: &String| {
        data().readers.iter().any(|row| !row.is_options && row.names.contains(name))
            || data().known.iter().any(|row| row.names.contains(name))
    };
    for setting in facts.settings.iter().filter(|_| !has_make) {
        let Setting { name, line, scope, .. } = setting;
        let row = data().readers.iter().find(|row| {
            row.is_options
                && row.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
                && row.names.contains(name)
        });
        let Some(row) = row.filter(|_| is_in(*scope, Place::Kept)) else { continue };
        let is_said = is_said(&places, *line);
        if !is_said && !is_read(name) && !is_used(facts, setting, context) {
            let message = format!(
                "`{name}` is an option of {}'s build (`-D{name}=…`), and not a variable",
                row.program
            );
            found.add("variable-without-effect", *line, message);
        }
    }
}

/// Variables that only NVIDIA's container toolkit reads.
const NVIDIA: [&str; 4] = [
    "NVIDIA_DISABLE_REQUIRE",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_VISIBLE_DEVICES",
];

/// Checks for variables of NVIDIA's container toolkit in images that are based on ROCm.
fn nvidia(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let has_cuda = facts.images.iter().any(|image| image.reference.contains("cuda"));
    let is_one = |one: &&Setting| {
        let base = one.program.as_deref().unwrap_or_default();
        one.scope == Scope::Image && NVIDIA.contains(&one.name.as_str()) && base.contains("rocm")
    };
    let first = facts.settings.iter().find(is_one).filter(|_| !has_cuda);
    if let Some(Setting { name, line, .. }) = first {
        let message = format!("`{name}` is set in an image that is based on ROCm");
        found.hit(Hit::new("nvidia-leftover", *line, message).at_most(Severity::Information));
    }
}

/// Checks for a search path with the folders of NVIDIA's packages in an image that is based on ROCm.
fn libraries(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_one = |one: &&Setting| {
        one.scope == Scope::Image
            && one.name == "LD_LIBRARY_PATH"
            && ["/nvidia/", "/cuda"].iter().any(|part| one.value.contains(part))
    };
    let Some(setting) = facts.settings.iter().find(is_one) else { return };
    let base = setting.program.as_deref().unwrap_or_default();
    if base.starts_with("rocm/") || base.contains("/rocm/") {
        let message = "`LD_LIBRARY_PATH` names folders of NVIDIA in an image that is based on ROCm";
        found.add("nvidia-leftover", setting.line, message);
    }
}

/// Returns whether a name looks like one of the program's, but is not.
fn is_unknown(row: &ReaderRow, name: &str) -> bool {
    row.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
        && !row.names.iter().any(|known| known == name)
        && !matches_any(&row.except, name)
}

/// Returns the only name that a wrong name can stand for.
fn near<'r>(row: &'r ReaderRow, name: &str) -> Option<&'r str> {
    let names = || row.names.iter().map(String::as_str);
    if let Some(near) = names().find(|known| ::pins::reader::is_near(name, known)) {
        return Some(near);
    }
    let longer = format!("{name}_");
    let mut longer = names().filter(|known| known.starts_with(&longer));
    longer.next().filter(|_| longer.next().is_none())
}

/// Checks the variables that programs see.
fn variables(facts: &Facts<'_>, row: &ReaderRow, context: Context<'_>, found: &mut Findings<'_>) {
    let places = found.places();
    for setting in &facts.settings {
        let Setting { name, line, scope, .. } = setting;
        let is_wanted = is_in(*scope, Place::Set) && is_unknown(row, name);
        let is_listed = || {
            data().known.iter().any(|known| known.names.contains(name))
                || data().variables.iter().any(|one| one.names.contains(name))
        };
        if !is_wanted || is_listed() || is_used(facts, setting, context) {
            continue;
        }
        // Another rule can say more precisely what is wrong.
        if is_said(&places, *line) {
            continue;
        }
        let message = format!("{} does not read `{name}`", row.program);
        let hit = Hit::new("variable-unknown", *line, message).evidence(row.evidence.as_ref());
        found.hit(match near(row, name) {
            Some(near) => hit.help(format!("did you mean `{near}`? Otherwise remove it")),
            None => hit.help("remove it, unless a program of your own reads it"),
        });
    }
}

/// Returns whether a finding about a line already says that a variable or option has no effect.
fn is_said(places: &BTreeSet<(usize, &'static str)>, line: usize) -> bool {
    places
        .range((line, "")..(line + 1, ""))
        .any(|(_, rule)| *rule == "build-option-gone" || rule.starts_with("variable-"))
}

/// Returns whether the author's files use a variable themselves.
fn is_used(facts: &Facts<'_>, setting: &Setting, context: Context<'_>) -> bool {
    let forms = [format!("${}", setting.name), format!("${{{}", setting.name)];
    // `export A=${A:-0}` uses only the caller's value.
    let is_other = |(line, text): (usize, &str)| {
        line != setting.line
            && !facts.kind.is_comment(text)
            && !text.contains(&format!("{}=", setting.name))
            && forms.iter().any(|form| text.contains(form.as_str()))
    };
    facts.lines().any(is_other) || is_own(facts, setting, "variable-unknown", context)
}

/// Checks the options for CMake.
fn options(facts: &Facts<'_>, row: &ReaderRow, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        return;
    }
    let places = found.places();
    let mut unknown: Vec<(usize, &str)> = Vec::new();
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        let names = text.match_indices("-D").filter_map(|(at, _)| option(&text[at + 2..]));
        for name in names.filter(|name| is_unknown(row, name)) {
            if is_said(&places, line) {
                break;
            }
            if unknown.iter().all(|(_, known)| *known != name) {
                unknown.push((line, name));
            }
        }
    }
    let Some((line, first)) = unknown.first().copied() else { return };
    let shown: Vec<String> =
        unknown.iter().take(SHOWN).map(|(_, name)| format!("`{name}`")).collect();
    let more = match unknown.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let until = row.until.as_ref().map(|until| format!(", as of {until}")).unwrap_or_default();
    let shown = shown.join(", ");
    let message = format!("{} has no option {shown}{more}{until}", row.program);
    let hit = Hit::new("build-option-unknown", line, message).evidence(row.evidence.as_ref());
    found.hit(match near(row, first).filter(|_| unknown.len() == 1) {
        Some(near) => hit.help(format!("did you mean `{near}`? Otherwise remove it")),
        None => hit,
    });
}

/// The number of options in a message.
const SHOWN: usize = 4;

/// Returns the name in `NAME=VALUE` or `NAME:TYPE=VALUE`.
fn option(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    text[end..].starts_with(['=', ':']).then_some(&text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_can_have_its_own_names() {
        let own = ["ggml-org/llama.cpp".to_owned()];
        for (text, expected) in [
            ("git clone https://github.com/ggml-org/llama.cpp", true),
            ("git clone https://github.com/ggml-org/llama.cpp.git x", true),
            ("from ghcr.io/ggml-org/llama.cpp:server-rocm", true),
            ("git clone https://github.com/a/llama.cpp", false),
            ("git clone https://github.com/ggml-org/llama.cpp https://github.com/a/x-llama", false),
            ("git clone https://github.com/ggml-org/llama.cpp https://github.com/a/rocm", true),
        ] {
            assert_eq!(has_only(text, &own), expected, "{text}");
        }
    }

    #[test]
    fn a_name_stands_for_the_only_one_that_is_near() {
        let reader = |name: &str| data().readers.iter().find(|one| one.program == name).unwrap();
        for (program, name, is_wrong, expected) in [
            ("ROCm", "HSA_ENABLE_CONCURRENT_EXEC", true, None),
            ("ROCm", "HSA_ENABLE_SDMA", false, None),
            ("ROCm", "HSA_VEN_AMD_AQLPROFILE_LOG", false, None),
            ("ROCm", "HSA_ENABLE_INTERUPT", true, Some("HSA_ENABLE_INTERRUPT")),
            ("HIP", "HIP_FORCE_DEV_KERNARG", false, None),
        ] {
            let row = reader(program);
            assert_eq!(is_unknown(row, name), is_wrong, "{name}");
            if is_wrong {
                assert_eq!(near(row, name), expected, "{name}");
            }
        }
    }
}
