//! Rules for variables that do not exist, have no effect, or are harmful.

use std::collections::{BTreeMap, BTreeSet};

use ::pins::Releases;

use super::overrides::is_override;
use super::{folder, for_gpu, images, ollama, overrides, packages, rocm, stages, targets, unread};
use crate::containers;
use crate::data::{Place, VariableRow, data, matches_any};
use crate::shell::{Missing, Scope, Setting, UNKNOWN, Word};
use crate::target::Match;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    each(facts, context, found);
    duplicates(facts, found);
    undefined(facts, context, found);
}

/// Checks each variable on its own.
pub(super) fn each(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    for setting in &facts.settings {
        overrides::check(facts, setting, context, found);
        known(facts, setting, context, found);
        targets::built(facts, setting, found);
        misspelt(facts, setting, context, found);
        ollama::check(facts, setting, context, found);
        pinned(facts, setting, context, found);
    }
}

/// Returns whether a row about `place` applies to a setting with this scope.
pub(super) fn is_in(scope: Scope, place: Place) -> bool {
    match place {
        Place::Any => true,
        Place::Set => !matches!(scope, Scope::Argument | Scope::Shell),
        Place::Kept => {
            matches!(scope, Scope::Image | Scope::Run | Scope::File | Scope::Exported)
        }
        Place::Run => matches!(scope, Scope::Run),
        Place::Image => matches!(scope, Scope::Image),
        Place::File => matches!(scope, Scope::File),
        Place::Start => matches!(scope, Scope::Exported),
    }
}

/// Checks the rows about variables.
fn known(facts: &Facts<'_>, setting: &Setting, context: Context<'_>, found: &mut Findings<'_>) {
    let Setting { name, value, line, scope, .. } = setting;
    let value = value.trim();
    for row in &data().variables {
        if !matches_any(&row.names, name) || !is_in(*scope, row.place) || !has_value(row, value) {
            continue;
        }
        let is_set = |other: &String| facts.settings.iter().any(|one| one.name == *other);
        let is_fine = matches_any(&row.except, value)
            || row.place == Place::Start && !only_starts(facts)
            || !row.beside.is_empty() && !row.beside.iter().any(is_set)
            || facts.target().names(&row.except_gpus)
            || is_own(facts, setting, &row.row.rule, context);
        let names = |rows: &[Releases]| {
            rocm::named_releases(facts).any(|release| rows.iter().any(|one| one.contains(&release)))
        };
        let is_other_rocm = !row.except_rocm.is_empty() && names(&row.except_rocm)
            || !row.rocm.is_empty() && !names(&row.rocm);
        if is_fine
            || is_other_rocm
            || is_solved(facts, row)
            || is_other_release(facts, setting, row, context)
        {
            continue;
        }
        let message = row.row.message.replace("{name}", name).replace("{value}", value);
        let sure = match facts.target().matches(&row.row.gpus, context) {
            // An override imitates a GPU of the same family.
            Match::Unknown if facts.target().names(&row.row.gpus) => Match::Possible,
            sure => sure,
        };
        // If no GPU is known, a row about one GPU does not apply.
        let is_sure = sure != Match::Unknown;
        let is_done = has_new_name(facts, setting, &row.row.rule, &message);
        let hit = Hit::new(&row.row.rule, *line, message).of(&row.row);
        if let Some(hit) = for_gpu(hit, sure).filter(|_| is_sure) {
            found.hit(if is_done { hit.help("remove it: the new name is set too") } else { hit });
        }
    }
}

