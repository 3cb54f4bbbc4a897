//! Rules for the instructions and stages of Dockerfiles: what the builder does not run, and what the
//! image contains or lacks.

use std::collections::BTreeMap;

use super::images;
use crate::dockerfile::Instruction;
use crate::facts::{Package, Stage};
use crate::python::is_pip;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    let lines: Vec<&str> = facts.text.lines().collect();
    for instruction in all {
        not_run(facts, &lines, instruction, found);
        split_argument(instruction, found);
    }
    let stages = last_stages(facts, all);
    without_driver(facts, &stages, found);
    without_target(facts, found);
    for command in facts.commands.iter().filter(|one| is_own(all, one)) {
        looks_for_gpu(facts, all, command, found);
        grows(command, found);
    }
    twice(facts, &stages, found);
    cached(facts, all, &stages, found);
}

/// Returns the name of an instruction in capitals, and its arguments.
pub(crate) fn parts(instruction: &Instruction) -> (String, &str) {
    let text = instruction.text.as_str();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (text[..end].to_ascii_uppercase(), text[end..].trim_start())
}

/// Returns whether a command is part of an instruction, and not of a here document.
pub(super) fn is_own(all: &[Instruction], command: &ShellCommand) -> bool {
    instruction_of(all, command.words[0].line).is_some()
}

/// Returns the instruction that contains a line.
pub(super) fn instruction_of(all: &[Instruction], line: usize) -> Option<&Instruction> {
    let next = all.partition_point(|one| one.line <= line);
    all.get(next.checked_sub(1)?).filter(|one| line <= one.last)
}

/// The commands of each instruction by the instruction's line, without those of here documents.
pub(crate) type ByInstruction<'f> = BTreeMap<usize, Vec<&'f ShellCommand>>;

/// Returns the commands of each instruction.
pub(crate) fn by_instruction<'f>(facts: &'f Facts<'_>, all: &[Instruction]) -> ByInstruction<'f> {
    let mut commands = ByInstruction::new();
    for command in &facts.commands {
        if let Some(own) = instruction_of(all, command.words[0].line) {
            commands.entry(own.line).or_default().push(command);
        }
    }
    commands
}

/// Returns the commands of one instruction.
pub(crate) fn commands_of<'c, 'f>(
    commands: &'c ByInstruction<'f>,
    own: &Instruction,
) -> &'c [&'f ShellCommand] {
    commands.get(&own.line).map_or(&[], Vec::as_slice)
}

/// Returns the last stage, and the stages that it is based on.
pub(super) fn last_stages(facts: &Facts<'_>, all: &[Instruction]) -> Vec<usize> {
    let mut stages = vec![facts.stages.len()];
    while let Some(earlier) = stages.last().and_then(|stage| parent(facts, all, *stage)) {
        stages.push(earlier);
    }
    stages
}

/// Returns the image that a stage starts from, also through earlier stages; an empty text if the
/// caller can choose another image, as in `FROM ${BASE_IMAGE}`.
pub(crate) fn fixed_base<'f>(facts: &'f Facts<'_>, all: &[Instruction], stage: usize) -> &'f str {
    let mut first = stage;
    while let Some(earlier) = parent(facts, all, first) {
        first = earlier;
    }
    let from = all.iter().find(|one| one.stage == first && parts(one).0 == "FROM");
    let mut words = from.map_or("", |one| &one.text).split_whitespace().skip(1);
    let is_chosen =
        words.find(|word| !word.starts_with("--")).is_some_and(|word| word.starts_with('$'));
    facts.base(first).filter(|_| !is_chosen).map_or("", |own| &own.base)
}

/// Returns the earlier stage that a stage is based on.
pub(crate) fn parent(facts: &Facts<'_>, all: &[Instruction], stage: usize) -> Option<usize> {
    let from = all.iter().find(|one| one.stage == stage && parts(one).0 == "FROM")?;
    let mut words = from.text.split_whitespace().skip(1).filter(|word| !word.starts_with("--"));
    let base = words.next()?;
    let is_base =
        |one: &&Stage| one.name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(base));
    let earlier = facts.stages.iter().take(stage - 1);
    earlier.enumerate().find(|(_, one)| is_base(one)).map(|(at, _)| at + 1)
}

