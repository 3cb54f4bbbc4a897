//! What a command of a build does to the files of the image.

use super::files::Owner;
use crate::python::is_pip;
use crate::rules::{cloned_folder, plain};
use crate::shell::{ShellCommand, UNKNOWN};

/// One change. Paths are as the command names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A new folder; with `mkdir -p`, also those above it.
    Folder { path: String, has_parents: bool },
    /// A new file, or one that is written again.
    File(String),
    /// A new folder or file with unknown content.
    Tree(String),
    /// Unknown changes below a folder that exists.
    Inside(String),
    /// The path is removed.
    Gone(String),
    /// The path gets another owner.
    Owned { path: String, owner: Owner, is_deep: bool },
    /// Unknown changes below all folders that commands have made.
    Build,
    /// Unknown changes in the folders of the system, and in caches.
    System,
    /// New files anywhere, which belong to the user.
    Places,
    /// Unknown changes anywhere.
    Anything,
}

/// Programs that change no files of the image, or only those of the system's folders.
const HARMLESS: &[&str] = &[
    "[",
    "[[",
    "add-apt-repository",
    "addgroup",
    "adduser",
    "apk",
    "apt",
    "apt-cache",
    "apt-get",
    "apt-key",
    "apt-mark",
    "arch",
    "awk",
    "basename",
    "cat",
    "chpasswd",
    "cut",
    "date",
    "debconf",
    "debconf-set-selections",
    "df",
    "diff",
    "dirname",
    "dnf",
    "dpkg",
    "dpkg-reconfigure",
    "du",
    "echo",
    "egrep",
    "env",
    "exit",
    "export",
    "false",
    "file",
    "find",
    "getconf",
    "gpg",
    "grep",
    "groupadd",
    "groupmod",
    "head",
    "id",
    "ldconfig",
    "ldd",
    "locale-gen",
    "ls",
    "md5sum",
    "microdnf",
    "nproc",
    "pacman",
    "passwd",
    "pkg-config",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rpm",
    "sed",
    "set",
    "setcap",
    "sha256sum",
    "sha512sum",
    "shopt",
    "sleep",
    "sort",
    "stat",
    "strip",
    "tail",
    "tdnf",
    "test",
    "tr",
    "true",
    "ulimit",
    "umask",
    "uname",
    "uniq",
    "unset",
    "update-alternatives",
    "update-ca-certificates",
    "update-locale",
    "useradd",
    "usermod",
    "wc",
    "which",
    "whoami",
    "yum",
    "zypper",
    ":",
];

/// Managers of the system's packages.
const PACKAGES: [&str; 12] = [
    "apk", "apt", "apt-get", "dnf", "dpkg", "microdnf", "pacman", "rpm", "tdnf", "yum", "zypper",
    "aptitude",
];

/// Programs that work in the folders of the project.
const BUILDERS: &[&str] = &[
    "autoreconf",
    "bun",
    "c++",
    "cargo",
    "cc",
    "clang",
    "clang++",
    "cmake",
    "configure",
    "corepack",
    "g++",
    "gcc",
    "go",
    "hipcc",
    "make",
    "meson",
    "ninja",
    "npm",
    "npx",
    "patch",
    "pip-compile",
    "pnpm",
    "poetry",
    "pdm",
    "protoc",
    "setup.py",
    "yarn",
];

/// Returns the last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns what a command changes.
pub(crate) fn of(command: &ShellCommand) -> Vec<Effect> {
    let words = command.texts();
    let program = base_name(words[0]);
    let mut effects = written(command);
    if command.is_saved && command.output.is_empty() {
        effects.push(Effect::Anything);
    } else if command.is_saved {
        effects.push(Effect::File(command.output.clone()));
    }
    effects
        .extend(made(program, &words, command).unwrap_or_else(|| other(program, &words, command)));
    effects
}

/// Returns the files that `tee` writes.
fn written(command: &ShellCommand) -> Vec<Effect> {
    let words = command.texts();
    let is_tee = words[0] == "tee";
    let files = operands(&words, &[]).into_iter().filter(|_| is_tee);
    files.map(|file| Effect::File(file.to_owned())).collect()
}