/// Returns whether the new name, which the message about an old one contains, is set at the same
/// place.
fn has_new_name(facts: &Facts<'_>, setting: &Setting, rule: &str, message: &str) -> bool {
    let mut names = message.split('`').skip(1).step_by(2).filter(|name| *name != setting.name);
    let is_beside = |name: &str| {
        let mut owners = facts.containers.iter().filter(|container| {
            container.options.iter().any(|own| {
                own.line == setting.line && own.text.starts_with(&format!("--env={}", setting.name))
            })
        });
        let start = format!("--env={name}");
        match owners.next() {
            Some(owner) => owner.options.iter().any(|own| {
                own.text
                    .strip_prefix(&start)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            }),
            None => facts.settings.iter().any(|one| {
                one.name == name && one.stage == setting.stage && one.scope == setting.scope
            }),
        }
    };
    rule == "variable-renamed" && names.any(is_beside)
}

/// Programs that use a GPU, but compile nothing.
const SERVERS: [&str; 5] = ["llama-server", "llama-cli", "llama-bench", "ollama", "vllm"];

/// Programs that compile code, or install packages that do.
const COMPILERS: [&str; 14] = [
    "cargo", "cmake", "conda", "docker", "g++", "git", "hipcc", "make", "meson", "ninja", "pip",
    "pip3", "podman", "uv",
];

/// Returns whether a script starts such a program, and neither compiles nor installs anything, nor
/// runs another script, which might.
fn only_starts(facts: &Facts<'_>) -> bool {
    let runs = |names: &[&str]| {
        facts.commands.iter().any(|command| {
            let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
            names.contains(&program)
        })
    };
    let is_python = facts.commands.iter().any(|one| one.words[0].text.contains("python"));
    let is_script = |text: &str| text.ends_with(".sh");
    let has_script =
        facts.commands.iter().any(|one| one.words.iter().take(2).any(|word| is_script(&word.text)));
    facts.kind == Kind::Shell && runs(&SERVERS) && !runs(&COMPILERS) && !is_python && !has_script
}

/// Checks for names that differ from a known name by one or two characters.
fn misspelt(facts: &Facts<'_>, setting: &Setting, context: Context<'_>, found: &mut Findings<'_>) {
    let Setting { name, line, scope, .. } = setting;
    let names = || data().known.iter().flat_map(|row| row.names.iter().map(String::as_str));
    let is_wanted = name.len() >= SHORTEST && is_in(*scope, Place::Set) && !is_override(name);
    let is_listed = || {
        names().any(|known| known == name)
            || data().variables.iter().any(|row| row.names.contains(name))
    };
    if !is_wanted || is_listed() {
        return;
    }
    let short = name.replace("_ATTENTION", "_ATTN");
    let is_near = |known: &&str| {
        ::pins::reader::is_near(name, known) && !is_of_other(name, known)
            || is_of_program(&short, known)
    };
    let Some(near) = names().find(is_near) else { return };
    // A script can have variables of its own.
    let is_used = facts.code.contains(&format!("${name}"));
    if !is_used && !is_own(facts, setting, "variable-unknown", context) {
        let message = format!("no program reads `{name}`; the variable is `{near}`");
        found.add("variable-unknown", *line, message);
    }
}

/// Returns whether two names differ by at most two letters of the program's name in front.
fn is_of_program(name: &str, known: &str) -> bool {
    let (Some((one, rest)), Some((other, known))) = (name.split_once('_'), known.split_once('_'))
    else {
        return false;
    };
    let differ = one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count();
    let is_program = one.len() == other.len() && one.len() > 3 && differ <= 2;
    is_program && rest == known && rest.len() >= SHORTEST
}

/// Returns whether two names differ only in a short prefix, which names another program:
/// `API_LOG_LEVEL` and `AMD_LOG_LEVEL`. Letters in another order are a typing error.
fn is_of_other(name: &str, known: &str) -> bool {
    let (Some((one, rest)), Some((other, known))) = (name.split_once('_'), known.split_once('_'))
    else {
        return false;
    };
    let differ = one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count();
    let is_swapped = one.bytes().all(|byte| other.as_bytes().contains(&byte));
    rest == known && one.len() <= 3 && differ > 1 && !is_swapped
}

