//! Rules for environment files together with the compose files in their folder: values that nothing
//! replaces, names that no compose file reads, and ports that two services publish.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::examples;
use crate::shell::{Setting, UNKNOWN};
use crate::yaml::{self, Node};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Environment => {
            let files = context.exists.map(|files| files.compose_files(facts.file));
            let files = files.unwrap_or_default();
            // Make replaces `$(…)` in a file that it includes.
            let exists = |name: &str| {
                context.exists.is_some_and(|folder| folder.exists(facts.file, name) == Some(true))
            };
            if !files.is_empty() || !exists("Makefile") {
                substituted(facts, &files, found);
            }
            for text in &files {
                let Some(root) = yaml::documents(text).into_iter().next() else { continue };
                twice(&root, &facts.settings, &facts.settings, found);
                renamed(&root, facts, &files, found);
                empty(&root, text, facts, found);
                described(text, facts, found);
                fixed(&root, facts, &files, found);
                fixed_port(&root, facts, &files, found);
            }
            misspelt(facts, &files, found);
        }
        Kind::Compose => {
            if let Some(root) = yaml::documents(facts.text).into_iter().next() {
                let beside = context.exists.and_then(|files| files.text(facts.file, ".env"));
                let values = beside.map(|text| Facts::read(".env", &text).settings);
                twice(&root, &values.unwrap_or_default(), &[], found);
                if let Some(files) = context.exists {
                    examples::check(&root, facts, files, found);
                }
            }
        }
        _ => {}
    }
}

/// Checks for `$(…)`, which only a shell replaces.
fn substituted(facts: &Facts<'_>, files: &[String], found: &mut Findings<'_>) {
    let lower = facts.text.to_ascii_lowercase();
    let is_for_shell = lower.contains("export ") || lower.contains("source ");
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        let Some((name, value)) = text.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        let Some((inside, _)) = value.strip_prefix("$(").and_then(|one| one.split_once(')')) else {
            continue;
        };
        let is_variable = inside.len() > 1 && is_constant(inside);
        if is_variable || !is_for_shell && !files.is_empty() {
            let message = format!("`{}` gets the text `$({inside})` unchanged", name.trim());
            let hit = Hit::new("value-not-replaced", line, message);
            found.hit(if is_variable { hit.help(format!("write `${{{inside}}}`")) } else { hit });
        }
    }
}

/// Returns whether a text is a name in capitals.
fn is_constant(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// A reference to a variable: `${NAME:-default}`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference<'t> {
    pub(super) name: &'t str,
    /// The default for an unset variable.
    pub(super) default: Option<&'t str>,
    /// Whether the default also replaces an empty value.
    is_for_empty: bool,
    /// The position of the text after the reference.
    pub(super) end: usize,
}

/// Returns the first reference in a text, with its position.
pub(super) fn reference(text: &str) -> Option<(usize, Reference<'_>)> {
    let at = text.find('$')?;
    let rest = &text[at + 1..];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let Some(inside) = rest.strip_prefix('{') else {
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let reference =
            Reference { name, default: None, is_for_empty: false, end: at + 1 + end.max(1) };
        return Some((at, reference));
    };
    let close = inside.find('}')?;
    let body = &inside[..close];
    let end = body.find(|c| !is_name(c)).unwrap_or(body.len());
    let (name, operator) = body.split_at(end);
    let for_empty = operator.strip_prefix(":-");
    let default = for_empty.or_else(|| operator.strip_prefix('-'));
    let default = default.filter(|default| !default.contains('$'));
    Some((at, Reference { name, default, is_for_empty: for_empty.is_some(), end: at + close + 3 }))
}

/// Returns the names of the variables that a text refers to.
pub(super) fn names_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((_, one)) = reference(rest) {
        names.push(one.name);
        rest = rest.get(one.end..).unwrap_or_default();
    }
    names
}

