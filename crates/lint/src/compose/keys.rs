//! Checks the keys of a compose file, and the form of their values.

use super::interpolated;
use crate::data::{SectionRow, ValueForm, data};
use crate::facts::{Facts, Problem};
use crate::shell::UNKNOWN;
use crate::yaml::{Node, Value};

/// The rule for keys that Compose does not have.
const KEY: &str = "compose-key";

/// The rule for a list or mapping instead of text, or the other way round.
const TYPE: &str = "compose-type";

/// The rule for other values that Compose or docker refuses.
const VALUE: &str = "compose-value";

/// Keys at the top of a compose file.
const TOP: [&str; 9] = [
    "configs", "include", "models", "name", "networks", "secrets", "services", "version", "volumes",
];

/// Checks for keys at the top of a compose file that it cannot have.
pub(super) fn top(root: &Node, problems: &mut Vec<Problem>) {
    for (key, value) in root.entries() {
        let Some(text) = key.text() else { continue };
        if let ("name", Some(name)) = (text, value.text())
            && !name.contains('$')
            && !is_project(name)
        {
            let message = format!("Compose refuses `{name}` as the name of a project");
            problems.push(Problem { rule: VALUE, line: value.line, message });
        }
        let is_known = TOP.contains(&text) || text.starts_with("x-");
        if is_known || !is_word(text) {
            continue;
        }
        let is_service = ["build", "image"].iter().any(|one| value.get(one).is_some());
        let message = if is_service {
            format!("the service `{text}` is not indented, so it is not below `services`")
        } else {
            format!("`{text}` is not a key of a compose file")
        };
        problems.push(Problem { rule: KEY, line: key.line, message });
    }
}

/// Returns whether a text can be the name of a project.
fn is_project(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || matches!(c, '-' | '_'))
}

/// A part of a compose file whose keys are known: its path, and its section of the data. `*` stands
/// for each item of a list and each key of a mapping.
type Part = (&'static [&'static str], &'static str);

/// The parts of a service.
const SERVICE: [Part; 28] = [
    (&["build"], "services.build"),
    (&["healthcheck"], "services.healthcheck"),
    (&["logging"], "services.logging"),
    (&["deploy"], "services.deploy"),
    (&["deploy", "resources"], "services.resources"),
    (&["deploy", "resources", "limits"], "services.limits"),
    (&["deploy", "resources", "reservations"], "services.reservations"),
    (&["deploy", "restart_policy"], "services.restart-policy"),
    (&["deploy", "update_config"], "services.update-config"),
    (&["deploy", "rollback_config"], "services.rollback-config"),
    (&["deploy", "placement"], "services.placement"),
    (&["deploy", "resources", "reservations", "devices", "*"], "services.device"),
    (&["gpus", "*"], "services.device"),
    (&["depends_on", "*"], "services.depends-on"),
    (&["ports", "*"], "services.ports"),
    (&["volumes", "*"], "services.volumes"),
    (&["volumes", "*", "bind"], "services.volumes.bind"),
    (&["volumes", "*", "volume"], "services.volumes.volume"),
    (&["volumes", "*", "tmpfs"], "services.volumes.tmpfs"),
    (&["volumes", "*", "image"], "services.volumes.image"),
    (&["secrets", "*"], "services.secrets"),
    (&["configs", "*"], "services.configs"),
    (&["networks", "*"], "services.networks"),
    (&["env_file"], "services.env-file"),
    (&["env_file", "*"], "services.env-file"),
    (&["devices", "*"], "services.devices"),
    (&["extends"], "services.extends"),
    (&["blkio_config"], "services.blkio"),
];

/// The parts at the top of a compose file.
const OTHERS: [Part; 8] = [
    (&["networks", "*"], "networks"),
    (&["networks", "*", "ipam"], "networks.ipam"),
    (&["networks", "*", "ipam", "config", "*"], "networks.ipam.config"),
    (&["volumes", "*"], "volumes"),
    (&["secrets", "*"], "secrets"),
    (&["configs", "*"], "configs"),
    (&["models", "*"], "models"),
    (&["include", "*"], "include"),
];

/// Checks the keys and values of a service.
pub(super) fn of_service(
    name: &str,
    service: &Node,
    facts: &Facts<'_>,
    problems: &mut Vec<Problem>,
) {
    if let Some(row) = row("services") {
        check(
            service,
            row,
            &|key| format!("`{key}` is not a key of the service `{name}`"),
            problems,
        );
        values(service, row, facts, problems);
    }
    parts(service, &SERVICE, facts, problems);
    pairs(service, facts, problems);
}

