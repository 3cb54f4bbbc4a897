//! Who reads a variable: if nothing does, what its value says has no effect.

use std::collections::BTreeSet;

use super::words;
use crate::shell::{Scope, Setting};
use crate::{Facts, Kind};

/// Returns the lines that set variables which nothing reads.
pub(super) fn lines<'f>(facts: &'f Facts<'_>) -> &'f BTreeSet<usize> {
    facts.unread.get_or_init(|| find(facts))
}

/// Returns whether nothing reads a variable.
pub(super) fn is_unread(facts: &Facts<'_>, setting: &Setting) -> bool {
    lines(facts).contains(&setting.line)
}

fn find(facts: &Facts<'_>) -> BTreeSet<usize> {
    let is_possible = match facts.kind {
        Kind::Compose | Kind::Manifest | Kind::Quadlet | Kind::Unit => true,
        // Other files may read the variables of a file that only sets some.
        Kind::Dockerfile | Kind::Shell => !facts.commands.is_empty() && !shares(facts),
        _ => false,
    };
    if !is_possible || facts.settings.is_empty() {
        return BTreeSet::new();
    }
    let used = used(&facts.code);
    let is_release = |one: &Setting| one.name.ends_with("ROCM_VERSION");
    // A release that a script only prints or compares chooses nothing.
    let acting = if facts.settings.iter().any(is_release) { acting(facts) } else { String::new() };
    let chosen = self::used(&acting);
    let is_dead = |one: &&Setting| {
        let read = if is_release(one) { &chosen } else { &used };
        is_for_nobody(facts, one) && !read.contains(one.name.as_str())
    };
    facts.settings.iter().filter(is_dead).map(|one| one.line).collect()
}

/// Returns the code without the lines that only print or compare.
fn acting(facts: &Facts<'_>) -> String {
    let messages = words::message_lines(facts);
    let lines = facts.lines().filter(|(line, text)| {
        let is_message = facts.kind == Kind::Shell && messages.contains(line);
        !is_message && !facts.kind.is_comment(text)
    });
    lines.map(|(_, text)| text).collect::<Vec<_>>().join("\n")
}

/// Returns whether only the file itself can read a variable. A program in a container does not ask
/// the environment for the release of ROCm that it was built for.
fn is_for_nobody(facts: &Facts<'_>, setting: &Setting) -> bool {
    match (facts.kind, setting.scope) {
        (Kind::Shell, Scope::Shell) => true,
        (Kind::Dockerfile, Scope::Image | Scope::Argument) | (_, Scope::Run) => {
            let name = &setting.name;
            name.ends_with("ROCM_VERSION") || name.ends_with("ROCM_RELEASE")
        }
        _ => false,
    }
}

/// Returns whether a file shares its variables with others: it loads them or, in the case of a
/// Dockerfile, runs programs that see the variables of the image.
fn shares(facts: &Facts<'_>) -> bool {
    let is_loader = |name: &str| matches!(name, "." | "source" | "eval" | "envsubst");
    let is_reader = |name: &str| {
        [".sh", ".py"].iter().any(|end| name.ends_with(end))
            || matches!(name, "cmake" | "env" | "make" | "printenv")
    };
    let is_image = facts.kind == Kind::Dockerfile;
    facts.code.contains("set -a")
        || facts.commands.iter().any(|command| {
            let mut words = command.words.iter().take(3).map(|word| word.text.as_str());
            is_loader(&command.words[0].text) || is_image && words.any(is_reader)
        })
}

/// Returns the names in code that are not only set: `$NAME`, `${NAME…}`, `export NAME`.
fn used(code: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    let mut rest = code;
    while let Some(start) = rest.find(is_part) {
        let own = &rest[start..];
        let end = own.find(|c: char| !is_part(c)).unwrap_or(own.len());
        let after = &own[end..];
        // `${NAME:=value}` also uses the variable; `NAME: value` is an entry of a map.
        let is_inside = rest[..start].ends_with(['$', '{']);
        if is_inside || !after.starts_with(['=', ':']) {
            names.insert(&own[..end]);
        }
        rest = after;
    }
    names
}

/// Parts of the names of servers of Hugging Face that read the old names of its library themselves.
const OLD_NAMES: [&str; 4] =
    ["text-embeddings-", "text-generation-inference", "text-generation-launcher", "tei-"];

/// Returns whether the old name of the cache of Hugging Face has the value that is the default.
pub(super) fn is_default_cache(facts: &Facts<'_>, setting: &Setting) -> bool {
    let Some(home) = setting.value.trim().trim_end_matches('/').strip_suffix("/hub") else {
        return false;
    };
    let is_home = |one: &&Setting| one.name == "HF_HOME" && one.stage == setting.stage;
    let mut homes = facts.settings.iter().filter(is_home).map(|one| one.value.trim()).peekable();
    setting.name == "HUGGINGFACE_HUB_CACHE"
        && match homes.peek() {
            None => home.ends_with("/.cache/huggingface"),
            Some(_) => homes.any(|one| one.trim_end_matches('/') == home),
        }
}

/// Returns whether the file is about a server that reads the old name of a variable.
pub(super) fn reads_old_names(facts: &Facts<'_>, setting: &Setting) -> bool {
    let is_hub = ["HUGGINGFACE_HUB_", "HUGGING_FACE_HUB_"]
        .iter()
        .any(|start| setting.name.starts_with(start));
    let lower = || format!("{}\n{}", facts.file, facts.text).to_ascii_lowercase();
    is_hub && OLD_NAMES.iter().any(|name| lower().contains(name))
}