/// Replaces the variables of a text; `None` if a value is unknown.
fn replaced(text: &str, values: &BTreeMap<&str, &str>) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((at, one)) = reference(rest) {
        result.push_str(&rest[..at]);
        let value = values.get(one.name).filter(|value| !value.is_empty()).copied();
        result.push_str(value.or(one.default)?);
        rest = rest.get(one.end..)?;
    }
    result.push_str(rest);
    (!result.contains(UNKNOWN)).then_some(result)
}

/// A port of the host that a service publishes.
struct Published<'n> {
    service: &'n str,
    /// As the compose file writes it.
    text: &'n str,
    line: usize,
    address: Option<String>,
    port: u16,
    protocol: String,
    is_model_server: bool,
}

/// Parts of the names of images of servers for models. People start one of them at a time.
const MODEL_SERVERS: [&str; 9] = [
    "comfyui",
    "kobold",
    "lemonade",
    "llama",
    "localai",
    "sglang",
    "tabbyapi",
    "text-generation-inference",
    "vllm",
];

/// Returns whether a service is a server for models, by its image or its devices.
fn is_model_server(service: &Node) -> bool {
    let image = service.get("image").and_then(Node::text).unwrap_or_default();
    let devices = service.get("devices").map_or(&[][..], Node::items);
    MODEL_SERVERS.iter().any(|name| image.to_ascii_lowercase().contains(name))
        || devices.iter().any(|one| one.text().is_some_and(|text| text.starts_with("/dev/kfd")))
}

/// Returns the ports that the services publish which certainly run together.
fn published<'n>(root: &'n Node, values: &BTreeMap<&str, &str>) -> Vec<Published<'n>> {
    let mut all = Vec::new();
    for (name, service) in root.get("services").map_or(&[][..], Node::entries) {
        let has = |key: &str| service.get(key).is_some();
        if ["profiles", "extends", "network_mode", "deploy"].iter().any(|key| has(key)) {
            continue;
        }
        for item in service.get("ports").map_or(&[][..], Node::items) {
            let Some(text) = item.text() else { continue };
            let Some(plain) = replaced(text, values) else { continue };
            let (plain, protocol) = plain.split_once('/').unwrap_or((&plain, "tcp"));
            let mut parts = plain.rsplitn(3, ':').skip(1);
            let Some(port) = parts.next().and_then(|port| port.parse().ok()) else { continue };
            let is_fixed = |one: &&str| one.parse::<Ipv4Addr>() != Ok(Ipv4Addr::UNSPECIFIED);
            let address = parts.next().filter(is_fixed).map(str::to_owned);
            let own_name = name.text().unwrap_or_default();
            let protocol = protocol.to_owned();
            all.push(Published {
                service: own_name,
                text,
                line: item.line,
                address,
                port,
                protocol,
                is_model_server: is_model_server(service),
            });
        }
    }
    all
}

/// Parts of the names of services of which people start only one.
const VARIANTS: [&str; 10] =
    ["amd", "cpu", "cuda", "dev", "gpu", "intel", "nvidia", "prod", "rocm", "test"];

/// Returns whether the name of a service is that of a variant: `app-rocm`.
fn is_variant(service: &str) -> bool {
    let lower = service.to_ascii_lowercase();
    VARIANTS.iter().any(|one| lower.contains(one))
}

/// Returns whether people may start only one of two services: `app-rocm` or `app-cpu`.
fn are_variants(first: &str, second: &str) -> bool {
    let mut words = first.split(['-', '_']);
    is_variant(first) && is_variant(second)
        || words.any(|word| second.split(['-', '_']).any(|other| other == word))
}

