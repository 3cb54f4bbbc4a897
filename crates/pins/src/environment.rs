//! The rules for environment variables in images, as data with their sources.
//!
//! A variable that does not exist looks like a setting, but does nothing; a debugging variable
//! slows down the program for every user. Both are refused, with an alternative. The spoof is
//! refused here because users must be able to switch it off at run time; `spoof = true` makes that
//! possible.

use crate::problem::{Wrong, code, nearest, quote, wrong};
use crate::tracks::secrets;

/// The prefix of Ollama's variables.
const OLLAMA: &str = "OLLAMA_";

/// All variables of Ollama that start with `OLLAMA_`.
///
/// From `ollama/ollama:envconfig/config.go` and the output of `ollama serve --help`. The list
/// includes variables that only some releases read, because refusing them would be wrong.
const OLLAMA_VARIABLES: [&str; 28] = [
    "OLLAMA_AUTH",
    "OLLAMA_CONTEXT_LENGTH",
    "OLLAMA_DEBUG",
    "OLLAMA_DEBUG_LOG_REQUESTS",
    "OLLAMA_EDITOR",
    "OLLAMA_FLASH_ATTENTION",
    "OLLAMA_GPU_OVERHEAD",
    "OLLAMA_HOST",
    "OLLAMA_IGPU_ENABLE",
    "OLLAMA_INTEL_GPU",
    "OLLAMA_KEEP_ALIVE",
    "OLLAMA_KV_CACHE_TYPE",
    "OLLAMA_LLM_LIBRARY",
    "OLLAMA_LOAD_TIMEOUT",
    "OLLAMA_MAX_LOADED_MODELS",
    "OLLAMA_MAX_QUEUE",
    "OLLAMA_MAX_TRANSFER_STREAMS",
    "OLLAMA_MODELS",
    "OLLAMA_MULTIUSER_CACHE",
    "OLLAMA_NEW_ENGINE",
    "OLLAMA_NOHISTORY",
    "OLLAMA_NOPRUNE",
    "OLLAMA_NO_CLOUD",
    "OLLAMA_NUM_PARALLEL",
    "OLLAMA_ORIGINS",
    "OLLAMA_REMOTES",
    "OLLAMA_SCHED_SPREAD",
    "OLLAMA_VULKAN",
];

/// Variables that images must not set: the name, the problem, and the alternative.
const REFUSED: [(&str, &str, &str); 9] = [
    (
        "OLLAMA_GPU_MEMORY",
        "has never existed in any Ollama release",
        "remove it; set the GPU's memory limit on the host with the kernel parameter `ttm.pages_limit`; `OLLAMA_GPU_OVERHEAD` only reserves bytes",
    ),
    // These variables help to find the cause of a crash: they make the runtime wait for every
    // kernel, or log every call.
    ("AMD_SERIALIZE_KERNEL", "is for debugging and serialises all kernels", RUN_TIME),
    ("AMD_SERIALIZE_COPY", "is for debugging and serialises all copies", RUN_TIME),
    ("HIP_LAUNCH_BLOCKING", "is for debugging and makes every kernel launch synchronous", RUN_TIME),
    (
        "CUDA_LAUNCH_BLOCKING",
        "is for debugging and makes every kernel launch synchronous",
        RUN_TIME,
    ),
    ("AMD_LOG_LEVEL", "is for debugging and logs every call of the HIP runtime", RUN_TIME),
    (
        "TORCH_USE_HIP_DSA",
        "is an option of the PyTorch build and does nothing at run time",
        "remove it",
    ),
    (
        "HIP_SUPPORTED_ARCHS",
        "is a name inside vLLM's CMake files and does nothing as an environment variable",
        "remove it; use a patch to extend the list of GPUs",
    ),
    ("ROC_ENABLE_PRE_VEGA", "is for GPUs older than Vega and does nothing on RDNA", "remove it"),
];

const RUN_TIME: &str =
    "remove it, or set it only for a run that needs it, for example with `podman run --env`";

/// The variable of the spoof. The runtime also reads it with a device number as a suffix.
const SPOOF: &str = "HSA_OVERRIDE_GFX_VERSION";