/// The length of the shortest name that is compared with known names.
const SHORTEST: usize = 12;

/// Words of comments that give the reason for a workaround.
const REASONS: [&str; 14] = [
    "artifact",
    "artefact",
    "avoid",
    "broken",
    "bug",
    "corrupt",
    "crash",
    "fault",
    "fix",
    "freeze",
    "hang",
    "prevent",
    "unified memory",
    "workaround",
];

/// Returns whether the author's files show that a setting is intended. The evidence depends on the
/// rule: for example, another line or a compose file uses the variable, or a comment on its line
/// gives a reason.
pub(super) fn is_own(facts: &Facts<'_>, own: &Setting, rule: &str, context: Context<'_>) -> bool {
    let Setting { name, line, scope, .. } = own;
    let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let opened = format!("${{{name}");
    let uses = |text: &str| text.split(&opened).skip(1).any(|rest| !rest.starts_with(goes_on));
    let is_used = |(number, text): (usize, &str)| {
        number != *line && uses(text) && !facts.kind.is_comment(text)
    };
    let is_on_another = || uses(facts.text) && facts.lines().any(is_used);
    let is_in_compose = || {
        let files = context.exists.filter(|_| *scope == Scope::File);
        let files = files.map(|files| files.compose_files(facts.file)).unwrap_or_default();
        files.iter().any(|text| uses(text) && !passes(text, name))
    };
    match rule {
        "workaround-baked" => {
            // A unit is for one host. `${NAME:-0}` is a default, which users can change.
            facts.kind == Kind::Unit
                || has_reason(facts, own)
                || facts.kind == Kind::Compose && facts.line(*line).contains(&opened)
        }
        // `${NAME:-value}` is a default, which users can change.
        "password-in-file" => facts.line(*line).contains("${"),
        "variable-renamed" => {
            unread::reads_old_names(facts, own) || unread::is_default_cache(facts, own)
        }
        "variable-unknown" => is_on_another() || is_in_compose(),
        "variable-without-effect" => is_in_compose(),
        "variable-build-only" => is_for_session(facts, own) || is_on_another() || is_in_compose(),
        "ollama-open" => !ollama::is_for_host(facts, own, context),
        _ => false,
    }
}

/// Returns whether a comment gives the reason for a setting: on its line, or in the comment above.
fn has_reason(facts: &Facts<'_>, setting: &Setting) -> bool {
    let is_reason = |comment: &str| {
        let lower = comment.to_ascii_lowercase();
        REASONS.iter().any(|reason| lower.contains(reason)) || comment.contains(&setting.name)
    };
    // A commented-out setting is not a reason.
    let is_out = |text: &str| {
        let code = text.trim_start_matches(['#', '-', ' ']);
        let code = ["ENV ", "export ", "Environment="]
            .iter()
            .find_map(|one| code.strip_prefix(one))
            .unwrap_or(code);
        code.starts_with(&format!("{}=", setting.name)) && code.split_whitespace().count() == 1
    };
    facts.line(setting.line).split_once(" # ").is_some_and(|(_, comment)| is_reason(comment))
        || comment_above(facts, setting.line).any(|text| !is_out(text) && is_reason(text))
}

/// Returns the lines of the comment above a line, or above its instruction, from below.
pub(super) fn comment_above<'f>(
    facts: &'f Facts<'_>,
    line: usize,
) -> impl Iterator<Item = &'f str> {
    let own = stages::instruction_of(facts.instructions(), line).map_or(line, |own| own.line);
    let start =
        if facts.line(line.saturating_sub(1)).trim_start().starts_with('#') { line } else { own };
    let above = facts.before(start).iter().rev().copied();
    above.take_while(|text| text.trim_start().starts_with('#'))
}

