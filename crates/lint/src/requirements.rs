//! Reads the lists of requirements that a Dockerfile installs, also as if they were written in its
//! commands.

use crate::Exists;
use crate::shell::{ShellCommand, commands};

/// A list of requirements that a command of a Dockerfile installs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// Its path, as the command names it.
    pub(crate) path: String,
    /// The line of the option.
    pub(crate) line: usize,
    /// Its text.
    pub(crate) text: String,
}

/// Returns the lists in the folder of a Dockerfile that it copies into the image, and that a command
/// installs.
pub(crate) fn installed(
    file: &str,
    text: &str,
    command: &ShellCommand,
    exists: &dyn Exists,
) -> Vec<List> {
    let mut lists = Vec::new();
    for (_, path, line) in options(command) {
        let before: Vec<&str> = text.lines().take(line).collect();
        if !is_copied(&before, &path) {
            continue;
        }
        let sources = sources(&before, &path);
        let found = sources.iter().find_map(|source| exists.in_context(file, source));
        lists.extend(found.map(|own| List { path, line, text: own }));
    }
    lists
}

/// Returns whether a file of an image certainly comes from the folder of the Dockerfile: the lines
/// before copy it by its name, or copy the whole folder, and clone nothing that can contain a file
/// with this name.
fn is_copied(before: &[&str], path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // The newest file with this name counts.
    for line in before.iter().rev() {
        if line.contains("git clone") || line.contains("ADD http") {
            return false;
        }
        let words = copy(line);
        let Some((_, sources)) = words.split_last() else { continue };
        let is_whole = |source: &&str| matches!(*source, "." | "./" | "/");
        if words.iter().any(|word| word.rsplit('/').next() == Some(name))
            || sources.iter().any(|source| is_whole(source) || path.starts_with(*source))
        {
            return true;
        }
    }
    false
}

/// Returns the words of `COPY` and `ADD`, without options; none for other lines, and for copies from
/// another stage.
fn copy(line: &str) -> Vec<&str> {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_copy = ["COPY", "ADD"].iter().any(|one| first.eq_ignore_ascii_case(one));
    if !is_copy || line.contains("--from=") {
        return Vec::new();
    }
    line.split(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | ',' | '"'))
        .filter(|word| !word.is_empty() && *word != "\\")
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect()
}

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
    if !text.contains("install") || ["if [", "case ", "else"].iter().any(|word| text.contains(word))
    {
        return None;
    }
    for command in commands("Dockerfile", text) {
        for (option, path, line) in options(&command) {
            let before: Vec<&str> = text.lines().take(line).collect();
            let sources = sources(&before, &path);
            let mut texts = sources.iter().filter_map(|source| exists.in_context(file, source));
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
pub(crate) fn options(command: &ShellCommand) -> Vec<(String, String, usize)> {
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
    let is_named = |word: &str| word.rsplit('/').next() == Some(name);
    let mut found = Vec::new();
    for words in before.iter().rev().map(|line| copy(line)) {
        // The copy can have another name.
        if let [source, target] = words.as_slice()
            && is_named(target)
            && !is_named(source)
            && source.contains('.')
        {
            return vec![(*source).to_owned()];
        }
        found.extend(words.into_iter().filter(|word| is_named(word)).map(str::to_owned));
    }
    found.extend([path.to_owned(), name.to_owned()]);
    found
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
        fn text(&self, _: &str, path: &str) -> Option<String> {
            let text = "# a list\n--extra-index-url https://x/whl\ntorch==2.9.1 # new\nb>=1; python_version < \"3.9\"\n";
            (path == "docker/r.txt").then(|| text.to_owned())
        }
    }

    #[test]
    fn a_copy_can_have_another_name() {
        assert_eq!(sources(&["FROM a", "COPY r-rocm.txt ./r.txt"], "r.txt"), ["r-rocm.txt"]);
        let same = ["FROM a", "COPY docker/r.txt /tmp/"];
        assert_eq!(sources(&same, "/tmp/r.txt"), ["docker/r.txt", "/tmp/r.txt", "r.txt"]);
        for (text, expected) in [
            (vec!["COPY . /app"], true),
            (vec!["COPY [\"r.txt\", \"/app/\"]"], true),
            (vec!["COPY --from=a /r.txt /r.txt"], false),
            (vec!["COPY a.txt /app/"], false),
            (vec!["COPY . /app", "RUN git clone b"], false),
        ] {
            assert_eq!(is_copied(&text, "r.txt"), expected, "{text:?}");
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
