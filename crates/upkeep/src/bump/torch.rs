//! vLLM's PyTorch requirement, and whether the pinned PyTorch meets it.
//!
//! vLLM states it in several files. The one for ROCm takes precedence: `pyproject.toml` is for
//! CUDA.

use failure::{Failure, Kind};
use names::PinName;
use names::Version;
use patcher::{Position, Tree as _, VersionRange};
use patching::pinned::PinnedTree;
use pins::{Pins, RequirementLine};
use project::pins_file::package;

/// Files in which vLLM states its build requirements, those for ROCm first.
const FILES: [&str; 3] =
    ["requirements/build/rocm.txt", "requirements/rocm-build.txt", "pyproject.toml"];

/// The PyTorch requirement of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TorchNeed {
    file: &'static str,
    /// The accepted versions, as the file writes them.
    text: String,
    range: VersionRange,
}

/// Returns the PyTorch requirement of a vLLM source, or `None` if no file has one that can be
/// parsed.
pub(crate) fn read(tree: &PinnedTree) -> Option<TorchNeed> {
    FILES.into_iter().find_map(|file| {
        let bytes = tree.read(&file.parse().ok()?).ok().flatten()?;
        need(file, &String::from_utf8(bytes).ok()?)
    })
}

fn need(file: &'static str, text: &str) -> Option<TorchNeed> {
    // The file may also contain options such as `--extra-index-url`, which are ignored here.
    let lines: Vec<String> = if file.ends_with(".toml") {
        pins::requirements(file, text)
            .ok()?
            .into_iter()
            .filter_map(|line| match line {
                RequirementLine::Requirement(requirement) => Some(requirement),
                RequirementLine::Include(_) => None,
            })
            .collect()
    } else {
        text.lines().map(|line| line.split(" #").next().unwrap_or(line).to_owned()).collect()
    };
    let versions = lines.iter().find_map(|line| {
        let rest = line.trim().strip_prefix("torch")?;
        let versions = rest.split(';').next().unwrap_or_default().trim();
        versions.starts_with(['=', '<', '>']).then(|| versions.to_owned())
    })?;
    let range = versions.parse().ok()?;
    Some(TorchNeed { file, text: versions, range })
}

/// Refuses a source of vLLM that needs a PyTorch version other than the pinned one.
pub(crate) fn check(
    pins: &Pins,
    name: &PinName,
    need: &TorchNeed,
    found: &str,
) -> Result<(), Failure> {
    // Pins of one set have the same suffix: `vllm-legacy` goes with `pytorch-legacy`.
    let ending = |pin: &PinName| pin.as_str().split_once('-').map(|(_, ending)| ending.to_owned());
    let torch = pins
        .sources
        .iter()
        .find(|(other, pin)| package(&pin.url) == Some("torch") && ending(other) == ending(name));
    let Some((torch, version)) =
        torch.and_then(|(torch, pin)| Some((torch, pin.version.as_ref()?)))
    else {
        return Ok(());
    };
    let is_met =
        version.parse::<Version>().is_ok_and(|v| need.range.position(&v) == Position::Inside);
    if is_met {
        return Ok(());
    }
    let TorchNeed { file, text, .. } = need;
    let told = Failure::new(
        Kind::Input,
        format!("`{found}` needs torch {text} ({file}), but pin `{torch}` is at {version}"),
    );
    let wanted = text.trim_start_matches(['=', '<', '>', ' ']).split(['+', ',', ' ']).next();
    Err(told.hint("nothing was changed").hint(format!(
        "run `build-pipeline bump {torch} v{}` first, or choose a vLLM that works with torch {version}",
        wanted.unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &'static str, content: &str) -> Option<String> {
        need(file, content).map(|need| need.text)
    }

    #[test]
    fn the_requirement_is_found_in_the_forms_that_vllm_has() {
        let build = "[build-system]\nrequires = ['ninja', 'torch == 2.8.0', 'wheel']\n";
        assert_eq!(text("pyproject.toml", build).unwrap(), "== 2.8.0");
        let rocm = "-r ../common.txt\n\n--extra-index-url https://h.example/rocm/\ntorch==2.12.0+rocm7.14.0\ntorchvision==0.27.0\n";
        let found = need(FILES[0], rocm).unwrap();
        assert_eq!(found.text, "==2.12.0+rocm7.14.0");
        let inside =
            |version: &str| found.range.position(&version.parse().unwrap()) == Position::Inside;
        assert!(inside("2.12.0") && !inside("2.11.0") && !inside("2.13.0"));
        assert_eq!(
            text(FILES[1], "torch>=2.8,<2.10; python_version > '3.9'\n").unwrap(),
            ">=2.8,<2.10"
        );
        for none in ["torchvision==0.23.0\n", "torch\n", "# torch==2.8.0\n", "torch != 2.7\n"] {
            assert_eq!(text(FILES[1], none), None, "{none}");
        }
    }
}