/// Returns whether a variable is for an interactive container, in which a person may build
/// something.
fn is_for_session(facts: &Facts<'_>, setting: &Setting) -> bool {
    facts.containers.iter().any(|container| {
        let has = |text: &str| container.options.iter().any(|one| one.text.starts_with(text));
        let is_its = container.options.iter().any(|one| {
            one.line == setting.line && one.text.starts_with(&format!("--env={}=", setting.name))
        });
        is_its && has(containers::SESSION)
    })
}

/// Returns whether a compose file has a default for a variable that is empty: `${NAME:-11.0.0}`.
pub(super) fn has_default(facts: &Facts<'_>, name: &str, context: Context<'_>) -> bool {
    let files = context.exists.map(|files| files.compose_files(facts.file)).unwrap_or_default();
    files.iter().any(|text| text.contains(&format!("${{{name}:-")))
}

/// Returns whether a compose file gives a variable to a container.
fn passes(text: &str, name: &str) -> bool {
    let facts = Facts::read("compose.yml", text);
    facts.code.contains("env_file")
        || text.lines().any(|line| line.trim().strip_prefix("- ") == Some(name))
        || facts.settings.iter().any(|one| one.name == name)
}

/// Returns whether the file sets a variable that is in `unless` of a row.
fn is_solved(facts: &Facts<'_>, row: &VariableRow) -> bool {
    row.unless.iter().any(|unless| {
        if unless.ends_with(".txt") {
            return facts.code.contains(unless.as_str());
        }
        let (name, value) = unless.split_once('=').map_or((&**unless, None), |(n, v)| (n, Some(v)));
        let is_value = |setting: &Setting| value.is_none_or(|value| setting.value.trim() == value);
        facts.settings.iter().any(|one| one.name == name && is_value(one))
    })
}

/// Returns whether the row applies to none of the known releases of its package: those in the
/// setting's image, and those that the file installs. If the image is unknown, the images that the
/// file refers to are used. If no release is known, returns whether the row needs one.
fn is_other_release(
    facts: &Facts<'_>,
    setting: &Setting,
    row: &VariableRow,
    context: Context<'_>,
) -> bool {
    let Some(package) = &row.package else { return false };
    let own = setting.program.as_deref();
    let others =
        facts.images.iter().filter(|_| own.is_none()).map(|image| image.reference.as_str());
    let programs = own.into_iter().chain(others);
    let lists = folder::lists(facts, setting, context);
    let lists: Vec<Facts<'_>> =
        lists.iter().map(|text| Facts::read("requirements.txt", text)).collect();
    let listed = lists.iter().flat_map(|list| &list.packages);
    let installed = listed.clone().filter(|one| one.name == *package);
    let known: Vec<&str> = programs
        .filter_map(|program| images::release_of(program, package))
        .chain(facts.releases_of(package.strip_prefix("py").unwrap_or(package)))
        .chain(installed.filter_map(|one| one.version.as_deref()))
        .collect();
    let applies = |release: &&str| row.releases.iter().any(|one| one.contains(release));
    // `NAME==0` in `unless` is a package whose release starts with 0.
    let is_excepted =
        row.unless.iter().filter_map(|one| one.split_once("==")).any(|(name, start)| {
            facts.packages.iter().chain(listed.clone()).any(|one| {
                let version = one.version.as_deref().filter(|_| one.name == name);
                version.is_some_and(|version| version.split('.').next() == Some(start))
            })
        });
    let is_old = || {
        let built = built_release(facts, package).filter(|_| known.is_empty());
        built.is_some_and(|release| !applies(&release))
    };
    is_excepted || (row.is_known || !known.is_empty()) && !known.iter().any(applies) || is_old()
}