/// Returns the words of a command that are neither options nor their values.
pub(crate) fn operands<'w>(words: &[&'w str], takes_value: &[&str]) -> Vec<&'w str> {
    let mut plain = Vec::new();
    let mut rest = words[1..].iter().copied();
    while let Some(word) = rest.next() {
        if takes_value.contains(&word) {
            rest.next();
        } else if !word.starts_with('-') || word == "-" {
            plain.push(word);
        }
    }
    plain
}

/// Returns the value of an option: `-C DIR`, `-CDIR`, `--directory=DIR`.
pub(crate) fn value<'w>(words: &[&'w str], options: &[&str]) -> Option<&'w str> {
    words.iter().enumerate().skip(1).find_map(|(at, word)| {
        options.iter().find_map(|option| {
            let rest = word.strip_prefix(option)?;
            let is_long = option.starts_with("--");
            match rest.strip_prefix('=') {
                _ if rest.is_empty() => words.get(at + 1).copied(),
                Some(value) => Some(value),
                None => (!is_long).then_some(rest),
            }
        })
    })
}

fn is_deep(words: &[&str], letters: [char; 2]) -> bool {
    words[1..].iter().any(|word| {
        *word == "--recursive"
            || word.starts_with('-') && !word.starts_with("--") && word.contains(letters)
    })
}

/// Returns what a program makes or removes whose arguments say so.
fn made(program: &str, words: &[&str], command: &ShellCommand) -> Option<Vec<Effect>> {
    let tree = |path: &str| Effect::Tree(path.to_owned());
    let all = match program {
        "mkdir" => {
            let has_parents = words[1..].iter().any(|word| {
                *word == "--parents"
                    || word.starts_with('-') && !word.starts_with("--") && word.contains('p')
            });
            let has_mode = value(words, &["-m", "--mode"]).is_some_and(|mode| mode != "755");
            let folders = operands(words, &["-m", "--mode"]);
            let mut all = Vec::new();
            for path in folders.into_iter().flat_map(braces) {
                all.push(Effect::Folder { path: path.clone(), has_parents });
                if has_mode {
                    all.push(Effect::Owned { path, owner: Owner::Unknown, is_deep: false });
                }
            }
            all
        }
        "touch" | "truncate" => {
            let files = operands(words, &["-d", "-r", "-t", "-s"]);
            files.into_iter().map(|file| Effect::File(file.to_owned())).collect()
        }
        "git" => return git(words, command),
        "wget" | "curl" | "aria2c" => downloads(program, words),
        "tar" | "bsdtar" | "unzip" | "7z" | "cpio" | "gunzip" | "gzip" | "xz" | "bzip2" | "zip" => {
            vec![unpacked(program, words)]
        }
        "rm" | "rmdir" | "unlink" => {
            operands(words, &[]).into_iter().map(|path| Effect::Gone(path.to_owned())).collect()
        }
        "cp" | "mv" | "install" | "rsync" | "ln" => copies(program, words),
        "chown" | "chgrp" | "chmod" | "setfacl" => owned(program, words),
        "virtualenv" => operands(words, &["-p", "--python"]).into_iter().map(tree).collect(),
        _ if is_environment(program, words) => {
            let at = words.iter().position(|word| *word == "venv")?;
            let after = operands(&words[at..], &["-p", "--python", "--prompt"]);
            let made = after.into_iter().map(tree).collect::<Vec<_>>();
            if made.is_empty() && program == "uv" { vec![tree(".venv")] } else { made }
        }
        _ => return None,
    };
    Some(all)
}

fn is_environment(program: &str, words: &[&str]) -> bool {
    program.starts_with("python") && words.get(1..3) == Some(&["-m", "venv"])
        || program == "uv" && words.get(1) == Some(&"venv")
}

/// Returns the words that `a/{b,c}` stands for.
fn braces(word: &str) -> Vec<String> {
    let parts = || {
        let (before, rest) = word.split_once('{')?;
        let (inside, after) = rest.split_once('}')?;
        let all = inside.split(',').map(|one| format!("{before}{one}{after}"));
        (inside.contains(',') && !after.contains('{')).then(|| all.collect())
    };
    parts().unwrap_or_else(|| vec![word.to_owned()])
}

