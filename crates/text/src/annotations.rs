//! GitHub workflow commands: log lines that annotate files.
//!
//! The syntax is that of GitHub's "Workflow commands". GitHub shows at most ten annotations of each
//! kind per step, so no more are written.

use std::collections::BTreeMap;

use crate::page::Page;

/// The maximum number of annotations of one kind that GitHub shows per step.
const MOST: usize = 10;

/// Severity of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is wrong.
    Error,
    /// Something may be wrong.
    Warning,
    /// Something is worth knowing.
    Notice,
}

/// One annotation in a file.
#[derive(Debug)]
pub struct Annotation<'a> {
    /// Its severity.
    pub level: Level,
    /// The path of the file.
    pub file: &'a str,
    /// The line, from 1.
    pub line: usize,
    /// Its title.
    pub title: String,
    /// Its text.
    pub message: String,
}

/// Returns the lines that annotate files, most severe first.
pub fn lines<'a>(annotations: impl IntoIterator<Item = Annotation<'a>>) -> String {
    let mut by_level: BTreeMap<Level, Vec<Annotation<'a>>> = BTreeMap::new();
    for one in annotations {
        by_level.entry(one.level).or_default().push(one);
    }
    let mut page = Page::default();
    for (level, all) in by_level {
        let word = match level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Notice => "notice",
        };
        for one in all.iter().take(MOST) {
            page.line(format_args!(
                "::{word} file={},line={},title={}::{}",
                property(one.file),
                one.line,
                property(&one.title),
                data(&one.message)
            ));
        }
        if all.len() > MOST {
            page.line(format_args!("{word} annotations not shown: {}", all.len() - MOST));
        }
    }
    page.into_text()
}

/// Escapes the message of an annotation.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of an annotation.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_message_can_be_a_command() {
        let one = |message: &str, level| Annotation {
            level,
            file: "a,b:c.toml",
            line: 3,
            title: "x\n::error::y".to_owned(),
            message: message.to_owned(),
        };
        let text = lines([one("100%\r\n::set-env", Level::Notice), one("z", Level::Error)]);
        assert_eq!(
            text,
            "::error file=a%2Cb%3Ac.toml,line=3,title=x%0A%3A%3Aerror%3A%3Ay::z\n\
             ::notice file=a%2Cb%3Ac.toml,line=3,title=x%0A%3A%3Aerror%3A%3Ay::100%25%0D%0A::set-env\n"
        );
        let many = lines((0..12).map(|_| one("z", Level::Warning)));
        assert_eq!(many.lines().count(), 11);
        assert!(many.ends_with("warning annotations not shown: 2\n"));
    }
}
