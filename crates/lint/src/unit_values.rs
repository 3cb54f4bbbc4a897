//! Checks the values of systemd units and quadlets: words that a key can have, times, sizes, and
//! commands that only a shell would understand.

use crate::data::{SectionRow, ValueForm, data};
use crate::facts::{Facts, Problem};
use crate::units::Line;

/// The rule for values that systemd or Quadlet does not understand.
const VALUE: &str = "unit-value";

/// The rule for commands that only a shell would understand.
const SHELL: &str = "unit-shell";

/// Adds the problems of the values of a unit.
pub(crate) fn check(lines: &[Line], facts: &mut Facts<'_>) {
    let mut problems = Vec::new();
    for line in lines {
        if ["{{", "{%", "<%", "@"].iter().any(|mark| line.value.contains(mark)) {
            continue;
        }
        if let Some(problem) = comment(line) {
            problems.push(problem);
            continue;
        }
        let rows = data().sections.iter().chain(&data().quadlets);
        if let Some(row) = rows.into_iter().find(|row| row.section == line.section) {
            problems.extend(form(line, row));
        }
        problems.extend(path(line));
        problems.extend(assignments(line));
        problems.extend(shell(line));
    }
    problems.extend(several(lines));
    facts.problems.extend(problems);
}

/// Returns the problem if a value has another form than its key wants.
fn form(line: &Line, row: &SectionRow) -> Option<Problem> {
    let Line { key, value, number, .. } = line;
    let value = value.trim_matches('"');
    if value.is_empty() || value.contains(['$', '%']) {
        return None;
    }
    let is_one = |keys: &[String]| keys.iter().any(|one| one == key);
    let choices =
        row.choices.iter().find_map(|one| one.strip_prefix(key.as_str())?.strip_prefix(' '));
    let form = row.forms.iter().find(|(_, keys)| is_one(keys)).map(|(form, _)| *form);
    let is_quadlet = data().quadlets.iter().any(|one| one.section == row.section);
    let wrong = match (form, choices) {
        (Some(ValueForm::Boolean), _) if !is_boolean(value) => {
            "this is neither yes nor no".to_owned()
        }
        (Some(ValueForm::Duration), _) if !is_span(value) => {
            "a time is written as `90`, `5min` or `1h 30s`".to_owned()
        }
        (Some(ValueForm::Size), _) if !is_quadlet && !is_size(value) => {
            "a size is written as `8G` or `50%`".to_owned()
        }
        (_, Some(choices)) => {
            let fits = |choice: &str| {
                choice.strip_suffix('*').map_or(choice == value, |start| value.starts_with(start))
            };
            let shown = choices.split(' ').map(|one| format!("`{}`", one.replace('*', "…")));
            if choices.split(' ').any(fits) || choices.contains("yes") && is_boolean(value) {
                return None;
            }
            format!("the value must be one of {}", shown.collect::<Vec<_>>().join(", "))
        }
        _ => return None,
    };
    let message = format!("`{key}={value}`: {wrong}");
    Some(Problem { rule: VALUE, line: *number, message })
}

fn is_boolean(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(
        &*lower,
        "1" | "yes" | "y" | "true" | "t" | "on" | "0" | "no" | "n" | "false" | "f" | "off"
    )
}

/// The units of times (systemd.time(7)).
const UNITS: [&str; 32] = [
    "usec", "us", "µs", "msec", "ms", "seconds", "second", "sec", "s", "minutes", "minute", "min",
    "m", "hours", "hour", "hr", "h", "days", "day", "d", "weeks", "week", "w", "months", "month",
    "M", "years", "year", "y", "nsec", "ns", "",
];

/// Returns whether a text is a time span of systemd.
fn is_span(text: &str) -> bool {
    if text == "infinity" {
        return true;
    }
    let mut rest = text.trim();
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if after.len() == rest.len() {
            return false;
        }
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        if !UNITS.contains(&&after[..end]) {
            return false;
        }
        rest = after[end..].trim_start();
    }
    true
}

/// Returns whether a text is a size of systemd.
fn is_size(text: &str) -> bool {
    let number = text.trim_end_matches(|c: char| "KMGTPEB%".contains(c));
    let unit = &text[number.len()..];
    text == "infinity" || unit.len() <= 1 && number.parse::<f64>().is_ok()
}

/// Keys whose values are text for people or the words of a command.
const FREE: [&str; 6] =
    ["Annotation", "Description", "Documentation", "GlobalArgs", "Label", "PodmanArgs"];