/// Returns the earlier stage from which an instruction copies, and the paths: the sources, and the
/// target.
pub(super) fn copied_from<'i>(
    facts: &Facts<'_>,
    own: &'i Instruction,
) -> Option<(usize, Vec<&'i str>)> {
    let (instruction, rest) = parts(own);
    let (_, options) = rest.split_once("--from=").filter(|_| instruction == "COPY")?;
    let mut words = options.split_whitespace();
    let from = words.next()?;
    let is_its = |name: &String| name.eq_ignore_ascii_case(from);
    let named = facts.stages.iter().position(|one| one.name.as_ref().is_some_and(is_its));
    let at = named.or_else(|| from.parse().ok()).filter(|at| at + 1 < own.stage)?;
    Some((at + 1, words.filter(|word| !word.starts_with("--")).collect()))
}

/// Instructions in which only variables are replaced.
const NOT_RUN: [&str; 5] = ["ARG", "ENV", "EXPOSE", "USER", "WORKDIR"];

/// Checks for `$(…)` in instructions that run no commands.
fn not_run(facts: &Facts<'_>, lines: &[&str], instruction: &Instruction, found: &mut Findings<'_>) {
    let (name, _) = parts(instruction);
    if !NOT_RUN.contains(&name.as_str()) {
        return;
    }
    for line in instruction.line..=instruction.last {
        let text = lines[line - 1];
        let Some(at) = text.find("$(").filter(|_| !facts.kind.is_comment(text)) else { continue };
        let before = &text[..at];
        // The shell runs a command in its prompt.
        let is_prompt = ["PS1=", "PS4=", "PROMPT"].iter().any(|prompt| before.contains(prompt));
        // Someone who writes quotes or a backslash knows that the text is kept.
        let is_meant = before.ends_with('\\') || before.matches('\'').count() % 2 == 1;
        if !is_prompt && !is_meant {
            let end = text[at..].find(')').map_or(text.len(), |end| at + end + 1);
            let message = format!("`{name}` does not run `{}`", &text[at..end]);
            found.add("command-not-run", line, message);
        }
    }
}

/// Checks for `ARG NAME= a b`, which declares several arguments.
fn split_argument(instruction: &Instruction, found: &mut Findings<'_>) {
    let (name, rest) = parts(instruction);
    let mut words = rest.split_whitespace();
    let Some(first) = words.next().and_then(|word| word.strip_suffix('=')) else { return };
    let others: Vec<&str> = words.collect();
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let Some(next) = others.first().filter(|_| others.iter().all(is_plain)) else {
        return;
    };
    if name == "ARG" {
        let message = format!("`{first}` is empty, and `{next}` is the name of another argument");
        found.add("argument-split", instruction.line, message);
    }
}

/// Packages with Mesa's Vulkan driver, and other drivers.
const DRIVERS: [&str; 9] = [
    "mesa-vulkan",
    "vulkan-radeon",
    "vulkan-swrast",
    "vulkan-intel",
    "vulkan-driver",
    "amdvlk",
    "radeon_icd",
    "icd.d",
    "nvidia",
];

/// Checks for a program that is built for Vulkan in a file that installs no Vulkan driver.
fn without_driver(facts: &Facts<'_>, stages: &[usize], found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let is_known = (1..=facts.stages.len()).all(|stage| is_known_base(facts, stage));
    if !is_known || DRIVERS.iter().any(|driver| lower.contains(driver)) {
        return;
    }
    let is_build = |one: &&ShellCommand| {
        one.words.iter().any(|word| {
            let text = word.text.to_ascii_lowercase();
            ["_vulkan=on", "_vulkan=1", "_vulkan=true"].iter().any(|option| text.contains(option))
        })
    };
    // A script can install the driver.
    let has_script = facts.commands.iter().any(|one| {
        let text = one.words.iter().map(|word| word.text.as_str());
        stages.contains(&one.stage) && text.into_iter().any(|word| word.ends_with(".sh"))
    });
    // Debian's loader, which the tools and the SDK need, recommends the driver.
    let is_recommended = facts.commands.iter().any(|one| {
        let words = one.texts();
        let has = |wanted: &str| words.iter().any(|word| word.starts_with(wanted));
        stages.contains(&one.stage)
            && has("apt")
            && ["vulkan-tools", "vulkan-sdk", "libvulkan"].into_iter().any(has)
            && !has("--no-install-recommends")
    });
    let build = facts.commands.iter().find(is_build);
    if let Some(command) = build.filter(|_| !(has_script || is_recommended)) {
        let line = command.words[0].line;
        let message = "a program is built for Vulkan, but the file installs no Vulkan driver";
        found.add("vulkan-driver-missing", line, message);
    }
}