/// Checks the keys and values of networks, volumes and other parts at the top.
pub(super) fn others(root: &Node, facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    parts(root, &OTHERS, facts, problems);
}

/// Returns whether the value of a key of a service is text.
pub(super) fn is_text(key: &str) -> bool {
    let is_one = |(form, keys): &(ValueForm, Vec<String>)| {
        *form == ValueForm::Text && keys.iter().any(|one| one == key)
    };
    row("services").is_some_and(|row| row.forms.iter().any(is_one))
}

fn row(section: &str) -> Option<&'static SectionRow> {
    data().sections.iter().find(|row| row.section == section)
}

fn parts(node: &Node, all: &[Part], facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    for (path, section) in all {
        let Some(row) = row(section) else { continue };
        let shown = described(path);
        for part in below(node, path) {
            check(part, row, &|key| format!("`{key}` is not a key of {shown}"), problems);
            values(part, row, facts, problems);
            unkeyed(part, path, row, problems);
        }
    }
}

/// Returns the nodes at a path.
fn below<'n>(node: &'n Node, path: &[&str]) -> Vec<&'n Node> {
    let mut all = vec![node];
    for step in path {
        all = if *step == "*" {
            all.iter().flat_map(|one| children(one)).collect()
        } else {
            all.iter().filter_map(|one| one.get(step)).collect()
        };
    }
    all
}

/// Returns the items of a list, and the values of a mapping.
fn children(node: &Node) -> impl Iterator<Item = &Node> {
    let entries = node.entries().iter().filter(|(key, _)| !is_merge(key));
    node.items().iter().map(|item| &**item).chain(entries.map(|(_, value)| &**value))
}

fn is_merge(key: &Node) -> bool {
    key.text() == Some("<<")
}

/// Returns the words for a part of a file.
fn described(path: &[&str]) -> String {
    match path {
        ["gpus", "*"] => "`gpus`; docker ignores it".to_owned(),
        [.., "devices", "*"] if path.len() > 2 => "a device".to_owned(),
        [before @ .., "*"] => format!("an item of `{}`", before.join(".")),
        _ => {
            let words: Vec<&str> = path.iter().copied().filter(|one| *one != "*").collect();
            format!("`{}`", words.join("."))
        }
    }
}

/// Checks the keys of one part.
fn check(
    part: &Node,
    row: &SectionRow,
    message: &dyn Fn(&str) -> String,
    problems: &mut Vec<Problem>,
) {
    for (key, _) in part.entries() {
        let Some(text) = key.text() else { continue };
        // A row of the data has its own message about `resources` of a service.
        let is_known = row.keys.iter().any(|one| one == text)
            || text.starts_with("x-")
            || matches!(text, "<<" | "")
            || text == "resources" && row.section == "services";
        if !is_known && is_word(text) {
            problems.push(Problem { rule: KEY, line: key.line, message: message(text) });
        }
    }
}

/// Returns whether a key is a plain word.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Checks for an item such as `./a: /b`, whose blank makes a mapping of it.
fn unkeyed(part: &Node, path: &[&str], row: &SectionRow, problems: &mut Vec<Problem>) {
    let is_list = matches!(path, ["ports" | "volumes" | "devices", "*"]);
    let [(key, value)] = part.entries() else { return };
    let (Some(text), Some(rest)) = (key.text(), value.text()) else { return };
    let is_known = row.keys.iter().any(|one| one == text);
    let is_path = !is_word(text) || text.bytes().all(|byte| byte.is_ascii_digit());
    if is_list && !is_known && is_path {
        let message = format!("the blank after the colon makes a mapping of `{text}: {rest}`");
        problems.push(Problem { rule: VALUE, line: key.line, message });
    }
}

/// Checks for lists of `NAME=VALUE` with a mapping in them, and for lists inside of mappings.
fn pairs(service: &Node, facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    let build = service.get("build");
    let nodes = [
        service.get("environment"),
        service.get("labels"),
        build.and_then(|build| build.get("args")),
    ];
    for node in nodes.into_iter().flatten() {
        let in_list = node.items().iter().filter_map(|item| item.entries().first());
        for (key, _) in in_list.filter(|(key, _)| !is_merge(key)) {
            let name = key.text().unwrap_or_default();
            let message = format!("`{name}` is a mapping in a list: write `{name}=VALUE`");
            problems.push(Problem { rule: VALUE, line: key.line, message });
        }
        for (key, value) in node.entries().iter().filter(|(key, _)| !is_merge(key)) {
            let is_one = matches!(value.value, Value::Mapping(_) | Value::Sequence(_));
            if is_one && !is_tagged(key, facts) {
                let name = key.text().unwrap_or_default();
                let message = format!("the value of `{name}` must be text");
                problems.push(Problem { rule: TYPE, line: key.line, message });
            }
        }
    }
}