/// Checks for two services that publish the same port of the host, with the values of an environment
/// file. `settings` are those of the file that is checked, if it is an environment file.
fn twice(root: &Node, values: &[Setting], settings: &[Setting], found: &mut Findings<'_>) {
    let values: BTreeMap<&str, &str> =
        values.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
    let all = published(root, &values);
    if settings.is_empty() {
        alternatives(root, &all, found);
    }
    for (at, second) in all.iter().enumerate() {
        let is_same = |first: &&Published<'_>| {
            let is_address = first.address == second.address
                || first.address.is_none()
                || second.address.is_none();
            first.port == second.port
                && first.protocol == second.protocol
                && first.service != second.service
                && is_address
                && !are_variants(first.service, second.service)
        };
        let Some(first) = all[..at].iter().find(is_same) else { continue };
        // Such a file can have an alternative for each vendor.
        if settings.is_empty() && [first, second].iter().any(|one| is_variant(one.service)) {
            continue;
        }
        let names: Vec<&str> = [first, second].iter().flat_map(|one| names_in(one.text)).collect();
        // The setting that differs from the default is the more likely mistake.
        let mut own = settings.iter().filter(|one| names.contains(&one.name.as_str()));
        let is_changed = |one: &&Setting| {
            [first, second].iter().any(|port| {
                reference(port.text).is_some_and(|(_, reference)| {
                    reference.name == one.name && reference.default != Some(one.value.as_str())
                })
            })
        };
        let line = match own.clone().find(is_changed).or_else(|| own.next()) {
            Some(setting) => setting.line,
            None if settings.is_empty() => second.line,
            None => continue,
        };
        let message = format!(
            "the services `{}` and `{}` publish the same port, {}",
            first.service, second.service, second.port
        );
        let hit = Hit::new("port-twice", line, message);
        let are_alternatives = first.is_model_server && second.is_model_server;
        return found.hit(if are_alternatives { hit.at_most(Severity::Information) } else { hit });
    }
}