/// Returns whether the content of a stage's base is known: a plain distribution, Python, or AMD's
/// images for developers.
pub(crate) fn is_known_base(facts: &Facts<'_>, stage: usize) -> bool {
    let is_python = |base: &str| {
        let path = images::parts(base).path;
        matches!(path, "python" | "golang" | "node" | "rust") || path.starts_with("rocm/dev-ubuntu")
    };
    super::variables::is_plain_base(facts, stage)
        || facts.base(stage).is_some_and(|one| is_python(&one.base))
}

/// Options that switch HIP on in builds that leave the choice of the GPU to CMake.
pub(super) const HIP_OPTIONS: [&str; 4] =
    ["-dggml_hip=", "-dggml_hipblas=", "-dllama_hipblas=", "-dsd_hipblas="];

/// Names that set the targets of a build.
const TARGETS: [&str; 5] =
    ["gpu_targets", "amdgpu_target", "hip_architectures", "hip_arch", "offload-arch"];

/// Checks for `cmake -DGGML_HIP=ON` in a build without a GPU target.
fn without_target(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    if TARGETS.iter().any(|name| lower.contains(name)) {
        return;
    }
    for command in facts.commands.iter().filter(|one| one.words[0].text.ends_with("cmake")) {
        let is_on = |text: &str| ["on", "1", "true"].iter().any(|value| text.ends_with(value));
        let texts = command.words.iter().map(|word| word.text.to_ascii_lowercase());
        let texts: Vec<String> = texts.collect();
        let option = texts
            .iter()
            .find(|text| is_on(text) && HIP_OPTIONS.iter().any(|name| text.starts_with(name)));
        // A variable can contain the target.
        let has_variable = texts.iter().any(|text| text.starts_with(UNKNOWN));
        if let Some(option) = option.filter(|_| !has_variable) {
            let option = option.to_ascii_uppercase().replacen("-D", "", 1);
            let message = format!("a build with `{option}` has no GPU target");
            found.add("gpu-target-missing", command.words[0].line, message);
        }
    }
}

/// Tools that print which GPUs there are.
const TOOLS: [&str; 5] = ["rocminfo", "rocm-smi", "amd-smi", "rocm_agent_enumerator", "clinfo"];

/// Returns the tool of a command that looks for a GPU.
pub(super) fn gpu_tool(command: &ShellCommand) -> Option<&str> {
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    let is_help = |word: &str| word.contains("version") || word.contains("help") || word == "-h";
    let asks = !command.words[1..].iter().any(|word| is_help(&word.text));
    Some(program).filter(|program| TOOLS.contains(program) && asks)
}

/// Returns whether a Dockerfile says how its caller gives the build a GPU.
pub(super) fn gives_gpu(facts: &Facts<'_>) -> bool {
    facts.text.lines().any(|text| text.contains("build") && text.contains("--device"))
}

/// Expressions of torch that need a GPU.
const NEEDS_GPU: [&str; 3] = ["get_device_name", "get_device_properties", "mem_get_info"];

/// Checks for commands of a build that look for a GPU.
fn looks_for_gpu(
    facts: &Facts<'_>,
    all: &[Instruction],
    command: &ShellCommand,
    found: &mut Findings<'_>,
) {
    let line = command.words[0].line;
    let Some(own) = instruction_of(all, line).filter(|one| parts(one).0 == "RUN") else { return };
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    if !TOOLS.contains(&program) && !program.starts_with("python") {
        return;
    }
    // The caller can give the build a GPU.
    if gives_gpu(facts) || own.text.contains("--device") || own.text.contains("--security") {
        return;
    }
    let rest: Vec<&str> = command.words[1..].iter().map(|word| word.text.as_str()).collect();
    if let Some(tool) = gpu_tool(command) {
        let message = format!("`{tool}` is called during the build");
        let hit = Hit::new("gpu-during-build", line, message);
        return found.hit(hit.at_most(Severity::Information));
    }
    let is_python = program.starts_with("python") && rest.contains(&"-c");
    let code = rest.join(" ");
    let asks = code.contains("cuda.is_available()") || code.contains("cuda.device_count()");
    let shown =
        NEEDS_GPU.iter().find(|name| code.contains(*name) && !code.contains("is_available"));
    let is_assert = code.contains("assert torch.cuda.") || code.contains("exit(");
    match (is_python, shown, asks) {
        (true, Some(name), _) => {
            let message = format!("`torch.cuda.{name}` is called during the build");
            found.add("gpu-during-build", line, message);
        }
        (true, None, true) if is_assert => {
            found.add("gpu-during-build", line, "the build stops if torch finds no GPU");
        }
        (true, None, true) if !is_shown(&code) => {
            let hit = Hit::new("gpu-during-build", line, "the build asks torch for a GPU");
            found.hit(hit.at_most(Severity::Information));
        }
        _ => {}
    }
}

