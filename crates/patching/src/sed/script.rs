//! Splits a sed script into commands, so that each can be checked separately.
//!
//! Only scripts whose commands do not depend on each other are split; any other script stays in one
//! piece.

/// Returns the commands of a script. Joined by newlines, they are equivalent to the script.
pub(super) fn pieces(script: &str) -> Vec<String> {
    split(script).unwrap_or_else(|| vec![script.to_owned()])
}

/// Returns whether a pattern of `script` contains a newline, which it can never match, because sed
/// reads line by line.
pub(super) fn waits_for_line_ends(script: &str, options: &[String]) -> bool {
    if options.iter().any(|option| option == "-z") {
        return false;
    }
    // A script that cannot be split may join lines (`N`, `G`, `H`).
    let Some(pieces) = split(script) else { return false };
    pieces.iter().any(|piece| {
        let mut scanner = Scanner { chars: piece.chars().collect(), at: 0 };
        let start = scanner.address().map(|()| scanner.at);
        let at = match start {
            Some(at) if scanner.chars.get(at) == Some(&'s') => at,
            _ => return has_line_end(&piece.chars().collect::<Vec<_>>()[..scanner.at]),
        };
        scanner.at = at + 2;
        let pattern = scanner.delimited(scanner.chars.get(at + 1).copied().unwrap_or('/'), true);
        has_line_end(&scanner.chars[..at])
            || pattern.is_some_and(|range| has_line_end(&scanner.chars[range]))
    })
}

fn has_line_end(pattern: &[char]) -> bool {
    let mut at = 0;
    while at + 1 < pattern.len() {
        match (pattern[at], pattern[at + 1]) {
            ('\\', 'n') => return true,
            ('\\', _) => at += 2,
            _ => at += 1,
        }
    }
    false
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
}

fn split(script: &str) -> Option<Vec<String>> {
    let mut scanner = Scanner { chars: script.chars().collect(), at: 0 };
    let mut pieces = Vec::new();
    loop {
        while scanner.peek().is_some_and(|c| c.is_whitespace() || c == ';') {
            scanner.at += 1;
        }
        if scanner.peek().is_none() {
            return Some(pieces);
        }
        let start = scanner.at;
        scanner.address()?;
        scanner.command()?;
        let piece: String = scanner.chars[start..scanner.at].iter().collect();
        if !piece.starts_with('#') {
            pieces.push(piece);
        }
    }
}

impl Scanner {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    fn skip_line(&mut self) {
        while let Some(c) = self.peek().filter(|c| *c != '\n') {
            self.at += if c == '\\' { 2 } else { 1 };
        }
        self.at = self.at.min(self.chars.len());
    }

    /// Reads up to `delimiter`, which is skipped. Inside brackets, it is an ordinary character.
    fn delimited(&mut self, delimiter: char, is_pattern: bool) -> Option<std::ops::Range<usize>> {
        let start = self.at;
        loop {
            match self.peek()? {
                c if c == delimiter => {
                    self.at += 1;
                    return Some(start..self.at - 1);
                }
                '\\' => self.at += 2,
                '[' if is_pattern => {
                    self.at += 1;
                    self.skip(|c| c == '^');
                    // A closing bracket in first position is an ordinary character.
                    self.at += 1;
                    self.skip(|c| c != ']' && c != '\n');
                }
                _ => self.at += 1,
            }
        }
    }

    /// Reads zero, one or two addresses.
    fn address(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some('/') => {
                    self.at += 1;
                    self.delimited('/', true)?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                Some('\\') => {
                    let delimiter = *self.chars.get(self.at + 1)?;
                    self.at += 2;
                    self.delimited(delimiter, true)?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                Some(first) if first.is_ascii_digit() || matches!(first, '$' | '+' | '~') => {
                    self.skip(|c| c.is_ascii_digit() || matches!(c, '$' | '+' | '~'));
                }
                _ => {}
            }
            self.skip(|c| c == ' ');
            match self.peek() {
                Some(',') => self.at += 1,
                Some('!') => {
                    self.skip(|c| matches!(c, '!' | ' '));
                    return Some(());
                }
                _ => return Some(()),
            }
            self.skip(|c| c == ' ');
        }
    }

    /// Reads a command that does not depend on others.
    fn command(&mut self) -> Option<()> {
        let command = self.peek()?;
        self.at += 1;
        match command {
            's' | 'y' => {
                let delimiter = self.peek().filter(|c| !c.is_whitespace() && *c != '\\')?;
                self.at += 1;
                self.delimited(delimiter, command == 's')?;
                self.delimited(delimiter, false)?;
                self.skip(|c| c.is_ascii_alphanumeric());
            }
            'a' | 'i' | 'c' | 'r' | 'R' | 'w' | 'W' => self.skip_line(),
            '#' => self.skip_line(),
            'd' | 'p' | 'q' | 'Q' | '=' | 'l' => self.skip(|c| c.is_ascii_digit() || c == ' '),
            _ => return None,
        }
        self.skip(|c| c == ' ');
        // Nothing else may follow, for example a closing brace.
        self.peek().is_none_or(|c| matches!(c, ';' | '\n')).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_taken_apart() {
        for (script, expected) in [
            ("s/a/b/", &["s/a/b/"] as &[&str]),
            ("s/a/b/g;s|c/d|e;f|", &["s/a/b/g", "s|c/d|e;f|"]),
            ("/x;y/d; 3,$p\n# no\ns#a\\#b#c#", &["/x;y/d", "3,$p", "s#a\\#b#c#"]),
            ("s/[/;]/x/; \\,a/b,d", &["s/[/;]/x/", "\\,a/b,d"]),
            ("/a/,/b/ s/c/d/I", &["/a/,/b/ s/c/d/I"]),
            ("/a/!d", &["/a/!d"]),
            ("/x/a\\\n  y; z", &["/x/a\\\n  y; z"]),
            ("/x/i y; z", &["/x/i y; z"]),
            // Not split.
            ("N;s/a\\nb/c/", &["N;s/a\\nb/c/"]),
            ("/a/{s/b/c/;d}", &["/a/{s/b/c/;d}"]),
            (":a;s/x//;ta", &[":a;s/x//;ta"]),
            ("s/a/b", &["s/a/b"]),
            ("", &[]),
        ] {
            assert_eq!(pieces(script), expected, "{script}");
        }
    }

    #[test]
    fn line_ends_that_never_come_are_seen() {
        let none: Vec<String> = Vec::new();
        for (script, waits) in [
            ("s/a\\nb/c/", true),
            ("s/a\\n\\(b\\)/c/", true),
            ("/a\\nb/d", true),
            ("s/a/b\\nc/", false),
            ("s/a\\\\nb/c/", false),
            ("N;s/a\\nb/c/", false),
            ("s/a/b/", false),
        ] {
            assert_eq!(waits_for_line_ends(script, &none), waits, "{script}");
        }
        assert!(!waits_for_line_ends("s/a\\nb/c/", &["-z".to_owned()]));
    }

    #[test]
    fn hostile_scripts_come_to_an_end() {
        for script in ["s", "s/", "s/[", "s/[^", "\\", "s/\\", "/", "1,", "a\\", "s/a/\\", "y/"] {
            pieces(script);
            waits_for_line_ends(script, &[]);
        }
    }
}
