//! Parses `.gitmodules`: the path and origin of each submodule.
//!
//! The file has the syntax of git's configuration. Only `path` and `url` are read; everything else
//! in the file, especially `update` commands, is ignored. Anything that cannot be parsed is an
//! error, not a guess.

use std::collections::BTreeMap;

use crate::error::Failure;
use crate::git_ref::TreePath;
use crate::text;
use crate::tree::refusal;

/// The maximum size of the file; the largest in use has about 10 KiB.
pub(super) const MAX_SIZE: usize = 1 << 20;

/// Returns the URL of each submodule by its path.
pub(crate) fn parse(bytes: &[u8]) -> Result<BTreeMap<TreePath, String>, Failure> {
    let refuse = |why: &str| Failure::refused(format!("`.gitmodules` {why}"));
    if bytes.len() > MAX_SIZE {
        return Err(refuse("is larger than 1 MiB"));
    }
    let whole = std::str::from_utf8(bytes).map_err(|_| refuse("is not UTF-8"))?;
    let whole = whole.strip_prefix('\u{feff}').unwrap_or(whole);
    let mut sections: Vec<(Option<String>, Option<String>)> = Vec::new();
    let mut is_submodule = false;
    let mut lines = whole.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let at = |why: &str| refuse(&format!("{why} on line {}", number + 1));
        let mut line = line.trim().to_owned();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (name, rest) = section(rest).ok_or_else(|| at("has an unclosed header"))?;
            is_submodule = name;
            if is_submodule {
                sections.push((None, None));
            }
            line = rest.trim().to_owned();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
        }
        // A backslash at the end of a line joins it with the next.
        while line.ends_with('\\') && !line.ends_with("\\\\") {
            line.pop();
            line.push_str(lines.next().map_or("", |(_, next)| next));
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None => continue,
        };
        let value = unquote(value).ok_or_else(|| at("has an invalid value"))?;
        let Some(last) = sections.last_mut().filter(|_| is_submodule) else { continue };
        match key.to_ascii_lowercase().as_str() {
            "path" => last.0 = Some(value),
            "url" => last.1 = Some(value),
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    for (path, url) in sections {
        let (Some(path), Some(url)) = (path, url) else { continue };
        let path: TreePath = path.trim_end_matches('/').parse().map_err(refusal)?;
        let shown = text::quoted(path.as_str());
        if found.insert(path, url).is_some() {
            return Err(refuse(&format!("has two submodules at {shown}")));
        }
    }
    Ok(found)
}

/// Returns whether a section header is for a submodule, and the text after the header.
fn section(text: &str) -> Option<(bool, &str)> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => {
                let (head, rest) = (&text[..at], &text[at + 1..]);
                let name = head.split([' ', '\t', '"']).next().unwrap_or_default();
                return Some((name.eq_ignore_ascii_case("submodule") && head.contains('"'), rest));
            }
            _ => {}
        }
    }
    None
}

/// Returns a value without quotes, escapes and a trailing comment.
fn unquote(text: &str) -> Option<String> {
    let mut value = String::new();
    // Trailing spaces are kept only inside quotes.
    let mut solid = 0;
    let mut is_quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                value.push(match characters.next()? {
                    'n' => '\n',
                    't' => '\t',
                    'b' => '\u{8}',
                    other @ ('\\' | '"') => other,
                    _ => return None,
                });
                solid = value.len();
            }
            '"' => {
                is_quoted = !is_quoted;
                solid = value.len();
            }
            '#' | ';' if !is_quoted => break,
            other => {
                value.push(other);
                if is_quoted || !other.is_whitespace() {
                    solid = value.len();
                }
            }
        }
    }
    value.truncate(solid);
    (!is_quoted).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse(text.as_bytes()) {
            Ok(found) => {
                let one = |(path, url): (&TreePath, &String)| format!("{path}={url}");
                found.iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Err(failure) => failure.detail,
        }
    }

    #[test]
    fn files_as_they_are_found() {
        for (text, wanted) in [
            ("", ""),
            (
                "[submodule \"csrc/cutlass\"]\n\tpath = csrc/cutlass\n\turl = https://h.example/c.git\n",
                "csrc/cutlass=https://h.example/c.git",
            ),
            (
                "# c\r\n[submodule \"a]\\\"b\"]\r\n; c\r\npath=a/ \r\nURL = \"../x y\" # c\r\nbranch = main\r\nignore\r\n",
                "a=../x y",
            ),
            ("[submodule \"a\"] path = a\nurl = u\n[core]\npath = z\nurl = z\n", "a=u"),
            ("[submodule \"a\"]\npath = a\n[submodule \"b\"]\nurl = u\npath = b\n", "b=u"),
            ("[submodule \"a\"]\npath = a\\\nb\nurl = u\\\\\n", "ab=u\\"),
            ("\u{feff}[SubModule \"a\"]\npath = a\nurl = u\nurl = v\n", "a=v"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_refused() {
        for (text, wanted) in [
            ("[submodule \"a\npath = a\n", "`.gitmodules` has an unclosed header on line 1"),
            ("[submodule \"a\"]\npath = \"a\n", "`.gitmodules` has an invalid value on line 2"),
            ("[submodule \"a\"]\npath = \\q\n", "`.gitmodules` has an invalid value on line 2"),
            ("[submodule \"a\"]\npath = ../a\nurl = u\n", "`../a` is a path that leaves its root"),
            (
                "[submodule \"a\"]\npath = a/.git/hooks\nurl = u\n",
                "is a path into a git repository",
            ),
            ("[submodule \"a\"]\npath = /etc\nurl = u\n", "is an absolute path"),
            (
                "[submodule \"a\"]\npath = a\nurl = u\n[submodule \"b\"]\npath = a\nurl = v\n",
                "`.gitmodules` has two submodules at `a`",
            ),
        ] {
            assert!(shown(text).contains(wanted), "{text}: {}", shown(text));
        }
        assert!(parse(b"\xff").is_err());
        assert!(parse(&vec![b'#'; MAX_SIZE + 1]).is_err());
    }
}
