//! Rules for build variables: those that an image sets for every run, and those that a build does
//! not read.

use ::names::GpuTarget;

use super::stages::HIP_OPTIONS;
use crate::shell::{Scope, Setting, ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

/// Variables that only a build reads.
const BUILD_ONLY: [&str; 5] = [
    "AMDGPU_TARGETS",
    "CMAKE_HIP_ARCHITECTURES",
    "GPU_ARCHS",
    "HIP_ARCHITECTURES",
    "PYTORCH_ROCM_ARCH",
];

/// Texts that show that a Dockerfile compiles something, or is for people who do.
const BUILDS: [&str; 24] = [
    "/bash\"]",
    "\"bash\"",
    "-e .",
    "bitsandbytes",
    "build.sh",
    "cargo",
    "cmake",
    "cmd bash",
    "compile",
    "deepspeed",
    "flash-attn",
    "flash_attn",
    "git+",
    "hipcc",
    "install -e",
    "install .",
    "install ./",
    "make ",
    "meson",
    "ninja",
    "no-binary",
    "no-build-isolation",
    "setup.py",
    "tensorflow",
];

/// Checks for the list of targets of a build with CMake, which does not read the environment.
fn for_cmake(facts: &Facts<'_>, setting: &Setting, found: &mut Findings<'_>) {
    let Setting { name, line, scope, .. } = setting;
    let is_wanted = matches!(name.as_str(), "AMDGPU_TARGETS" | "GPU_TARGETS");
    if !is_wanted || *scope != Scope::Image {
        return;
    }
    let is_used = [format!("${name}"), format!("${{{name}"), format!("-D{name}")]
        .iter()
        .any(|text| facts.code.contains(text));
    let is_hip = |command: &ShellCommand| {
        let is_option = |text: &str| {
            let lower = text.to_ascii_lowercase();
            HIP_OPTIONS.iter().any(|option| lower.starts_with(option))
        };
        command.words[0].text == "cmake" && command.words.iter().any(|word| is_option(&word.text))
    };
    let lower = facts.code.to_ascii_lowercase();
    // A script can pass it on.
    let has_other =
        [".sh", "hip_architectures", "makefile"].iter().any(|text| lower.contains(text));
    if !is_used && !has_other && facts.commands.iter().any(is_hip) {
        let message = format!("CMake does not read `{name}` from the environment");
        let hit = Hit::new("variable-without-effect", *line, message);
        found.hit(hit.help(format!("pass it to cmake: `-D{name}=${name}`")));
    }
}

/// Checks for a build variable in an image that compiles nothing.
pub(super) fn built(facts: &Facts<'_>, setting: &Setting, found: &mut Findings<'_>) {
    for_cmake(facts, setting, found);
    let Setting { name, line, scope, .. } = setting;
    let is_wanted = BUILD_ONLY.contains(&name.as_str()) && *scope == Scope::Image;
    if facts.kind != Kind::Dockerfile || !is_wanted {
        return;
    }
    let lower = facts.code.to_ascii_lowercase();
    let starts = ["cmd", "entrypoint"];
    let has_start = lower
        .lines()
        .any(|code| code.split_whitespace().next().is_some_and(|word| starts.contains(&word)));
    // The file may pass the variable to a build that `BUILDS` does not list.
    let uses = || facts.code.matches(&format!("${{{name}")).count() > 0;
    let uses_plain = || facts.code.contains(&format!("${name}"));
    if has_start && !BUILDS.iter().any(|text| lower.contains(text)) && !uses() && !uses_plain() {
        let message = format!("`{name}` is set in an image that compiles nothing");
        let hit = Hit::new("variable-build-only", *line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Options of `make` that switch HIP on. The Makefiles ask `amdgpu-arch` for the targets.
const MAKE_OPTIONS: [&str; 5] =
    ["GGML_HIP=1", "GGML_HIPBLAS=1", "LLAMA_HIPBLAS=1", "SD_HIPBLAS=1", "WHISPER_HIPBLAS=1"];

/// Names that set the targets of a build, and texts of files that pass them on in another way.
const NAMED: [&str; 7] =
    ["gpu_targets", "amdgpu_target", "hip_arch", "offload-arch", "gpu_archs", "rocm_arch", "gfx"];

/// Checks for builds of GPU code other than with `cmake -DGGML_HIP=ON` that name no target.
pub(super) fn unnamed(facts: &Facts<'_>, found: &mut Findings<'_>) {
    // An override is for the programs that run.
    let lower = facts.code.to_ascii_lowercase().replace("hsa_override_gfx_version", "");
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell)
        || NAMED.iter().any(|name| lower.contains(name))
    {
        return;
    }
    // On a host, the Makefiles find the GPU.
    if facts.kind == Kind::Dockerfile {
        let made = |one: &ShellCommand| {
            let is_make = one.words[0].text.ends_with("make");
            one.words.iter().find(|word| is_make && MAKE_OPTIONS.contains(&&*word.text)).cloned()
        };
        let makes = facts.commands.iter().find_map(made);
        let is_on = |one: &&Setting| {
            let value = one.value.to_ascii_lowercase();
            let has = |name: &str| {
                ["on", "1", "true"].iter().any(|on| value.contains(&format!("{name}{on}")))
            };
            one.name == "CMAKE_ARGS" && HIP_OPTIONS.iter().any(|name| has(name))
        };
        let setting = facts.settings.iter().find(is_on);
        let own = makes.map(|word| (word.line, word.text));
        if let Some((line, text)) = own.or_else(|| setting.map(|one| (one.line, one.value.clone())))
        {
            let shown = text.replace(UNKNOWN, "…");
            let message = format!("a build with `{shown}` has no GPU target");
            found.add("gpu-target-missing", line, message);
        }
    }
    let is_bitsandbytes = |one: &&ShellCommand| {
        one.words[0].text.ends_with("cmake")
            && one.words.iter().any(|word| word.text.eq_ignore_ascii_case("-DCOMPUTE_BACKEND=hip"))
    };
    if let Some(command) = facts.commands.iter().find(is_bitsandbytes) {
        let message = "without `-DBNB_ROCM_ARCH`, bitsandbytes is built for its own list of GPUs";
        let hit = Hit::new("gpu-target-missing", command.words[0].line, message);
        let hit = hit.help("write the targets: `-DBNB_ROCM_ARCH=…`");
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Returns the only target in the name of the image that gets a setting: `vllm:rocm7.2-gfx1103`.
pub(super) fn built_for(setting: &Setting) -> Option<GpuTarget> {
    let image = setting.program.as_deref().filter(|_| setting.scope == Scope::Run)?;
    let image = image.split(' ').next().filter(|image| image.contains([':', '/']))?;
    let parts = image.split(|c: char| !c.is_ascii_alphanumeric());
    let mut targets = parts.filter(|part| part.starts_with("gfx")).map(str::parse::<GpuTarget>);
    let target = targets.next()?.ok()?;
    targets.next().is_none().then_some(target)
}

/// The variable that PyTorch's builds read.
const ROCM_ARCH: &str = "PYTORCH_ROCM_ARCH";

/// The variable that selects the backend of flash-attention.
const TRITON: &str = "FLASH_ATTENTION_TRITON_AMD_ENABLE";

/// The repository whose build reads only `GPU_ARCHS`.
const FLASH: &str = "Dao-AILab/flash-attention";

/// Texts that show that the file builds something else, which can read the variable.
const OTHER_BUILDS: [&str; 6] =
    ["GPU_ARCHS", "vllm", "xformers", "deepspeed", "bitsandbytes", "build_amd.py"];

/// Checks for the targets of a build of flash-attention in a variable that its build does not read.
pub(super) fn flash_attention(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell) || !facts.code.contains(FLASH) {
        return;
    }
    let clones = |one: &&ShellCommand| {
        let words = one.texts();
        words[0] == "git" && words.contains(&"clone")
            || words.iter().any(|word| word.starts_with("git+"))
    };
    let is_other = |one: &ShellCommand| !one.texts().iter().any(|word| word.contains(FLASH));
    let has_other = facts.commands.iter().filter(clones).any(is_other)
        || OTHER_BUILDS.iter().any(|text| facts.code.contains(text));
    let builds = |one: &&ShellCommand| {
        let words = one.texts();
        let has = |text: &str| words.contains(&text);
        has("setup.py") && ["install", "bdist_wheel", "develop"].iter().any(|word| has(word))
            || has("install") && words.iter().any(|word| word.contains(FLASH) || *word == ".")
    };
    let Some(build) = facts.commands.iter().find(builds).filter(|_| !has_other) else { return };
    let line = build.words[0].line;
    let before = |name: &'static str| {
        facts.settings.iter().filter(move |one| one.name == name && one.line <= line)
    };
    let is_triton = before(TRITON).next_back().is_some_and(|one| one.value == "TRUE");
    let is_kept =
        |one: &&Setting| matches!(one.scope, Scope::Image | Scope::Exported | Scope::Command);
    if let Some(setting) = before(ROCM_ARCH).find(is_kept).filter(|_| !is_triton) {
        let message = format!("flash-attention's build reads `GPU_ARCHS`, not `{ROCM_ARCH}`");
        found.add("variable-without-effect", setting.line, message);
    }
}