/// Accepts the name of a variable that an image may set.
pub(crate) fn name(text: &str) -> Result<String, Wrong> {
    let is_valid = text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_valid {
        return Err(wrong(
            format!("{} is not the name of a variable", quote(text)),
            "a name has letters, digits and `_`, and does not start with a digit, for example `VLLM_ROCM_USE_AITER`",
        ));
    }
    if text.starts_with(SPOOF) {
        return Err(wrong(
            format!("`{text}` is the spoof, which cannot be set here"),
            "remove it, and write `spoof = true` in the track: this sets the variable to the value in versions/gpus.toml, and users can switch it off at run time",
        ));
    }
    if let Some((_, why, help)) = REFUSED.iter().find(|(refused, ..)| *refused == text) {
        return Err(wrong(format!("`{text}` {why}"), *help));
    }
    if text.starts_with(OLLAMA) && !OLLAMA_VARIABLES.contains(&text) {
        let help = match near_ollama_variable(text) {
            Some(near) => format!("did you mean `{near}`? Otherwise remove it"),
            None => "remove it; `ollama serve --help` lists the variables that exist".to_owned(),
        };
        return Err(wrong(format!("`{text}` is not a variable of Ollama"), help));
    }
    Ok(text.to_owned())
}

/// Returns the problem and the alternative for a variable that does nothing, does not exist, or is
/// for debugging; otherwise `None`. The override has its own rules.
pub fn refused_variable(variable: &str, text: &str) -> Option<(String, String)> {
    let is_known =
        REFUSED.iter().any(|(refused, ..)| *refused == variable) || variable.starts_with(OLLAMA);
    let named = is_known.then(|| name(variable).err()).flatten();
    let valued = || {
        let is_judged =
            matches!(variable, "GGML_CUDA_ENABLE_UNIFIED_MEMORY" | "VLLM_LOGGING_LEVEL");
        is_judged.then(|| value(variable, text).err()).flatten()
    };
    named.or_else(valued).map(|wrong| (wrong.message, wrong.help))
}

/// Returns `Some` if a variable looks like one of Ollama's but does not exist. Its value is the
/// most similar real name, if there is one.
pub fn unknown_ollama_variable(name: &str) -> Option<Option<&'static str>> {
    let is_unknown = name.starts_with(OLLAMA) && !OLLAMA_VARIABLES.contains(&name);
    is_unknown.then(|| near_ollama_variable(name))
}

/// Returns the most similar real variable of Ollama. The common prefix does not make names
/// similar.
fn near_ollama_variable(name: &str) -> Option<&'static str> {
    let rest = |known: &'static str| known.strip_prefix(OLLAMA);
    let near = nearest(name.strip_prefix(OLLAMA)?, OLLAMA_VARIABLES.into_iter().filter_map(rest))?;
    OLLAMA_VARIABLES.into_iter().find(|variable| rest(variable) == Some(near))
}

/// Accepts the value of the variable `name`.
pub(crate) fn value(name: &str, text: &str) -> Result<String, Wrong> {
    if let Some(character) = text.chars().find(|c| c.is_control()) {
        let code = code(character);
        return Err(wrong(
            format!(
                "the value of `{name}` contains the control character `{code}`: {}",
                quote(text)
            ),
            "write the value on one line, without tabs or escape sequences",
        ));
    }
    if text.len() > 4096 {
        return Err(wrong(
            format!("the value of `{name}` is `{}` bytes long", text.len()),
            "shorten it to 4096 bytes",
        ));
    }
    secrets::value(name, text)?;
    match (name, text) {
        // llama.cpp checks whether the variable is set (`getenv() != nullptr`), not its value.
        ("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "0" | "" | "false" | "off") => Err(wrong(
            format!(
                "`{name}` = {} enables the feature: llama.cpp checks only whether the variable is set",
                quote(text)
            ),
            "remove the line to keep the feature disabled",
        )),
        // Measured in sebt3/vllm-gfx1151, README.
        ("VLLM_LOGGING_LEVEL", "DEBUG" | "debug") => Err(wrong(
            format!("`{name}` = {} makes vLLM 20 to 100 times slower", quote(text)),
            RUN_TIME,
        )),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ollama_are_sorted_and_accepted() {
        assert!(OLLAMA_VARIABLES.is_sorted());
        for variable in OLLAMA_VARIABLES {
            assert_eq!(name(variable).unwrap(), variable);
        }
    }

    #[test]
    fn no_refused_name_is_in_the_list_of_real_ones() {
        for (refused, ..) in REFUSED {
            assert!(!OLLAMA_VARIABLES.contains(&refused));
            assert!(name(refused).is_err());
        }
    }
}