/// Returns the problem if a value ends with a comment, which systemd takes for a part of the value.
fn comment(line: &Line) -> Option<Problem> {
    let is_free = FREE.contains(&&*line.key) || line.key.starts_with("Exec");
    let at = line.value.find(" #").filter(|_| !is_free)?;
    let is_quoted = line.value.starts_with(['"', '\'']);
    let message = format!(
        "`{}` is a part of the value of `{}=`: a comment needs a line of its own",
        line.value[at..].trim(),
        line.key
    );
    (!is_quoted).then_some(Problem { rule: VALUE, line: line.number, message })
}

/// Returns the problem if a path begins with `~`, which only a shell replaces, or is relative.
fn path(line: &Line) -> Option<Problem> {
    let Line { section, key, value, number, .. } = line;
    let value = value.trim_matches('"').trim_start_matches('-');
    let is_home = value.starts_with("~/");
    let wrong = match (section.as_str(), key.as_str()) {
        ("Service", "WorkingDirectory" | "EnvironmentFile") => {
            let is_plain = value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
            is_home || is_plain
        }
        ("Container", "Volume") => is_home,
        _ => false,
    };
    let message = if is_home {
        format!("`{key}={value}`: only a shell replaces `~`; write `%h/…` in a unit of a user")
    } else {
        format!("`{key}={value}`: the path must be absolute")
    };
    wrong.then_some(Problem { rule: VALUE, line: *number, message })
}

/// Returns the problem if a part of `Environment=` is no assignment, because of a blank.
fn assignments(line: &Line) -> Option<Problem> {
    let is_one = line.key == "Environment"
        && matches!(line.section.as_str(), "Build" | "Container" | "Service");
    if !is_one || line.value.contains(['"', '\'', '\\']) {
        return None;
    }
    let mut words = line.value.split_whitespace();
    let first = words.next().filter(|first| first.contains('='))?;
    let lost = words.find(|word| !word.contains('='))?;
    let message = format!("`{lost}` is lost: a value with blanks needs quotes, `\"{first} …\"`");
    Some(Problem { rule: VALUE, line: line.number, message })
}

/// Words that only a shell understands.
const OPERATORS: [&str; 9] = ["&&", "||", "|", ">", ">>", "2>&1", "<", "&", "2>/dev/null"];

/// Programs that only a shell has.
const BUILTINS: [&str; 6] = [".", "cd", "export", "if", "source", "while"];

/// Returns the problem if a command needs a shell.
fn shell(line: &Line) -> Option<Problem> {
    let is_unit = line.section == "Service" && line.key.starts_with("Exec");
    let is_quadlet = line.section == "Container" && line.key == "Exec";
    if !(is_unit || is_quadlet) || line.value.contains(['"', '\'']) {
        return None;
    }
    let value = line.value.trim_start_matches(['-', '@', '+', '!', ':']);
    let words: Vec<&str> = value.split_whitespace().collect();
    let first = words.first()?;
    let name = first.rsplit('/').next().unwrap_or(first);
    let is_shell = words.contains(&"-c") || matches!(name, "bash" | "sh" | "zsh");
    let operator = words.iter().find(|word| OPERATORS.contains(word));
    let message = if is_unit && BUILTINS.contains(first) {
        format!("`{first}` is a command of a shell, and systemd starts none")
    } else if let Some(operator) = operator.filter(|_| !is_shell) {
        format!("`{operator}` is an argument of `{name}`: systemd starts no shell")
    } else if let Some(word) =
        words.iter().find(|word| word.starts_with("~/")).filter(|_| !is_shell)
    {
        format!("only a shell replaces the `~` of `{word}`")
    } else {
        return None;
    };
    Some(Problem { rule: SHELL, line: line.number, message })
}

/// Returns the problem if a service has several commands that start it.
fn several(lines: &[Line]) -> Option<Problem> {
    let is_once = lines.iter().any(|line| line.key == "Type" && line.value == "oneshot");
    let starts = lines.iter().filter(|line| line.section == "Service" && line.key == "ExecStart");
    // An empty value removes those before it.
    let starts: Vec<&Line> = starts.collect();
    let last = starts.iter().rposition(|line| line.value.is_empty()).map_or(0, |at| at + 1);
    let second = starts.get(last + 1)?;
    let message = "only a service with `Type=oneshot` can have several `ExecStart=`".to_owned();
    (!is_once).then_some(Problem { rule: VALUE, line: second.number, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_those_of_systemd() {
        for text in ["90", "5min", "1h 30s", "infinity", "1.5h", "500ms", "2 days"] {
            assert!(is_span(text), "{text}");
        }
        for text in ["5 mins", "soon", "s", "5minutess"] {
            assert!(!is_span(text), "{text}");
        }
        for text in ["8G", "50%", "infinity", "1024", "1.5G"] {
            assert!(is_size(text), "{text}");
        }
        for text in ["8GB", "8g", "8 G", "lots"] {
            assert!(!is_size(text), "{text}");
        }
    }
}