/// Returns the release of a program that a file builds: of a clone, or of a file of the repository
/// that a comment names.
fn built_release<'f>(facts: &'f Facts<'_>, package: &str) -> Option<&'f str> {
    let release = |word: &'f str| {
        let plain = word.strip_prefix('v').unwrap_or(word);
        let is_release = plain.contains('.')
            && plain.starts_with(|c: char| c.is_ascii_digit())
            && plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_release.then_some(plain)
    };
    let clones = facts.commands.iter().filter(|one| {
        let is_own = |word: &Word| {
            word.text
                .rsplit('/')
                .next()
                .is_some_and(|name| name.trim_end_matches(".git") == package)
        };
        one.words[0].text == "git" && one.words.iter().any(is_own)
    });
    let cloned = clones.flat_map(|one| &one.words).find_map(|word| release(&word.text));
    let folder = format!("/{package}/");
    let paths = facts.text.match_indices(&folder).map(|(at, _)| &facts.text[at + folder.len()..]);
    let mut named = paths.filter_map(|rest| {
        let mut parts = rest.split_whitespace().next()?.split('/');
        parts.next().filter(|part| matches!(*part, "blob" | "raw" | "tree"))?;
        release(parts.next()?)
    });
    cloned.or_else(|| named.next())
}

/// Returns whether a row applies to a value.
fn has_value(row: &VariableRow, value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_on = !matches!(lower.as_str(), "0" | "false" | "off" | "no" | "");
    let is_plain = !row.values.iter().any(|wanted| wanted.contains('*'));
    if value.contains(UNKNOWN) && is_plain {
        return row.values.is_empty();
    }
    row.values.is_empty()
        || row.values.iter().any(|wanted| wanted == "on" && is_on)
        || matches_any(&row.values, &lower)
}

/// Returns whether a service of a compose file gets a variable as `NAME=${NAME}`.
pub(crate) fn passes_itself(facts: &Facts<'_>, setting: &Setting) -> bool {
    source_of(facts, setting).is_some_and(|source| source == setting.name)
}

/// Returns the variable from which a compose service takes a value: `X` in `NAME=${X}`.
pub(super) fn source_of(facts: &Facts<'_>, setting: &Setting) -> Option<String> {
    let is_unknown = setting.value.trim().chars().all(|c| c == UNKNOWN);
    if facts.kind != Kind::Compose || !is_unknown {
        return None;
    }
    let (before, after) = facts.line(setting.line).split_once('$')?;
    let inside = after.strip_prefix('{').unwrap_or(after);
    let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let (source, rest) = inside.split_at(end.unwrap_or(inside.len()));
    // `${NAME:?text}` stops if nothing sets the variable.
    let is_plain = inside == after || rest.starts_with('}');
    let is_whole = before.trim_end_matches(['"', '\'', ' ']).ends_with(['=', ':']);
    (is_plain && is_whole && !source.is_empty()).then(|| source.to_owned())
}

