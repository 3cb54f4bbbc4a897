//! Finds the commands of a CMake file, so that a probe can let CMake evaluate some of them.

/// Returns the text of every command, in order: `set(A "b;c")`. Comments are no commands. What cannot
/// be a command is left out, and so is an unfinished one.
pub(crate) fn commands(text: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if next == '#' {
            at = comment_end(text, at);
        } else if next == '_' || next.is_ascii_alphabetic() {
            let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
            let name = text[at..].find(|c| !is_part(c)).map_or(text.len(), |end| at + end);
            let blank = text[name..].find(|c| c != ' ' && c != '\t');
            let open = blank.map_or(text.len(), |blank| name + blank);
            at = if text[open..].starts_with('(') {
                let Some(end) = arguments_end(text, open + 1) else { return commands };
                commands.push(&text[at..end]);
                end
            } else {
                open.max(name)
            };
        } else {
            at += next.len_utf8();
        }
    }
    commands
}

/// Returns the end of the comment that starts at `at`.
fn comment_end(text: &str, at: usize) -> usize {
    match bracket_end(text, at + 1) {
        Some(end) => end,
        None => text[at..].find('\n').map_or(text.len(), |end| at + end),
    }
}

/// Returns the end of the bracket argument (`[[…]]`, `[=[…]=]`) that starts at `at`.
fn bracket_end(text: &str, at: usize) -> Option<usize> {
    let inside = text[at..].strip_prefix('[')?;
    let equals = inside.len() - inside.trim_start_matches('=').len();
    if !inside[equals..].starts_with('[') {
        return None;
    }
    let close = format!("]{}]", "=".repeat(equals));
    let start = at + equals + 2;
    Some(text[start..].find(&close).map_or(text.len(), |end| start + end + close.len()))
}

/// Returns the end of the command whose arguments start at `at`, behind its closing parenthesis.
fn arguments_end(text: &str, mut at: usize) -> Option<usize> {
    let mut depth = 1_usize;
    while let Some(next) = text[at..].chars().next() {
        match next {
            '#' => at = comment_end(text, at),
            '"' => at = quoted_end(text, at + 1)?,
            '[' => at = bracket_end(text, at).unwrap_or(at + 1),
            '\\' => at += 1 + text[at + 1..].chars().next()?.len_utf8(),
            _ => {
                at += next.len_utf8();
                depth = match next {
                    '(' => depth + 1,
                    ')' => depth - 1,
                    _ => depth,
                };
                if depth == 0 {
                    return Some(at);
                }
            }
        }
    }
    None
}

/// Returns the end of the quoted argument whose text starts at `at`.
fn quoted_end(text: &str, mut at: usize) -> Option<usize> {
    while let Some(next) = text[at..].chars().next() {
        at += next.len_utf8();
        match next {
            '"' => return Some(at),
            '\\' => at += text[at..].chars().next()?.len_utf8(),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_however_they_are_written() {
        let text = "# set(A \"x\")\n#[[ set(B y) ]]\nset(A \"a;b)\" # set(C z)\n  c)\n\
            if (NOT (A)) \n list ( REMOVE_ITEM A b\\) )\nendif()\nset(D [=[ ]] ) ]=] e)\nset(E";
        assert_eq!(
            commands(text),
            [
                "set(A \"a;b)\" # set(C z)\n  c)",
                "if (NOT (A))",
                "list ( REMOVE_ITEM A b\\) )",
                "endif()",
                "set(D [=[ ]] ) ]=] e)",
            ]
        );
        for odd in ["", "(", "set", "set(\"", "set(\\", "ä(b)", "#", "#[", "set([", "1a(b) _x()"] {
            commands(odd);
        }
        assert_eq!(commands("_x()"), ["_x()"]);
    }
}