/// Returns whether code only prints what torch says about GPUs, so that nothing depends on it.
fn is_shown(code: &str) -> bool {
    let asks =
        |one: &&str| one.contains("cuda.is_available()") || one.contains("cuda.device_count()");
    let is_print =
        |one: &str| one.starts_with("print(") && one.ends_with(')') && !one.contains(" if ");
    code.split([';', '\n']).map(str::trim).filter(asks).all(is_print)
}

/// The name endings of files with models.
const MODELS: [&str; 3] = [".gguf", ".safetensors", ".ckpt"];

/// Checks for commands that add a model or the day's newest packages to the image.
fn grows(command: &ShellCommand, found: &mut Findings<'_>) {
    let words: Vec<&str> = command.texts();
    let line = command.words[0].line;
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let plain: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let is_file = |word: &&str| {
        let path = word.split(['?', '#']).next().unwrap_or_default();
        MODELS.iter().any(|end| path.ends_with(end))
    };
    let code = words.join(" ");
    let fetches = ["snapshot_download(", "hf_hub_download(", ".from_pretrained("];
    if let Some(repository) = from_hub(&code) {
        let message = format!("`{repository}` is loaded from its current tip");
        found.hit(
            Hit::new("clone-unpinned", line, message)
                .help("name a tag or branch that does not move: `OWNER/NAME:TAG`"),
        );
    }
    let is_model = match program {
        "hf" | "huggingface-cli" => plain.get(1) == Some(&"download"),
        "ollama" => plain.get(1) == Some(&"pull"),
        "curl" | "wget" | "aria2c" => words.iter().any(is_file),
        _ if program.starts_with("python") => {
            words.contains(&"-c") && fetches.iter().any(|call| code.contains(call))
        }
        _ => false,
    };
    if is_model {
        found.add("model-in-image", line, "a model is downloaded into the image");
    }
    let is_upgrade = match program {
        "apt" | "apt-get" => {
            matches!(plain.get(1), Some(&("upgrade" | "dist-upgrade" | "full-upgrade")))
        }
        "dnf" | "yum" | "microdnf" => plain.len() == 2 && matches!(plain[1], "upgrade" | "update"),
        _ => false,
    };
    if is_upgrade {
        let message = format!("`{} {}` changes with the day", plain[0], plain[1]);
        found.add("upgrade-in-image", line, message);
    }
}

/// Returns the repository that `torch.hub.load` takes without a tag.
fn from_hub(code: &str) -> Option<&str> {
    let (_, rest) = code.split_once("hub.load(")?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (repository, rest) = rest[1..].split_once(quote)?;
    let is_plain = !repository.contains([':', UNKNOWN, '$', '{', '.']);
    let is_remote = repository.matches('/').count() == 1 && !repository.starts_with('/');
    (is_plain && is_remote && !rest.contains("local")).then_some(repository)
}

/// Returns the command that installs a package.
pub(super) fn command_of<'f>(facts: &'f Facts<'_>, package: &Package) -> Option<&'f ShellCommand> {
    facts.commands.get(package.command.checked_sub(1)?)
}

/// Returns whether a package is torch for ROCm: by its version, or by the index.
pub(super) fn is_rocm_torch(facts: &Facts<'_>, package: &Package) -> bool {
    let names_rocm = |command: &ShellCommand| {
        command.words.iter().any(|word| {
            let text = word.text.to_ascii_lowercase();
            text.contains("rocm") || text.contains("repo.radeon.com") || text.contains("amd.com")
        })
    };
    package.name == "torch" && command_of(facts, package).is_some_and(names_rocm)
}

/// Commands that compile, and so need the compiler and headers of the base.
pub(super) const COMPILES: [&str; 7] =
    ["cmake", "make", "ninja", "hipcc", "clang", "clang++", "meson"];