/// Returns whether the line of a key contains a tag of Compose: `!reset`, `!override`.
fn is_tagged(key: &Node, facts: &Facts<'_>) -> bool {
    facts.line(key.line).contains(": !")
}

/// Checks the form of the values of one part.
fn values(part: &Node, row: &SectionRow, facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    for (key, value) in part.entries() {
        let Some(name) = key.text() else { continue };
        if is_tagged(key, facts) {
            continue;
        }
        let has = |keys: &[String]| keys.iter().any(|one| one == name);
        let form = row.forms.iter().find(|(_, keys)| has(keys)).map(|(form, _)| *form);
        let choices = row.choices.iter().find_map(|one| one.strip_prefix(name)?.strip_prefix(' '));
        let mut push = |rule, message| {
            problems.push(Problem { rule, line: key.line, message });
        };
        match (&value.value, form) {
            (Value::Sequence(_), Some(ValueForm::Text)) => {
                push(TYPE, format!("`{name}` must be text, not a list"));
            }
            (Value::Mapping(_), Some(ValueForm::Text)) => {
                push(TYPE, format!("`{name}` must be text, not a mapping"));
            }
            (Value::Mapping(_), Some(ValueForm::List)) => {
                push(TYPE, format!("`{name}` must be a list, not a mapping"));
            }
            (Value::Scalar(text), _) if super::structure::is_nothing(value, text) => {}
            (Value::Scalar(_), Some(ValueForm::List)) => {
                push(TYPE, format!("`{name}` must be a list, not text"));
            }
            (Value::Scalar(text), _) => {
                let shown = interpolated(text);
                let is_plain = value.is_plain && *text == shown;
                if shown.contains(UNKNOWN) {
                    continue;
                }
                let wrong = form.and_then(|form| refused(form, &shown, is_plain));
                let wrong = wrong.or_else(|| other(choices?, &shown));
                if let Some(wrong) = wrong {
                    push(VALUE, format!("`{name}: {text}`: {wrong}"));
                }
            }
            _ => {}
        }
    }
}

/// Returns what is wrong with a value that has another form.
fn refused(form: ValueForm, text: &str, is_plain: bool) -> Option<String> {
    let is_number = text.parse::<f64>().is_ok() && !text.contains(['n', 'N']);
    let wrong = match form {
        ValueForm::Text if is_plain && (is_number || matches!(text, "true" | "false")) => {
            return Some(format!("the value must be text, `\"{text}\"`"));
        }
        ValueForm::Number if !is_number => "this is not a number",
        ValueForm::Boolean if !is_boolean(text) => "the value must be `true` or `false`",
        ValueForm::Duration if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Some(format!("a time needs a unit, `{text}s`"));
        }
        ValueForm::Duration if !is_duration(text) => {
            "a time is written as `90s`, `5m` or `1m30s`, without blanks"
        }
        ValueForm::Size if !is_size(text) => "a size is written as `512m` or `16g`",
        _ => return None,
    };
    Some(wrong.to_owned())
}

/// Returns what is wrong with a value that is none of those that a key can have.
fn other(choices: &str, text: &str) -> Option<String> {
    let is_one = |choice: &str| {
        choice.strip_suffix('*').map_or(choice == text, |start| text.starts_with(start))
    };
    let mut all = choices.split(' ');
    let shown = || choices.split(' ').map(|one| format!("`{}`", one.replace('*', "…")));
    (!all.any(is_one))
        .then(|| format!("the value must be one of {}", shown().collect::<Vec<_>>().join(", ")))
}

fn is_boolean(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(&*lower, "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n")
}

/// Returns whether a text consists of numbers with units of time: `1m30s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    let is_empty = rest.is_empty();
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h", "d", "w"]
            .into_iter()
            .find_map(|unit| after.strip_prefix(unit))
            .filter(|next| !next.starts_with(|c: char| c.is_alphabetic()));
        let Some(next) = unit.filter(|_| after.len() < rest.len()) else { return false };
        rest = next;
    }
    !is_empty
}

/// Returns whether a text is a number of bytes with a unit: `16g`, `16 GB`, `16GiB`.
fn is_size(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    if text == "-1" {
        return true;
    }
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let unit = number.strip_prefix(' ').unwrap_or(number);
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let is_unit = matches!(unit, "" | "k" | "m" | "g" | "t" | "p")
        || matches!(unit, "ki" | "mi" | "gi" | "ti" | "pi" | "i");
    number.len() < text.len() && is_unit
}
