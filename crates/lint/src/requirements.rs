//! Reads the lists of requirements that a Dockerfile installs, as if they were written in its
//! commands.

use crate::Exists;
use crate::shell::{ShellCommand, commands};

/// A Dockerfile with its lists of requirements.
pub(crate) struct Inlined {
    /// Its text, with the requirements in place of `-r FILE`. The lines have the same numbers.
    pub(crate) text: String,
    /// The texts of the lists.
    pub(crate) lists: Vec<String>,
}

/// The maximum number of requirements in a list.
const MOST: usize = 500;

/// Returns a Dockerfile with the requirements of the lists in its folder; `None` if it installs no
/// such list.
pub(crate) fn inlined(file: &str, text: &str, exists: &dyn Exists) -> Option<Inlined> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut lists = Vec::new();
    // The lists can belong to different branches.
    if ["if [", "case ", "else"].iter().any(|word| text.contains(word)) {
        return None;
    }
    for command in commands("Dockerfile", text) {
        for (option, path, line) in options(&command) {
            let before: Vec<&str> = text.lines().take(line).collect();
            let sources = sources(&before, &path);
            let mut texts = sources.iter().filter_map(|source| exists.text(file, source));
            let (Some(list), Some(own)) = (texts.next(), lines.get_mut(line - 1)) else { continue };
            if let Some(words) = words(&list) {
                *own = own.replacen(&option, &words, 1);
                lists.push(list);
            }
        }
    }
    (!lists.is_empty()).then(|| Inlined { text: lines.join("\n"), lists })
}

/// Returns the `-r FILE` of a command as they are written, with the paths and lines.
fn options(command: &ShellCommand) -> Vec<(String, String, usize)> {
    let words = command.texts();
    if !words.contains(&"install") {
        return Vec::new();
    }
    let pairs = command.words.windows(2).filter(|two| {
        matches!(two[0].text.as_str(), "-r" | "--requirement") && two[0].line == two[1].line
    });
    let pairs = pairs.map(|two| {
        let (option, path) = (&two[0].text, &two[1].text);
        (format!("{option} {path}"), path.clone(), two[1].line)
    });
    let joined = command.words.iter().filter_map(|word| {
        let path = word.text.strip_prefix("-r").filter(|path| path.ends_with(".txt"))?;
        Some((word.text.clone(), path.to_owned(), word.line))
    });
    pairs.chain(joined).collect()
}

/// Returns the paths from which a file in the image can be copied.
fn sources(before: &[&str], path: &str) -> Vec<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let copies = before.iter().rev().map(|line| line.trim_start()).filter(|line| {
        let start = line.split_whitespace().next().unwrap_or_default();
        ["COPY", "ADD"].iter().any(|one| start.eq_ignore_ascii_case(one))
            && !line.contains("--from=")
    });
    let words = copies.flat_map(str::split_whitespace);
    let copied = words.filter(|word| word.rsplit('/').next() == Some(name)).map(str::to_owned);
    copied.chain([path.to_owned(), name.to_owned()]).collect()
}

/// Returns the words of a list of requirements for a command line.
fn words(list: &str) -> Option<String> {
    let lines = list.lines().map(|line| {
        let line = line.split(" #").next().unwrap_or_default();
        line.split(" --hash").next().unwrap_or_default().trim()
    });
    let is_wanted = |line: &&str| {
        let is_other = ["#", "-r", "-c", "--hash", "--requirement", "--constraint", "-e "];
        !line.is_empty() && !is_other.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = lines.filter(is_wanted).collect();
    // Such a text would change the command.
    let is_safe = lines.iter().all(|line| !line.contains(['"', '`', '$']) || line.contains(';'));
    if lines.len() > MOST || !is_safe {
        return None;
    }
    let word = |line: &&str| {
        let line = line.trim_end_matches('\\').trim_end();
        if line.starts_with('-') {
            return line.to_owned();
        }
        // A package with a condition.
        let (name, condition) =
            line.split_once(';').map_or((line, ""), |(name, rest)| (name, rest));
        let condition = if condition.is_empty() { "" } else { "; sys_platform" };
        format!("'{}{condition}'", name.trim())
    };
    Some(lines.iter().map(word).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Folder;

    impl Exists for Folder {
        fn exists(&self, _: &str, _: &str) -> Option<bool> {
            None
        }

        fn compose_files(&self, _: &str) -> Vec<String> {
            Vec::new()
        }

        fn text(&self, _: &str, path: &str) -> Option<String> {
            let text = "# a list\n--extra-index-url https://x/whl\ntorch==2.9.1 # new\nb>=1; python_version < \"3.9\"\n";
            (path == "docker/r.txt").then(|| text.to_owned())
        }
    }

    #[test]
    fn a_list_takes_the_place_of_its_option() {
        let text = "FROM a\nCOPY docker/r.txt /tmp/\nRUN pip install -r /tmp/r.txt && b\nRUN pip install -r other.txt\n";
        let inlined = inlined("Dockerfile", text, &Folder).unwrap();
        let third = "RUN pip install --extra-index-url https://x/whl 'torch==2.9.1' 'b>=1; sys_platform' && b";
        assert_eq!(inlined.text.lines().nth(2), Some(third));
        assert_eq!((inlined.text.lines().count(), inlined.lists.len()), (4, 1));
    }
}
