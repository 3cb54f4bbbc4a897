//! The working directory: `cd`, `pushd`, `popd`, and subshells, which cannot change it for others.

use super::{Reader, UNKNOWN, Word, operator};

/// The directories to which a script can return.
#[derive(Debug, Default)]
pub(super) struct Folders {
    /// Those in which the open subshells began.
    outer: Vec<String>,
    /// Those that `pushd` has left.
    pushed: Vec<String>,
    /// The one before the last `cd`.
    last: String,
}

impl Reader {
    /// Reads a parenthesis: a subshell has its own working directory.
    pub(super) fn group(&mut self, c: char) {
        operator::group(c, &mut self.keywords);
        match c {
            '(' => self.folders.outer.push(self.folder.clone()),
            ')' => self.folder = self.folders.outer.pop().unwrap_or_else(|| self.folder.clone()),
            _ => {}
        }
    }

    /// Reads `cd`, `pushd` or `popd`.
    pub(super) fn enter(&mut self, words: &[Word]) {
        let is_option = |word: &&Word| word.text.len() > 1 && word.text.starts_with('-');
        let given = words[1..].iter().find(|word| !is_option(word)).map(|word| word.text.as_str());
        let next = match (words[0].text.as_str(), given) {
            ("popd", _) => self.folders.pushed.pop(),
            ("cd", Some("-")) => Some(self.folders.last.clone()),
            ("cd", None) => Some("~".to_owned()),
            (_, given) => given.map(|given| join(&self.folder, given)),
        };
        let Some(next) = next else { return };
        self.folders.last = std::mem::replace(&mut self.folder, next);
        if words[0].text == "pushd" {
            self.folders.pushed.push(self.folders.last.clone());
        }
    }
}

pub(super) fn join(folder: &str, next: &str) -> String {
    if next.starts_with(['/', '~', UNKNOWN]) || folder.is_empty() {
        next.to_owned()
    } else {
        format!("{}/{next}", folder.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands;

    #[test]
    fn a_script_returns_to_its_folder() {
        for (text, expected) in [
            ("cd a && x; y", "a a"),
            ("(cd a && x); y", "a -"),
            ("cd a; (cd b; (cd c; x); y); z", "a/b/c a/b a"),
            ("pushd a; x; pushd b; y; popd; z; popd; w", "a a/b a -"),
            ("cd a; cd b; cd -; x", "a"),
            ("cd /a; cd; x", "~"),
            ("cd -P -- a; x", "a"),
            ("popd; x", "-"),
            ("case $A in a) cd b;; esac; x", "b b"),
        ] {
            let found = commands("x.sh", text);
            let shown = found.iter().filter(|one| one.words[0].text != "case");
            let shown: Vec<&str> = shown
                .map(|one| if one.folder.is_empty() { "-" } else { one.folder.as_str() })
                .collect();
            assert_eq!(shown.join(" "), expected, "{text}");
        }
    }
}
