//! Rules for the variables of Ollama.

use super::stages::parts;
use super::variables::is_own;
use super::{folder, images};
use crate::data::data;
use crate::dockerfile::Instruction;
use crate::shell::{Scope, Setting};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// Checks variables that are passed to Ollama.
pub(super) fn check(
    facts: &Facts<'_>,
    setting: &Setting,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let Setting { name, line, .. } = setting;
    let Some(near) = ::pins::unknown_ollama_variable(name) else { return };
    let is_setting =
        || data().ollama_settings.names.contains(name) && is_beside_ollama(facts, setting);
    let is_of_ollama = is_for_ollama(facts, setting) || is_setting();
    let is_of_script = is_own(facts, setting, "variable-unknown", context);
    let is_other = data().ollama_other.names.contains(name) || !is_of_ollama || is_of_script;
    if is_other || folder::reads(facts, setting, context) {
        return;
    }
    if let Some(script) = own_script(facts, setting) {
        let message = format!("Ollama does not read `{name}`; perhaps `{script}` does");
        let hit = Hit::new("variable-does-not-exist", *line, message);
        return found.hit(hit.at_most(Severity::Information));
    }
    if data().ollama_never.names.contains(name) {
        let message = format!("`{name}` has never existed in any Ollama release");
        let hit = Hit::new("variable-does-not-exist", *line, message);
        return found.hit(folder::judged(facts, setting, hit).help(&data().ollama_never.help));
    }
    let message = format!("`{name}` is not a variable of Ollama");
    let hit = Hit::new("variable-does-not-exist", *line, message);
    // A start script of such an image may read more.
    if near.is_none() && is_of_others(setting) {
        return;
    }
    found.hit(match near {
        Some(near) => folder::judged(facts, setting, hit)
            .help(format!("did you mean `{near}`? Otherwise remove it")),
        // A start script of the image may read it.
        None => hit
            .at_most(Severity::Warning)
            .help("remove it; `ollama serve --help` lists the variables that exist"),
    });
}

/// Returns whether lines for a shell or environment file also set a variable that only Ollama's
/// server reads. `OLLAMA_HOST` does not count, because clients read it too.
fn is_beside_ollama(facts: &Facts<'_>, setting: &Setting) -> bool {
    let is_line = |one: &Setting| matches!(one.scope, Scope::File | Scope::Exported);
    let is_server = |one: &Setting| {
        one.name.starts_with("OLLAMA_")
            && one.name != "OLLAMA_HOST"
            && ::pins::unknown_ollama_variable(&one.name).is_none()
    };
    is_line(setting) && facts.settings.iter().any(|one| is_line(one) && is_server(one))
}

/// Returns whether Ollama's server runs on the machine itself and gets a variable.
pub(super) fn is_for_host(facts: &Facts<'_>, setting: &Setting, context: Context<'_>) -> bool {
    let in_compose =
        || context.exists.is_some_and(|files| !files.compose_files(facts.file).is_empty());
    match (setting.scope, setting.program.as_deref()) {
        // A service has the addresses of its container.
        (Scope::Run, Some(program)) if facts.kind != Kind::Compose => {
            let first = program.split(' ').next().unwrap_or_default();
            first == "ollama" || first.starts_with('/') && first.ends_with("/ollama")
        }
        (Scope::File | Scope::Exported, _) => is_beside_ollama(facts, setting) && !in_compose(),
        _ => false,
    }
}

/// Returns whether Ollama itself gets a variable at run time.
fn is_for_ollama(facts: &Facts<'_>, setting: &Setting) -> bool {
    let is_ollama = |program: &str| {
        program.split([' ', '@']).any(|word| {
            let path = images::parts(word).path;
            path.contains("ollama") && !path.contains("webui") && !path.contains("ollama-")
        })
    };
    match setting.scope {
        Scope::Run | Scope::Image | Scope::Command => {
            setting.program.as_deref().is_some_and(is_ollama)
        }
        Scope::Exported => facts.commands.iter().any(|command| {
            let words: Vec<&str> = command.texts();
            words[0].rsplit('/').next() == Some("ollama")
                && words.get(1) == Some(&"serve")
                && command.stage == setting.stage
        }),
        Scope::Shell | Scope::Argument | Scope::File => false,
    }
}

/// Returns whether a variable is for an image that is not Ollama's own, but contains Ollama.
fn is_of_others(setting: &Setting) -> bool {
    let is_image = |word: &str| word.contains('/') && !word.starts_with(['/', '.', '-']);
    let program = setting.program.as_deref().unwrap_or_default();
    let mut images = program.split(' ').filter(|word| is_image(word)).map(images::parts);
    matches!(setting.scope, Scope::Run | Scope::Image)
        && images.any(|image| image.path.contains("ollama") && image.path != OFFICIAL)
}

/// The image that Ollama's developers publish.
const OFFICIAL: &str = "ollama/ollama";

/// Returns the script of the project that an image starts, and that may read its variables.
fn own_script(facts: &Facts<'_>, setting: &Setting) -> Option<String> {
    if setting.scope != Scope::Image {
        return None;
    }
    let all = facts.instructions();
    let own = || all.iter().filter(|one| one.stage == setting.stage);
    let starts = |one: &&Instruction| matches!(parts(one).0.as_str(), "ENTRYPOINT" | "CMD");
    let is_copied = |name: &&str| {
        own().any(|one| matches!(parts(one).0.as_str(), "COPY" | "ADD") && one.text.contains(name))
    };
    own().filter(starts).find_map(|one| {
        let words = parts(one).1.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
        let mut scripts = words.filter(|word| word.ends_with(".sh"));
        scripts.find(is_copied).map(str::to_owned)
    })
}
