//! Commands that start another command: `sudo`, `timeout`, `su -c`, `ssh HOST`.

use std::collections::BTreeSet;

use super::Word;

/// Programs that run the command after their own options, with their options that take a value, and
/// the number of other words before the command.
const WRAPPERS: [(&str, &[&str], usize); 12] = [
    ("sudo", &["-u", "-g", "-h", "-p", "-C", "-D", "--user", "--group", "--host", "--prompt"], 0),
    ("env", &["-u", "--unset", "-C", "--chdir"], 0),
    ("exec", &["-a"], 0),
    ("nohup", &[], 0),
    ("setsid", &[], 0),
    ("nice", &["-n"], 0),
    ("ionice", &["-c", "-n"], 0),
    ("stdbuf", &["-i", "-o", "-e"], 0),
    ("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    ("taskset", &[], 1),
    ("systemd-inhibit", &["--what", "--who", "--why", "--mode"], 0),
    ("numactl", &["-N", "-m", "-C", "-i", "-p"], 0),
];

/// Options of `ssh` that take a value.
const SSH_TAKES_VALUE: &str = "BbcDEeFIiJLlmOopQRSWw";

/// Programs that run a command in an environment: `conda run -n NAME COMMAND`.
const CONDA: [&str; 3] = ["conda", "mamba", "micromamba"];

/// Options of `conda run` that take a value.
const CONDA_TAKES_VALUE: [&str; 10] =
    ["-a", "-e", "-n", "-p", "-r", "--cwd", "--env", "--name", "--prefix", "--root-prefix"];

/// Returns the names of a script's functions that run their arguments: `run() { log "$*"; "$@"; }`.
pub(super) fn runners(text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut current = None;
    for line in text.lines() {
        let body = match line.trim_start().trim_start_matches("function ").split_once('{') {
            Some((head, body)) if head.trim_end().ends_with("()") => {
                current = head.split('(').next().map(str::trim);
                body
            }
            _ => line,
        };
        let mut parts = body.split([';', '|', '&']).map(str::trim);
        let runs = |part: &str| {
            let before = ["if ", "! ", "sudo ", "exec ", "time "];
            let plain = before.iter().fold(part, |rest, one| rest.trim_start_matches(one));
            plain.starts_with("\"$@\"")
        };
        all.extend(current.filter(|_| parts.any(runs)).map(str::to_owned));
        if line.starts_with('}') || body.trim_end().ends_with("; }") {
            current = None;
        }
    }
    all
}

/// Removes a program, or one of these functions, that only runs another command, with its options.
/// Returns whether there was one.
pub(super) fn unwrap(words: &mut Vec<Word>, functions: &BTreeSet<String>) -> bool {
    let first = words.first().map_or("", |word| word.text.as_str());
    if functions.contains(first) && words.len() > 1 {
        words.remove(0);
        return true;
    }
    let program = first.rsplit('/').next().unwrap_or_default();
    if CONDA.contains(&program) && words.get(1).is_some_and(|word| word.text == "run") {
        words.remove(0);
        return remove(words, &CONDA_TAKES_VALUE, 0);
    }
    let Some((_, values, others)) = WRAPPERS.iter().find(|(name, ..)| *name == first) else {
        return false;
    };
    remove(words, values, *others)
}

/// Removes the first word, the options after it, and a number of other words.
fn remove(words: &mut Vec<Word>, values: &[&str], others: usize) -> bool {
    words.remove(0);
    while let Some(word) = words.first().filter(|word| word.text.starts_with('-')) {
        let takes_value = values.contains(&word.text.as_str());
        words.remove(0);
        if takes_value && !words.is_empty() {
            words.remove(0);
        }
    }
    words.drain(..others.min(words.len()));
    true
}

/// Returns whether a word is an option of `RUN`.
pub(super) fn is_option_of_run(word: &str) -> bool {
    ["--mount=", "--network=", "--security=", "--device="].iter().any(|one| word.starts_with(one))
}

/// Returns the script that a command passes to a shell: `bash -c`, `su -c`, `sg GROUP`, `ssh HOST`.
pub(super) fn script(words: &[Word]) -> Option<Word> {
    let program = words[0].text.as_str();
    match program.strip_prefix("/usr").unwrap_or(program).trim_start_matches("/bin/") {
        "sh" | "bash" | "dash" | "zsh" => {
            after(words, |one| one.starts_with('-') && !one.starts_with("--") && one.ends_with('c'))
        }
        "su" | "runuser" | "flock" => after(words, |one| matches!(one, "-c" | "--command")),
        "sg" => after(words, |one| one == "-c").or_else(|| words.get(2).cloned()),
        "ssh" => remote(words),
        _ => None,
    }
}

/// Returns the word after an option.
fn after(words: &[Word], is_option: impl Fn(&str) -> bool) -> Option<Word> {
    let pair = words.windows(2).find(|pair| is_option(&pair[0].text));
    pair.map(|pair| pair[1].clone())
}

/// Returns whether a command runs on another machine, where other variables are set.
pub(super) fn is_remote(words: &[Word]) -> bool {
    words[0].text == "ssh"
}

/// Returns the words after the host of `ssh`, which the other machine's shell reads as one script.
fn remote(words: &[Word]) -> Option<Word> {
    let mut at = 1;
    while let Some(letters) = words.get(at).and_then(|word| word.text.strip_prefix('-')) {
        let takes_value = letters.len() == 1 && SSH_TAKES_VALUE.contains(letters);
        at += if takes_value { 2 } else { 1 };
    }
    let rest = words.get(at + 1..).filter(|rest| !rest.is_empty())?;
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    Some(Word { text: texts.join(" "), line: rest[0].line })
}
