//! Finds `sed -i` calls among the commands of a file.

use lint::shell::{ShellCommand, UNKNOWN, Word};

/// A call of `sed -i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SedCall {
    /// The line where it starts.
    pub(crate) line: usize,
    /// The text after `-i`, empty if there is none.
    pub(crate) suffix: String,
    /// The options that change the effect of the script: `-E`, `-n`, `-z`.
    pub(crate) options: Vec<String>,
    /// The scripts, in order.
    pub(crate) scripts: Vec<String>,
    /// The file that contains the script, if it is not on the command line.
    pub(crate) script_file: Option<String>,
    /// The files, relative to `folder`.
    pub(crate) files: Vec<String>,
    /// The working directory of the command.
    pub(crate) folder: String,
    /// The program that chooses the files, if any, such as `find` or `xargs`.
    pub(crate) chooser: Option<String>,
}

/// Returns the call of `sed -i` in a command, if there is one.
pub(crate) fn sed_call(command: &ShellCommand) -> Option<SedCall> {
    let is_sed = |word: &Word| matches!(word.text.rsplit('/').next(), Some("sed" | "gsed"));
    let at = command.words.iter().position(is_sed)?;
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    let chooser = (at > 0).then(|| program.to_owned());
    if at > 0 && !["find", "xargs", "parallel", "fd", "git"].contains(&program) {
        return None;
    }
    let mut call = SedCall {
        line: command.words[at].line,
        suffix: String::new(),
        options: Vec::new(),
        scripts: Vec::new(),
        script_file: None,
        files: Vec::new(),
        folder: command.folder.clone(),
        chooser,
    };
    let is_in_place = read(&mut call, &command.words[at + 1..]);
    is_in_place.then_some(call)
}

/// Parses the words after `sed`. Returns whether the call edits in place.
fn read(call: &mut SedCall, words: &[Word]) -> bool {
    let mut is_in_place = false;
    let mut others: Vec<String> = Vec::new();
    let mut words = words.iter().map(|word| word.text.as_str());
    let mut only_files = false;
    while let Some(word) = words.next() {
        if only_files || !word.starts_with('-') || word == "-" {
            others.push(word.to_owned());
            continue;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            match name {
                "" => only_files = true,
                "in-place" => {
                    is_in_place = true;
                    call.suffix = value.unwrap_or_default().to_owned();
                }
                "expression" => {
                    call.scripts.extend(value.or_else(|| words.next()).map(str::to_owned));
                }
                "file" => call.script_file = value.or_else(|| words.next()).map(str::to_owned),
                "regexp-extended" => call.options.push("-E".to_owned()),
                "quiet" | "silent" => call.options.push("-n".to_owned()),
                "null-data" => call.options.push("-z".to_owned()),
                _ => {}
            }
            continue;
        }
        let letters = &word[1..];
        for (index, letter) in letters.char_indices() {
            let rest = &letters[index + letter.len_utf8()..];
            let mut value =
                || if rest.is_empty() { words.next() } else { Some(rest) }.map(str::to_owned);
            match letter {
                // Everything after it is the suffix of a backup file, even if it looks like an
                // option.
                'i' => {
                    is_in_place = true;
                    rest.clone_into(&mut call.suffix);
                    break;
                }
                'e' => {
                    call.scripts.extend(value());
                    break;
                }
                'f' => {
                    call.script_file = value();
                    break;
                }
                'l' => {
                    value();
                    break;
                }
                'E' | 'r' => call.options.push("-E".to_owned()),
                'n' | 'z' => call.options.push(format!("-{letter}")),
                _ => {}
            }
        }
    }
    if call.scripts.is_empty() && call.script_file.is_none() && !others.is_empty() {
        call.scripts.push(others.remove(0));
    }
    call.files = others;
    is_in_place
}

impl SedCall {
    /// Returns the reason why the call cannot be checked, or `None` if it can.
    pub(crate) fn obstacle(&self) -> Option<String> {
        if let Some(file) = &self.script_file {
            return Some(format!("its script is in `{file}`"));
        }
        if let Some(chooser) = &self.chooser {
            return Some(format!("`{chooser}` chooses the files when it runs"));
        }
        if self.scripts.iter().any(|script| script.contains(UNKNOWN)) {
            return Some("its script depends on an unknown variable or command".to_owned());
        }
        self.files.is_empty().then(|| "it does not name a file".to_owned())
    }

    /// Returns the scripts, shortened for messages.
    pub(crate) fn shown(&self) -> String {
        const LONGEST: usize = 70;
        let text = self.scripts.join("; ").replace('\n', "\\n").replace(UNKNOWN, "…");
        match text.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lint::shell::commands;

    fn check(line: &str, expected: Option<(&str, &str, &[&str], &[&str])>) {
        let call = commands("x.sh", line).iter().find_map(sed_call);
        let found = call.as_ref().map(|call| {
            let scripts: Vec<&str> = call.scripts.iter().map(String::as_str).collect();
            let files: Vec<&str> = call.files.iter().map(String::as_str).collect();
            (call.options.join(" "), call.suffix.clone(), scripts, files)
        });
        let expected =
            expected.map(|(a, b, c, d)| (a.to_owned(), b.to_owned(), c.to_vec(), d.to_vec()));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn options_are_read_as_sed_reads_them() {
        check("sed -i 's/a/b/' f g", Some(("", "", &["s/a/b/"], &["f", "g"])));
        check("sed -i -E -e a -e b f", Some(("-E", "", &["a", "b"], &["f"])));
        check("sed -i.bak -r --expression=a -- -f", Some(("-E", ".bak", &["a"], &["-f"])));
        check("sed -ie 's/a/b/' f", Some(("", "e", &["s/a/b/"], &["f"])));
        check("sed -Ei 's/a/b/' f", Some(("-E", "", &["s/a/b/"], &["f"])));
        check("sed -i -z -n --quiet -ea f", Some(("-z -n -n", "", &["a"], &["f"])));
        check("sed --in-place=.b -e a \"my file\"", Some(("", ".b", &["a"], &["my file"])));
        check("FOO=1 sudo /usr/bin/sed -i a f", Some(("", "", &["a"], &["f"])));
        check("sed 's/a/b/' f", None);
        check("echo sed -i a f", None);
    }

    #[test]
    fn what_cannot_be_judged_says_why() {
        for (line, why) in [
            ("find . -name '*.py' -exec sed -i 's/a/b/' {} \\;", Some("`find` chooses")),
            ("grep -rl a | xargs sed -i 's/a/b/'", Some("`xargs` chooses")),
            ("sed -i \"s/$A/b/\" f", Some("variable")),
            ("sed -i -f x.sed f", Some("`x.sed`")),
            ("sed -i 's/a/b/'", Some("not name a file")),
            ("A=1; sed -i \"s/$A/b/\" f", None),
        ] {
            let call = commands("x.sh", line).iter().find_map(sed_call).expect(line);
            let obstacle = call.obstacle();
            assert_eq!(obstacle.is_some(), why.is_some(), "{line}: {obstacle:?}");
            assert!(obstacle.unwrap_or_default().contains(why.unwrap_or_default()), "{line}");
        }
    }
}