/// Checks for variants of a service with one port, all of which `docker compose up` starts. The first
/// pair is enough.
fn alternatives(root: &Node, all: &[Published<'_>], found: &mut Findings<'_>) {
    let services = root.get("services").map_or(&[][..], Node::entries);
    if services.iter().any(|(_, service)| service.get("profiles").is_some()) {
        return;
    }
    let is_same = |first: &Published<'_>, second: &Published<'_>| {
        (first.port, &first.protocol, &first.address)
            == (second.port, &second.protocol, &second.address)
            && first.service != second.service
            && is_variant(first.service)
            && is_variant(second.service)
    };
    let pair = all.iter().enumerate().find_map(|(at, second)| {
        Some((all[..at].iter().find(|first| is_same(first, second))?, second))
    });
    if let Some((first, second)) = pair {
        let message = format!(
            "`docker compose up` starts `{}` and `{}`, and both publish port {}",
            first.service, second.service, second.port
        );
        let hit = Hit::new("port-twice", second.line, message);
        found.hit(hit.help("give each variant a profile: `profiles: [rocm]`"));
    }
}

/// Returns the variables of the services of a compose file, as written: the service, the name, and
/// the value.
fn variables(root: &Node) -> Vec<(&str, &str, &str)> {
    let mut all = Vec::new();
    for (service, node) in root.get("services").map_or(&[][..], Node::entries) {
        let (Some(service), Some(environment)) = (service.text(), node.get("environment")) else {
            continue;
        };
        for (name, value) in environment.entries() {
            all.extend(name.text().zip(value.text()).map(|(name, value)| (service, name, value)));
        }
        let listed = environment.items().iter().filter_map(|item| item.text()?.split_once('='));
        all.extend(listed.map(|(name, value)| (service, name, value)));
    }
    all
}

/// Checks for a variable that a service gets from a variable with another name.
fn renamed(root: &Node, facts: &Facts<'_>, files: &[String], found: &mut Findings<'_>) {
    // With `env_file`, a service can read the variable itself.
    if files.iter().any(|text| text.contains("env_file")) {
        return;
    }
    let is_set = |name: &str| facts.settings.iter().any(|one| one.name == name);
    let is_used = |name: &str| files.iter().any(|text| names_in(text).contains(&name));
    for setting in facts.settings.iter().filter(|one| !is_used(&one.name)) {
        let other = variables(root).into_iter().find_map(|(service, name, value)| {
            let (at, one) = reference(value)?;
            let is_whole = at == 0 && one.end >= value.len();
            (name == setting.name && is_whole && !is_set(one.name)).then_some((service, one.name))
        });
        if let Some((service, other)) = other {
            let Setting { name, line, .. } = setting;
            let message = format!(
                "the service `{service}` gets `{name}` from `${{{other}}}`, which is not set here"
            );
            let hit = Hit::new("variable-without-effect", *line, message);
            found.hit(hit.help(format!("write `{other}`, the name that the compose file reads")));
        }
    }
}

/// The starts of names of variables that people set for their machine.
const FOR_MACHINE: [&str; 15] = [
    "CUDA_VISIBLE",
    "GGML_",
    "GPU_",
    "HCC_",
    "HIP_",
    "HSA_",
    "LLAMA_",
    "MIOPEN_",
    "NVIDIA_",
    "OLLAMA_",
    "PYTORCH_",
    "ROCM_",
    "ROCR_",
    "VLLM_",
    "WHISPER_",
];

/// Parts of the names of variables that differ between the host and a container on purpose.
const PLACES: [&str; 6] = ["URL", "URI", "HOST", "PORT", "PATH", "DIR"];

/// Checks for a variable for which the compose file has a fixed value.
fn fixed(root: &Node, facts: &Facts<'_>, files: &[String], found: &mut Findings<'_>) {
    let is_used = |name: &str| files.iter().any(|text| names_in(text).contains(&name));
    // With `env_file`, another service can get the value.
    if files.iter().any(|text| text.contains("env_file")) {
        return;
    }
    let all = variables(root);
    for setting in &facts.settings {
        let Setting { name, value, line, .. } = setting;
        let is_wanted = FOR_MACHINE.iter().any(|start| name.starts_with(start))
            && !PLACES.iter().any(|part| name.contains(part))
            && !value.is_empty();
        let mut values = all.iter().filter(|(_, own, _)| own == name);
        let other = values.find(|(_, _, own)| !own.contains('$') && !own.is_empty());
        if let Some((service, _, own)) = other.filter(|_| is_wanted && !is_used(name)) {
            let message = format!(
                "the compose file gives `{name}` a fixed value, `{own}`, for the service `{service}`"
            );
            let hit = Hit::new("variable-without-effect", *line, message);
            let hit = if own == value { hit.at_most(Severity::Information) } else { hit };
            found.hit(hit.help(format!(
                "write `${{{name}:-{own}}}` in the compose file, or remove the line"
            )));
        }
    }
}

/// Checks for a variable with a port that the compose file publishes whatever the variable says.
fn fixed_port(root: &Node, facts: &Facts<'_>, files: &[String], found: &mut Findings<'_>) {
    let is_used = |name: &str| files.iter().any(|text| names_in(text).contains(&name));
    if files.iter().any(|text| text.contains("env_file")) {
        return;
    }
    let all = published(root, &BTreeMap::new());
    for setting in &facts.settings {
        let Setting { name, value, line, .. } = setting;
        let port = value.trim().parse::<u16>().ok().filter(|_| name.ends_with("_PORT"));
        let fixed = all.iter().find(|one| Some(one.port) == port && !one.text.contains('$'));
        if let Some(one) = fixed.filter(|_| !is_used(name)) {
            let message = format!(
                "the compose file publishes `{}` for the service `{}`, whatever `{name}` says",
                one.text, one.service
            );
            let hit = Hit::new("variable-without-effect", *line, message);
            found.hit(hit.at_most(Severity::Information).help(format!(
                "write `${{{name}:-{value}}}` in the compose file, or remove the line"
            )));
        }
    }
}

/// Returns the default that replaces an empty variable in a text.
fn default_in<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text;
    while let Some((_, one)) = reference(rest) {
        let default = one.default.filter(|value| !value.is_empty() && one.is_for_empty);
        if one.name == name && default.is_some() {
            return default;
        }
        rest = rest.get(one.end..)?;
    }
    None
}

