//! What stands between commands: operators, and words of the shell.

use super::ShellCommand;

/// What follows a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The end of the line, `;`, or nothing.
    End,
    /// `)`
    Close,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
    /// `&`
    Background,
}

impl Operator {
    /// Returns the operator that starts with these two characters.
    pub(super) fn of(first: char, second: Option<char>) -> Self {
        match (first, second) {
            ('&', Some('&')) => Self::And,
            ('|', Some('|')) => Self::Or,
            ('|', _) => Self::Pipe,
            ('&', _) => Self::Background,
            (')', _) => Self::Close,
            _ => Self::End,
        }
    }
}

/// A command without words.
pub(crate) const EMPTY: ShellCommand = ShellCommand {
    words: Vec::new(),
    folder: String::new(),
    stage: 0,
    is_piped: false,
    is_saved: false,
    output: String::new(),
    is_for_other: false,
    operator: Operator::End,
    keywords: String::new(),
};

/// Adds a word to the words before a command.
pub(super) fn add(word: &str, keywords: &mut String) {
    if !keywords.is_empty() {
        keywords.push(' ');
    }
    keywords.push_str(word);
}

/// Notes the parenthesis that opens a group of commands.
pub(super) fn group(c: char, keywords: &mut String) {
    match c {
        '(' => add("(", keywords),
        ')' => keywords.clear(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands;

    #[test]
    fn operators_and_words_are_kept() {
        let text = "a && b || true; (c | d) & if ! e; then f &> x; else g; fi\nuntil h; do i; done";
        let found = commands("x.sh", text);
        let shown: Vec<String> = found
            .iter()
            .map(|one| format!("{}|{}|{:?}", one.keywords, one.words[0].text, one.operator))
            .collect();
        let expected = [
            "|a|And",
            "|b|Or",
            "|true|End",
            "(|c|Pipe",
            "|d|Close",
            "if !|e|End",
            "then|f|End",
            "else|g|End",
            "|fi|End",
            "until|h|End",
            "do|i|End",
            "|done|End",
        ];
        assert_eq!(shown, expected);
    }
}
