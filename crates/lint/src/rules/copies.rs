//! Programs that a last stage copies from a build without the libraries that they load.

use super::stages::{last_stages, parts};
use crate::dockerfile::Instruction;
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Kind};

/// The start of names of programs that projects with ggml build. By default, the libraries of these
/// projects are shared.
const PROGRAMS: [&str; 3] = ["llama-", "rpc-server", "whisper-"];

/// Checks for a copy of programs of llama.cpp or whisper.cpp whose libraries stay in the build.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let last = facts.stages.len();
    if facts.kind != Kind::Dockerfile || last < 2 {
        return;
    }
    let all = facts.instructions();
    let lower = facts.code.to_ascii_lowercase();
    let options = lower.replace(":bool", "");
    let is_static = [
        "build_shared_libs=0",
        "build_shared_libs=false",
        "build_shared_libs=n",
        "build_shared_libs=off",
        "ggml_static",
        "llama_cublas",
        "llama_static",
    ]
    .iter()
    .any(|option| options.contains(option));
    let is_build = |one: &ShellCommand| {
        let is_option = |text: &str| {
            ["-DGGML_", "-DLLAMA_", "-DWHISPER_"].iter().any(|start| text.starts_with(start))
        };
        one.words[0].text == "cmake" && one.words.iter().any(|word| is_option(&word.text))
    };
    if is_static || names_old_build(&lower) || !facts.commands.iter().any(is_build) {
        return;
    }
    let stages = last_stages(facts, all);
    let copies: Vec<&Instruction> =
        all.iter().filter(|one| stages.contains(&one.stage) && is_other(one)).collect();
    // A folder or a pattern can contain the libraries.
    let Some(first) = copies.first().filter(|_| copies.iter().all(|one| is_program(one))) else {
        return;
    };
    let own = all.iter().filter(|one| stages.contains(&one.stage) && parts(one).0 == "RUN");
    let has_script =
        own.into_iter().any(|one| one.text.contains("cmake") || one.text.contains("--mount"));
    if !has_script {
        let message =
            "the program is copied without `libllama.so` and `libggml*.so`, which it loads";
        found.add("library-not-copied", first.line, message);
    }
}

/// Returns whether a text names a build of llama.cpp before June 2024, whose libraries are static:
/// `b2999`.
fn names_old_build(lower: &str) -> bool {
    lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        let number = word.strip_prefix('b').filter(|rest| rest.len() == 4);
        number.and_then(|rest| rest.parse::<u32>().ok()).is_some_and(|number| number < 3_240)
    })
}

/// Returns whether an instruction copies from another stage.
fn is_other(own: &Instruction) -> bool {
    parts(own).0 == "COPY" && own.text.contains("--from=")
}

/// Returns whether an instruction copies only programs.
fn is_program(own: &Instruction) -> bool {
    let words: Vec<&str> =
        parts(own).1.split_whitespace().filter(|word| !word.starts_with("--")).collect();
    let Some((_, sources)) = words.split_last() else { return false };
    sources.iter().all(|source| {
        let name = source.rsplit('/').next().unwrap_or_default();
        let is_other_library = name.contains(".so")
            && !["ggml", "llama", "whisper", "*"].iter().any(|one| name.contains(one));
        let is_own = PROGRAMS.iter().any(|start| name.starts_with(start)) && !name.contains('*');
        is_own || is_other_library
    })
}