/// Returns whether a service gets the variables of an environment file.
fn reads_file(service: &Node, file: &str) -> bool {
    let is_it = |path: &Node| {
        let text = path.text().or_else(|| path.get("path")?.text());
        text.is_some_and(|text| text.trim_start_matches("./") == file)
    };
    let Some(node) = service.get("env_file") else { return false };
    is_it(node) || node.items().iter().any(|item| is_it(item))
}

/// Checks for an empty value that one service gets, and in whose place another gets the default.
fn empty(root: &Node, text: &str, facts: &Facts<'_>, found: &mut Findings<'_>) {
    let services = root.get("services").map_or(&[][..], Node::entries);
    let file = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let lines: Vec<&str> = text.lines().collect();
    let own = variables(root);
    for setting in facts.settings.iter().filter(|one| one.value.is_empty()) {
        let Setting { name, line, .. } = setting;
        let is_secret = ["PASS", "SECRET", "KEY", "TOKEN"].iter().any(|word| name.contains(word));
        let gets = |at: usize| {
            let (service, node) = &services[at];
            let has_own = own
                .iter()
                .any(|(other, variable, _)| service.text() == Some(other) && variable == name);
            reads_file(node, file) && !has_own
        };
        let default = |at: usize| {
            let start = services[at].0.line.saturating_sub(1);
            let end =
                services.get(at + 1).map_or(lines.len(), |(next, _)| next.line.saturating_sub(1));
            lines.get(start..end)?.iter().find_map(|one| default_in(one, name))
        };
        let (with_file, others): (Vec<usize>, Vec<usize>) =
            (0..services.len()).partition(|at| gets(*at));
        let default = others.into_iter().find_map(default);
        if let Some(default) = default.filter(|_| is_secret && !with_file.is_empty()) {
            let message = format!(
                "services with `env_file` get an empty `{name}`, and the others get the default, `{default}`"
            );
            let hit = Hit::new("default-replaces-empty", *line, message);
            found.hit(hit.help("write the value, or remove the line"));
        }
    }
}

/// The length of words that can be a misspelling of each other. `HOST` and `PORT` are not.
const LONG: usize = 6;

/// Returns whether two names differ only in their underscores or in one long word.
fn is_mistake(name: &str, known: &str) -> bool {
    let plain = |text: &str| text.replace('_', "");
    if name == known || name.len() < LONG {
        return false;
    }
    let (own, other): (Vec<&str>, Vec<&str>) =
        (name.split('_').collect(), known.split('_').collect());
    let differing: Vec<(&&str, &&str)> =
        own.iter().zip(&other).filter(|(one, two)| one != two).collect();
    let is_word = |(one, two): &(&&str, &&str)| {
        one.len() >= LONG && two.len() >= LONG && ::pins::reader::is_near(one, two)
    };
    plain(name) == plain(known)
        || own.len() == other.len() && differing.len() == 1 && differing.iter().all(is_word)
}

/// Words of comments for a variable without a value.
const WITHOUT: [&str; 5] = ["blank", "comment out", "empty", "not set", "unset"];

/// Words of comments for what the program then does.
const MEANS: [&str; 6] = ["all gpus", "auto", "disable", "no limit", "none", "off"];