/// Checks variables that hold a version or a commit.
fn pinned(facts: &Facts<'_>, setting: &Setting, context: Context<'_>, found: &mut Findings<'_>) {
    let Setting { name, value, line, .. } = setting;
    let (line, value) = (*line, value.trim());
    if value.contains(UNKNOWN) {
        return;
    }
    if name == "ROCM_VERSION" && !unread::is_unread(facts, setting) {
        let message = format!("`{name}` is {value}");
        let release = value;
        let named = rocm::Named { release, line, is_series: false, is_word: false, message };
        rocm::judge(named, facts, context, found);
    }
    if is_commit_name(name) && is_branch(value) {
        let rule = if value.ends_with("main_perf") {
            "flash-attention-branch"
        } else {
            "branch-as-commit"
        };
        found.add(rule, line, format!("`{name}` is the branch `{value}`"));
    }
    let package = ["_VERSION", "_TAG", "_REF", "_COMMIT"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .map(|name| name.to_ascii_lowercase().replace('_', "-"));
    if let Some(hit) =
        package.and_then(|package| packages::never(&package, value.trim_start_matches('v'), line))
    {
        found.hit(hit);
    }
}

/// Returns whether a variable's name suggests that it contains a commit.
fn is_commit_name(name: &str) -> bool {
    ["_COMMIT", "_SHA", "_REVISION"].iter().any(|end| name.ends_with(end))
}

/// Returns whether a value is the name of a branch.
pub(super) fn is_branch(value: &str) -> bool {
    let last = value.rsplit('/').next().unwrap_or(value);
    let is_numbered = last.trim_start_matches(['v', 'b']).starts_with(|c: char| c.is_ascii_digit());
    let is_commit = value.len() >= 7 && value.bytes().all(|b| b.is_ascii_hexdigit());
    const NAMES: [&str; 10] = [
        "main",
        "master",
        "develop",
        "dev",
        "nightly",
        "trunk",
        "head",
        "main_perf",
        "latest",
        "release",
    ];
    // `release/2.4.x` is a release branch.
    let is_series = last.ends_with(".x");
    is_series
        || !is_numbered && !is_commit && (NAMES.contains(&last) || value.contains("main_perf"))
}

/// The endings of names of lists.
const LISTS: [&str; 4] = ["PATH", "FLAGS", "OPTS", "ARGS"];

/// Checks for two values of one name, in files that only set variables.
fn duplicates(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let only_sets =
        facts.kind == Kind::Environment || facts.kind == Kind::Shell && facts.commands.is_empty();
    if !only_sets {
        return;
    }
    // `LIBRARY_PATH="$A:$LIBRARY_PATH"` adds to a list.
    let is_list = |one: &Setting| LISTS.iter().any(|end| one.name.ends_with(end));
    let mut latest: BTreeMap<&str, &Setting> = BTreeMap::new();
    for setting in facts.settings.iter().filter(|one| !is_list(one)) {
        let earlier = latest.insert(&setting.name, setting);
        if let Some(earlier) = earlier.filter(|old| old.value != setting.value) {
            let Setting { name, value, line, .. } = setting;
            found.add(
                "duplicate-pin",
                *line,
                format!(
                    "`{name}` is `{value}` here, but `{}` on line {}",
                    earlier.value, earlier.line
                ),
            );
        }
    }
}

/// The endings of pin names.
const PIN_ENDS: [&str; 11] = [
    "VERSION", "COMMIT", "REF", "TAG", "DIGEST", "SHA", "SHA256", "BRANCH", "IMAGE", "REVISION",
    "URL",
];

fn is_pin_name(name: &str) -> bool {
    PIN_ENDS.iter().any(|end| {
        name.strip_suffix(end).is_some_and(|before| before.ends_with('_') && before.len() > 1)
    })
}

/// The prefixes of variables that a CI service or a shell sets, or that a program reads itself.
const SYSTEM: [&str; 10] = [
    "GITHUB_",
    "CI_",
    "GITLAB_",
    "RUNNER_",
    "BASH_",
    "ZSH_",
    "OS_",
    "BUILDKITE_",
    "JENKINS_",
    "TWINE_",
];

/// Checks for pins that are used, but not set by any file of the run.
fn undefined(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let is_source = |words: &[crate::shell::Word]| matches!(words[0].text.as_str(), "source" | ".");
    let sources: Vec<usize> = facts
        .commands
        .iter()
        .filter(|command| is_source(&command.words))
        .map(|command| command.stage)
        .collect();
    let own = |name: &String| facts.settings.iter().any(|setting| setting.name == *name);
    let others = context.defined.filter(|names| !names.iter().all(own));
    let passed = passed(facts, context);
    let mut hits: Vec<(Hit<'_>, &str)> = Vec::new();
    for missing in &facts.missing {
        let Missing { name, line, stage, is_base } = missing;
        let is_set = facts.settings.iter().any(|setting| setting.name == *name)
            || others.is_some_and(|names| names.contains(name));
        let is_system = SYSTEM.iter().any(|start| name.starts_with(start)) || name == "TARGET_SHA";
        let has_source = sources.contains(stage);
        // The variables in a file that is not part of the run cannot be known, and the files in an
        // image are never part of the run.
        let is_in_image = facts.kind == Kind::Dockerfile;
        let is_unknown = has_source && (others.is_none() || is_in_image);
        if !is_pin_name(name)
            || is_override(name)
            || is_set
            || is_system
            || is_unknown
            || is_optional(facts, name)
            || passed.contains(name)
        {
            continue;
        }
        let hit = Hit::new("undefined-pin", *line, format!("`{name}` is used, but not defined"));
        match facts.kind {
            Kind::Dockerfile if *is_base || is_plain_base(facts, *stage) => hits.push((hit, name)),
            Kind::Dockerfile if is_address(facts, name, *line) => {
                hits.push((hit.at_most(Severity::Warning), name));
            }
            // The base image may set it.
            Kind::Dockerfile => {}
            // The caller may set it, and so may a file that `source` reads.
            _ => hits.push((hit.at_most(Severity::Information), name)),
        }
    }
    // A script that sets no pin of its own, and uses several, gets them from its caller.
    let count = hits.iter().map(|(_, name)| *name).collect::<BTreeSet<_>>().len();
    let is_alone = facts.kind == Kind::Shell && sources.is_empty();
    if is_alone && count > 2 && !facts.settings.iter().any(|one| is_pin_name(&one.name)) {
        return;
    }
    hits.into_iter().for_each(|(hit, _)| found.hit(hit));
}

/// Returns whether a variable is the whole address of a download, which a base image does not set.
fn is_address(facts: &Facts<'_>, name: &str, line: usize) -> bool {
    let text = facts.line(line);
    let is_download = ["wget ", "curl ", "git clone "].iter().any(|one| text.contains(one));
    let forms = [format!("${name}"), format!("${{{name}}}")];
    let mut words = text.split_whitespace().map(|word| word.trim_matches(['"', '\'', ';']));
    is_download && name.ends_with("_URL") && words.any(|word| forms.iter().any(|form| form == word))
}

/// Returns the words of the Dockerfiles, compose files and env files near a script: a build or a
/// container that runs the script gets the values of its variables from there.
fn passed(facts: &Facts<'_>, context: Context<'_>) -> BTreeSet<String> {
    let is_script = facts.kind == Kind::Shell && !facts.missing.is_empty();
    let Some(files) = context.exists.filter(|_| is_script) else { return BTreeSet::new() };
    let near = NEAR.iter().filter_map(|path| files.text(facts.file, path));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words =
        |text: String| -> Vec<String> { text.split(|c| !is_part(c)).map(str::to_owned).collect() };
    near.chain(files.compose_files(facts.file)).flat_map(words).collect()
}

/// The files near a script that can pass it variables.
const NEAR: [&str; 6] =
    ["Dockerfile", "../Dockerfile", "Containerfile", ".env", ".env.example", "../.env"];

/// Returns whether the file gives a variable a default somewhere, or tests whether it is set.
fn is_optional(facts: &Facts<'_>, name: &str) -> bool {
    let code = &facts.code;
    let has_default = ["-", ":-", "=", ":=", "+", ":+", "?", ":?"]
        .iter()
        .any(|default| code.contains(&format!("${{{name}{default}")));
    // A script that tests a variable expects its caller to set it.
    let is_checked = || {
        let words = [format!("\"${name}\""), format!("\"${{{name}}}\"")];
        let mut tests = words.iter().flat_map(|word| [format!("-n {word}"), format!("-z {word}")]);
        tests.any(|test| code.contains(&test))
    };
    has_default || facts.kind == Kind::Shell && is_checked()
}

/// Returns whether a stage starts from an image that sets no variables of its own.
pub(super) fn is_plain_base(facts: &Facts<'_>, stage: usize) -> bool {
    facts.base(stage).is_some_and(|stage| {
        let path = images::parts(&stage.base).path;
        data().plain_bases.iter().any(|plain| plain == path)
    })
}