fn git(words: &[&str], command: &ShellCommand) -> Option<Vec<Effect>> {
    let inside = |path: &str| Effect::Inside(path.to_owned());
    if let Some(folder) = cloned_folder(command) {
        return Some(vec![Effect::Tree(folder), Effect::Inside("/root".to_owned())]);
    }
    let place = value(words, &["-C"]).unwrap_or(".");
    let is_harmless = words.contains(&"config") || words.contains(&"--version");
    // `git init` and `git lfs` also work on the folder that is named last.
    let last = words.last().filter(|word| words.contains(&"init") && word.contains('/'));
    Some(match last {
        _ if is_harmless => Vec::new(),
        Some(last) => vec![Effect::Tree((*last).to_owned())],
        None => vec![inside(place)],
    })
}

fn downloads(program: &str, words: &[&str]) -> Vec<Effect> {
    let named: &[&str] = match program {
        "wget" => &["-O", "--output-document"],
        _ => &["-o", "--output", "--out"],
    };
    let folder = value(words, &["-P", "--directory-prefix", "--output-dir", "-d", "--dir"]);
    // `-qO-`, `-sSLo FILE`
    let joined = words.windows(2).find_map(|two| {
        let letter = if program == "wget" { 'O' } else { 'o' };
        let letters = two[0].strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
        (letters.len() > 1 && letters.ends_with(letter)).then_some(two[1])
    });
    let file = joined.or_else(|| value(words, named)).filter(|file| !file.starts_with('-'));
    match (file, folder.filter(|_| program != "curl" || words.contains(&"--output-dir"))) {
        (Some(file), None) => vec![Effect::File(file.to_owned())],
        (_, Some(folder)) => vec![Effect::Tree(folder.to_owned())],
        (None, None) => vec![Effect::Inside(".".to_owned())],
    }
}

fn unpacked(program: &str, words: &[&str]) -> Effect {
    let place = match program {
        "tar" | "bsdtar" => value(words, &["-C", "--directory", "--one-top-level"]),
        "unzip" => value(words, &["-d"]),
        "7z" => value(words, &["-o"]),
        _ => None,
    };
    match place {
        Some("/") => Effect::Anything,
        Some(path) if program == "unzip" || program == "7z" => Effect::Tree(path.to_owned()),
        Some(path) => Effect::Inside(path.to_owned()),
        None => Effect::Inside(".".to_owned()),
    }
}

fn copies(program: &str, words: &[&str]) -> Vec<Effect> {
    let takes_value = ["-m", "-o", "-g", "--mode", "--owner", "--group", "-S"];
    let takes_value: &[&str] = if program == "install" { &takes_value } else { &[] };
    let target = value(words, &["-t", "--target-directory"]).filter(|_| program != "rsync");
    let plain = operands(words, takes_value);
    if program == "install" && words.contains(&"-d") {
        let given = words.iter().any(|word| matches!(*word, "-o" | "-m" | "--owner" | "--mode"));
        return plain
            .into_iter()
            .flat_map(|path| {
                let path = path.to_owned();
                let made = Effect::Folder { path: path.clone(), has_parents: true };
                let owned = Effect::Owned { path, owner: Owner::Unknown, is_deep: false };
                std::iter::once(made).chain(given.then_some(owned))
            })
            .collect();
    }
    let Some((last, sources)) = plain.split_last() else { return Vec::new() };
    let mut all = vec![Effect::Tree(target.unwrap_or(last).to_owned())];
    if sources.is_empty() && target.is_none() {
        all = vec![Effect::Inside(".".to_owned())];
    }
    if program == "mv" {
        let is_plain = |path: &&&str| !path.contains(['*', '?', UNKNOWN]);
        all.extend(sources.iter().filter(is_plain).map(|path| Effect::Gone((*path).to_owned())));
    }
    all
}

fn owned(program: &str, words: &[&str]) -> Vec<Effect> {
    let plain = operands(words, &[]);
    let Some((given, paths)) = plain.split_first() else { return Vec::new() };
    let name = given.split([':', '.']).next().unwrap_or_default();
    let owner = match program {
        "chown" if matches!(name, "root" | "0") && !given.contains(':') => Owner::Root,
        "chown" if !name.is_empty() && !name.contains(UNKNOWN) => Owner::User(name.to_owned()),
        "chmod" if keeps_closed(given) => return Vec::new(),
        _ => Owner::Unknown,
    };
    let is_deep = is_deep(words, ['R', 'r']);
    let change = |path: &&str| {
        let path = (*path).to_owned();
        Effect::Owned { path, owner: owner.clone(), is_deep }
    };
    paths.iter().map(change).collect()
}