/// Checks for images that contain ROCm or torch twice.
fn twice(facts: &Facts<'_>, stages: &[usize], found: &mut Findings<'_>) {
    let is_in =
        |package: &&Package| stages.contains(&package.stage) && is_rocm_torch(facts, package);
    let Some(package) = facts.packages.iter().find(is_in) else { return };
    // An environment of conda has its own packages.
    if facts.line(package.line).contains("conda run") {
        return;
    }
    let Some(base) = facts.base(*stages.last().unwrap_or(&0)).map(|one| &one.base) else { return };
    let images::Parts { path, tag, .. } = images::parts(base);
    let is_vllm = path.starts_with("rocm/vllm") || path.ends_with("vllm-openai-rocm");
    let has_torch = path == "rocm/pytorch" || is_vllm;
    let is_sdk = path.starts_with("rocm/dev-");
    let is_complete = is_sdk && tag.is_some_and(|tag| tag.ends_with("-complete"));
    let compiles = facts.commands.iter().filter(|one| stages.contains(&one.stage)).any(|one| {
        let words: Vec<&str> = one.texts();
        let program = words[0].rsplit('/').next().unwrap_or_default();
        let is_moved = matches!(program, "chmod" | "cp" | "ln" | "mv" | "rm");
        COMPILES.contains(&program)
            || words.iter().any(|word| {
                word.contains("setup.py")
                    || word.contains("git+")
                    || word.ends_with(".sh") && !is_moved
            })
            || words.contains(&"--no-build-isolation")
            || words.contains(&"--no-binary")
    });
    let is_mixed = found.places().iter().any(|(_, rule)| *rule == "rocm-mixed");
    let shown = base.replace(UNKNOWN, "…");
    let is_kept = tag.is_some_and(|tag| tag.contains("base"))
        || facts.code.contains("vllm.git")
        || facts.code.contains("/vllm ");
    if is_vllm && !is_kept {
        let message = format!("the vLLM in `{shown}` is compiled for the torch that is replaced");
        found.add("torch-replaced", package.line, message);
    } else if has_torch {
        let message = format!("`{shown}` already contains torch");
        let hit = Hit::new("rocm-twice", package.line, message);
        found.hit(if compiles {
            hit.help("start from an image with ROCm's compilers and without torch, such as `rocm/dev-ubuntu-…:…-complete`, or use the torch of the image")
        } else {
            hit
        });
    } else if is_complete && !compiles && !is_mixed {
        let message = format!("torch brings its own ROCm, and `{shown}` contains all of ROCm");
        found.add("rocm-twice", package.line, message);
    } else if is_sdk && !is_complete && !compiles && !is_mixed && !uses_rocm(facts) {
        let message = format!("torch brings its own ROCm, and `{shown}` contains ROCm's compilers");
        found.add("rocm-twice", package.line, message);
    }
}

/// Texts that show that a program other than torch may use the ROCm of the image.
const USES_ROCM: [&str; 11] = [
    "/opt/rocm",
    "amd-smi",
    "clinfo",
    "ctranslate2",
    "flash",
    "hipcc",
    "llama",
    "onnxruntime",
    "opencl",
    "rocm-smi",
    "rocminfo",
];

/// Returns whether a program other than torch may use the ROCm of the image: one of these, or one that
/// needs a package of ROCm.
fn uses_rocm(facts: &Facts<'_>) -> bool {
    let lower = facts.code.to_ascii_lowercase();
    let installs = |one: &ShellCommand| {
        matches!(&*one.words[0].text, "apt" | "apt-get")
            && one.words.iter().any(|word| {
                ["rocm", "hip", "roc", "miopen", "rccl"]
                    .iter()
                    .any(|start| word.text.starts_with(start))
                    || word.text.contains(UNKNOWN)
            })
    };
    USES_ROCM.iter().any(|text| lower.contains(text)) || facts.commands.iter().any(installs)
}

/// Checks for torch's wheel in pip's cache, which becomes part of the image.
fn cached(facts: &Facts<'_>, all: &[Instruction], stages: &[usize], found: &mut Findings<'_>) {
    let is_known = is_known_base(facts, *stages.last().unwrap_or(&0));
    if !is_known || facts.text.contains("PIP_NO_CACHE_DIR") {
        return;
    }
    let is_in =
        |package: &&Package| stages.contains(&package.stage) && is_rocm_torch(facts, package);
    for package in facts.packages.iter().filter(is_in) {
        let Some(command) = command_of(facts, package).filter(|one| is_own(all, one)) else {
            continue;
        };
        let words: Vec<&str> = command.texts();
        let Some(own) = instruction_of(all, command.words[0].line) else { continue };
        let is_kept = |text: &str| {
            !["type=cache", "cache purge", ".cache", "no-cache-dir", "no_cache", "target=/root"]
                .iter()
                .any(|part| text.contains(part))
        };
        if words[0] != "uv" && is_pip(&words) && is_kept(&own.text) {
            let message = "pip keeps the wheels of torch in its cache, which is part of the image";
            return found.add("pip-cache", package.line, message);
        }
    }
}
