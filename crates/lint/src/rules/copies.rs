//! Programs that a last stage copies from a build without the libraries that they load.

use super::commands::{join, plain};
use super::stages::{last_stages, parent, parts};
use crate::dockerfile::Instruction;
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Hit, Kind};

/// The start of names of programs that projects with ggml build. By default, the libraries of these
/// projects are shared.
const PROGRAMS: [&str; 3] = ["llama-", "rpc-server", "whisper-"];

/// Checks for a copy of programs of llama.cpp or whisper.cpp whose libraries stay in the build.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    environment(facts, all, found);
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
    if is_static || names_old_build(&lower) || !facts.commands.iter().any(is_build) {
        return;
    }
    deleted(facts, found);
    if facts.stages.len() < 2 {
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

/// The folder in which uv keeps the Pythons that it downloads.
const PYTHONS: &str = "/root/.local/share/uv/python";

/// Checks for a virtual environment that a last stage copies without the Python that uv downloaded.
fn environment(facts: &Facts<'_>, all: &[Instruction], found: &mut Findings<'_>) {
    let last = last_stages(facts, all);
    let own = || all.iter().filter(|one| last.contains(&one.stage));
    let is_copy = |one: &&Instruction| is_other(one) && one.text.contains("venv");
    let Some(copy) = own().find(is_copy) else { return };
    let from = copy.text.split("--from=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let is_its = |one: &crate::facts::Stage| {
        one.name.as_ref().zip(from).is_some_and(|(name, from)| name.eq_ignore_ascii_case(from))
    };
    let Some(at) = facts.stages.iter().position(is_its) else { return };
    let mut stages = vec![at + 1];
    while let Some(earlier) = stages.last().and_then(|stage| parent(facts, all, *stage)) {
        stages.push(earlier);
    }
    let downloads = |one: &ShellCommand| {
        stages.contains(&one.stage) && one.texts().starts_with(&["uv", "python", "install"])
    };
    let setting = |key: &str| {
        let mut settings = facts.settings.iter().filter(|one| stages.contains(&one.stage));
        settings.rfind(|one| one.name == key).map(|one| one.value.as_str())
    };
    let is_managed = setting("UV_PYTHON_PREFERENCE") == Some("only-managed")
        || facts.commands.iter().any(downloads);
    let folder = setting("UV_PYTHON_INSTALL_DIR").unwrap_or(PYTHONS);
    let brings = |one: &Instruction| {
        let is_above =
            |word: &str| word.starts_with('/') && folder.starts_with(word.trim_end_matches('/'));
        ["uv python", "uv sync", "--mount"].iter().any(|text| one.text.contains(text))
            || is_other(one) && one.text.split_whitespace().any(is_above)
    };
    let is_own = stages.iter().any(|stage| last.contains(stage));
    if is_managed && !is_own && !folder.contains('$') && !own().any(brings) {
        let message =
            format!("the `python` of the environment is a link to {folder}, which is not copied");
        let hit = Hit::new("library-not-copied", copy.line, message);
        found.hit(hit.help(format!("copy {folder} to the same path as well")));
    }
}

/// Returns whether a command configures a build of such a project.
fn is_build(command: &ShellCommand) -> bool {
    let is_option = |text: &str| {
        ["-DGGML_", "-DLLAMA_", "-DWHISPER_"].iter().any(|start| text.starts_with(start))
    };
    command.words[0].text == "cmake" && command.words.iter().any(|word| is_option(&word.text))
}

/// Checks for a stage that copies programs out of a build, and deletes the build with the libraries.
fn deleted(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for stage in 1..=facts.stages.len() {
        let own = || facts.commands.iter().filter(|one| one.stage == stage);
        let Some(build) = own().find(|one| is_build(one)).map(build_folder) else { continue };
        let is_installed = own().any(|one| {
            let words = one.texts();
            words.iter().any(|word| matches!(*word, "install" | "--install" | "-Wl,-rpath"))
                && matches!(words[0], "cmake" | "make" | "ninja")
        });
        let copies: Vec<&ShellCommand> = own()
            .filter(|one| matches!(&*one.words[0].text, "cp" | "install" | "mv" | "rsync"))
            .collect();
        let is_lone = |one: &&&ShellCommand| sources(one).iter().all(|word| is_plain_program(word));
        let programs: Vec<&ShellCommand> = copies.iter().filter(is_lone).copied().collect();
        // Another copy can bring the libraries.
        let brings = |one: &&&ShellCommand| {
            let texts = sources(one);
            texts.iter().any(|text| {
                let name = text.rsplit('/').next().unwrap_or_default();
                name.contains(".so")
                    || name.contains('*')
                    || matches!(name, "" | "." | "bin" | "lib" | "build")
            })
        };
        let Some(first) = programs.first().filter(|_| !copies.iter().any(|one| brings(&one)))
        else {
            continue;
        };
        if !is_installed && own().any(|one| removes(one, &build)) {
            let message = "the build is deleted with `libllama.so` and `libggml*.so`, which the copied program loads";
            found.add("library-not-copied", first.words[0].line, message);
        }
    }
}

/// Returns the folder of a build.
fn build_folder(command: &ShellCommand) -> String {
    let words = command.texts();
    let after = words.iter().position(|word| *word == "-B").and_then(|at| words.get(at + 1));
    let joined =
        || words.iter().find_map(|word| word.strip_prefix("-B")).filter(|word| !word.is_empty());
    let folder = after.copied().or_else(joined).unwrap_or(".");
    plain(&join(&command.folder, folder))
}

/// Returns what a command copies.
fn sources(command: &ShellCommand) -> Vec<&str> {
    let words = command.texts().into_iter().skip(1).filter(|word| !word.starts_with('-'));
    let mut all: Vec<&str> = words.collect();
    all.pop();
    all
}

/// Returns whether a path is that of a program of these projects.
fn is_plain_program(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    PROGRAMS.iter().any(|start| name.starts_with(start)) && !name.contains(['*', '.'])
}

/// Returns whether a command deletes a folder, or one above it.
fn removes(command: &ShellCommand, folder: &str) -> bool {
    let words = command.texts();
    let is_deep = words.iter().any(|word| word.starts_with('-') && word.contains(['r', 'R']));
    let is_above = |word: &&str| {
        let path = plain(&join(&command.folder, word.trim_end_matches("/*")));
        path.len() > 1 && (folder == path || folder.starts_with(&format!("{path}/")))
    };
    words[0] == "rm" && is_deep && words[1..].iter().any(is_above)
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