/// Returns whether a mode gives no right to write to others: `+x`, `755`, `u+rwx`.
fn keeps_closed(mode: &str) -> bool {
    let digits = mode.trim_start_matches('0');
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        let last = digits.bytes().rev().take(2);
        return last.into_iter().all(|byte| (byte - b'0') & 2 == 0);
    }
    mode.split(',').all(|part| {
        let (who, what) = part.split_once(['+', '=']).unwrap_or((part, ""));
        !what.contains(['w', 'u', 'g', 'o']) || who == "u"
    })
}

/// Returns what any other program changes.
fn other(program: &str, words: &[&str], command: &ShellCommand) -> Vec<Effect> {
    let inside = |path: &str| vec![Effect::Inside(path.to_owned())];
    if is_pip(words) {
        let place = value(words, &["--target", "-t", "--prefix", "--root"]);
        let is_local = words.iter().any(|word| word.starts_with('.') || *word == "-e");
        if words.iter().any(|word| matches!(*word, "download" | "wheel")) {
            let wheels = value(words, &["-w", "--wheel-dir", "-d", "--dest"]);
            return vec![Effect::Tree(wheels.unwrap_or(".").to_owned())];
        }
        return match place {
            Some(place) => vec![Effect::Tree(place.to_owned())],
            None if is_local => vec![Effect::Build],
            None => vec![Effect::System],
        };
    }
    if PACKAGES.contains(&program) && !writes(program, words) {
        return vec![Effect::System];
    }
    let is_version = words.len() == 2 && matches!(words[1], "--version" | "-V" | "--help" | "-v");
    if is_version || HARMLESS.contains(&program) && !writes(program, words) {
        return Vec::new();
    }
    if program == "tee" {
        return Vec::new();
    }
    if program == "cmake" {
        return cmake(words);
    }
    let is_builder = BUILDERS.contains(&program) && !command.words[0].text.starts_with('.');
    if is_builder {
        return vec![Effect::Build];
    }
    match (program, words.get(1)) {
        ("uv", Some(&("sync" | "lock" | "export" | "run"))) => vec![Effect::Build],
        ("uv", Some(&("cache" | "python" | "tool"))) => Vec::new(),
        ("hf" | "huggingface-cli", _) => match value(words, &["--local-dir"]) {
            Some(folder) => vec![Effect::Tree(folder.to_owned())],
            None => inside("/root"),
        },
        _ if program.starts_with("python") && !words.iter().any(|word| word.contains("chown")) => {
            vec![Effect::Places]
        }
        _ => vec![Effect::Anything],
    }
}

fn cmake(words: &[&str]) -> Vec<Effect> {
    let mut all = vec![Effect::Build];
    if let Some(folder) = value(words, &["-B"]) {
        all.push(Effect::Tree(folder.to_owned()));
    }
    let prefix = value(words, &["--prefix", "-DCMAKE_INSTALL_PREFIX"]);
    all.extend(prefix.map(|prefix| Effect::Tree(prefix.to_owned())));
    all
}

/// Returns whether a program that usually only reads changes files of the image here.
fn writes(program: &str, words: &[&str]) -> bool {
    match program {
        "find" => words.iter().any(|word| matches!(*word, "-exec" | "-execdir" | "-delete")),
        "dpkg" => words.contains(&"-x") || words.contains(&"--extract"),
        "gpg" => false,
        "dnf" | "apt-get" | "apt" => words
            .iter()
            .any(|word| ["download", "--installroot", "--downloadonly", "source"].contains(word)),
        _ => false,
    }
}

/// Returns a path, as a command names it in a folder, as an absolute one; an empty text if it is
/// not known.
pub(crate) fn absolute(folder: &str, home: &str, path: &str) -> String {
    let path = path.trim_matches(['"', '\'']);
    let joined = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        Some(_) => return String::new(),
        None if path.starts_with(['/', UNKNOWN]) => path.to_owned(),
        None if folder.is_empty() => return String::new(),
        None => format!("{}/{path}", folder.trim_end_matches('/')),
    };
    if joined.starts_with('/') && !path.is_empty() { plain(&joined) } else { String::new() }
}