/// Checks for a comment that says what an unset variable means, although the compose file has a
/// default: `# unset = all GPUs` and `${HIP_VISIBLE_DEVICES:-0}`.
fn described(text: &str, facts: &Facts<'_>, found: &mut Findings<'_>) {
    let mut rest = text;
    while let Some((_, one)) = reference(rest) {
        rest = rest.get(one.end..).unwrap_or_default();
        let Some(default) = one.default.filter(|value| !value.is_empty() && one.is_for_empty)
        else {
            continue;
        };
        let lines: Vec<(usize, &str)> = facts.lines().collect();
        let sets = |(_, line): &(usize, &str)| {
            let line = line.trim_start().trim_start_matches(['#', ' ']);
            line.strip_prefix(one.name).is_some_and(|after| after.starts_with('='))
        };
        let Some(at) = lines.iter().position(sets) else { continue };
        let above = lines[..at].iter().rev().take_while(|(_, line)| facts.kind.is_comment(line));
        // A commented-out setting belongs to another variable.
        let above =
            above.take(ABOVE).take_while(|(_, line)| !line.contains('=') || says(line, &one));
        let said = std::iter::once(&lines[at]).chain(above).find(|(_, line)| says(line, &one));
        if let Some((line, _)) = said {
            let message = format!(
                "without a value, the compose file gives `{}` the value `{default}`",
                one.name
            );
            let hit = Hit::new("default-replaces-empty", *line, message);
            found.hit(hit.help("correct the comment, or remove the default of the compose file"));
        }
    }
}

/// The number of comment lines above a setting that are read.
const ABOVE: usize = 3;

/// Returns whether the comment of a line says what the program does if a variable has no value.
fn says(line: &str, one: &Reference<'_>) -> bool {
    let Some((_, comment)) = line.split_once("# ") else { return false };
    let lower = comment.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let words =
        comment.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    let names_other =
        words.into_iter().any(|word| word.contains('_') && word.len() > 4 && word != one.name);
    has(&WITHOUT) && has(&MEANS) && !lower.contains("default") && !names_other
}

/// Checks for a name that no compose file reads, and that is similar to one that is not set.
fn misspelt(facts: &Facts<'_>, files: &[String], found: &mut Findings<'_>) {
    // With `env_file`, a program can read any name.
    if files.is_empty() || files.iter().any(|text| text.contains("env_file")) {
        return;
    }
    let read: Vec<&str> = files.iter().flat_map(|text| names_in(text)).collect();
    let is_set = |name: &str| facts.settings.iter().any(|one| one.name == name);
    let places = found.places();
    for setting in &facts.settings {
        let Setting { name, line, .. } = setting;
        let is_mentioned = files.iter().any(|text| text.contains(name.as_str()));
        let is_said = places.range((*line, "")..(*line + 1, "")).next().is_some();
        let near = read.iter().find(|one| !is_set(one) && is_mistake(name, one));
        if let Some(near) = near.filter(|_| !is_mentioned && !is_said) {
            let message = format!("no compose file in this folder reads `{name}`");
            let hit = Hit::new("variable-unknown", *line, message);
            found.hit(hit.help(format!("did you mean `{near}`? Otherwise remove it")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_in_one_long_word() {
        for (name, known, expected) in [
            ("OLLAMA_PORT", "OLLAMA_HOST", false),
            ("OLLAMA_MODLES", "OLLAMA_MODELS", true),
            ("HF_HUB_TOKEN", "HFHUB_TOKEN", true),
            ("MODEL_A", "MODEL_B", false),
            ("LLM_MODEL", "VLM_MODEL", false),
        ] {
            assert_eq!(is_mistake(name, known), expected, "{name}");
        }
    }

    #[test]
    fn references_are_replaced() {
        let values = BTreeMap::from([("A", "1"), ("B", "")]);
        for (text, expected) in [
            ("${A:-2}:80", Some("1:80")),
            ("${B:-2}:80", Some("2:80")),
            ("$A:80", Some("1:80")),
            ("${C}:80", None),
            ("80", Some("80")),
            ("${A", Some("${A")),
        ] {
            assert_eq!(replaced(text, &values).as_deref(), expected, "{text}");
        }
        assert_eq!(names_in("a: ${A:-1} $B$ é"), ["A", "B", ""]);
    }
}
