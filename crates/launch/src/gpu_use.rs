//! What programs on a GPU need, and what they cannot do. `env`, `run` and `smoke` use this.

use std::collections::BTreeSet;

use failure::{Failure, Kind};
use host::Gpu;
use names::{GfxVersion, GpuTarget};
use pins::{Advice, Gpus, OVERRIDE, Setting, When};

use crate::notice::Notice;

/// A GPU, and the programs that use it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GpuUse<'a> {
    /// The facts about all GPUs.
    pub(crate) gpus: &'a Gpus,
    /// The GPU target.
    pub(crate) gpu: &'a GpuTarget,
    /// The ROCm release of the programs, if it is known.
    pub(crate) rocm: Option<&'a str>,
    /// The program, if it is known.
    pub(crate) program: Option<&'a str>,
}

impl GpuUse<'_> {
    /// Returns the variables that the programs read at the times `when`.
    pub(crate) fn settings(&self, when: &[When], spoof: Option<GfxVersion>) -> Vec<Setting> {
        let mut all = self.gpus.environment(self.gpu, self.rocm, when, spoof);
        all.retain(|setting| {
            self.program.is_none_or(|program| concerns(&setting.programs, &[program]))
        });
        all
    }

    /// Returns what the programs cannot do, and warns about it. `others` are the programs that are
    /// meant if none is known. `option` sets the override, unless it `is_overridden` already.
    pub(crate) fn limits(
        &self,
        others: &[String],
        is_overridden: bool,
        option: &str,
        tell: &dyn Fn(Notice),
    ) -> Vec<Advice> {
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let programs = self.program.map_or(others, |program| vec![program]);
        let mut all = self.gpus.limits(self.gpu, self.rocm);
        all.retain(|limit| concerns(&limit.programs, &programs));
        // With the override, there is nothing left to do.
        all.retain(|limit| !(is_overridden && limit.text.contains(SPOOF_OPTION)));
        for limit in &mut all {
            limit.text = limit.text.replace(SPOOF_OPTION, &format!("`{option}`"));
            tell(Notice::warning("gpu-limit", limit.text.clone()));
        }
        all
    }

    /// Warns about an override.
    pub(crate) fn warn_of_override(&self, tell: &dyn Fn(Notice)) {
        let gpu = self.gpu;
        let known = self.gpus.gpus.get(gpu);
        let risk = known.and_then(|known| known.spoof_risk.as_deref());
        let since = known.and_then(|known| known.native_since.as_deref());
        let risk = risk.map_or(String::new(), |risk| format!(", and {risk} with it"));
        let better = since.map_or(String::new(), |since| {
            format!("AMD's packages for ROCm {since} or newer, which run {gpu} without it, or ")
        });
        tell(Notice::warning(
            "spoof",
            format!(
                "AMD does not support {OVERRIDE}{risk}; better use {better}a program that uses Vulkan"
            ),
        ));
    }
}

/// The option of `env` that sets the override, as limits name it.
const SPOOF_OPTION: &str = "`--spoof`";

/// Returns whether a row for `programs` is about one of `asked`.
fn concerns(programs: &[String], asked: &[&str]) -> bool {
    programs.is_empty() || programs.iter().any(|one| asked.contains(&one.as_str()))
}

/// Checks that `gpus.toml` or a track names a program; `of_tracks` are those of the tracks.
///
/// # Errors
/// None of them does.
pub(crate) fn known_program(
    text: &str,
    gpus: &Gpus,
    of_tracks: Vec<String>,
) -> Result<String, Failure> {
    let program = text.trim().to_ascii_lowercase();
    let of_limits = gpus.limits.values().flat_map(|limit| &limit.programs);
    let of_variables = gpus.variables.values().flat_map(|variable| &variable.programs);
    let mut known: BTreeSet<String> = of_limits.chain(of_variables).cloned().collect();
    known.extend(of_tracks);
    if known.contains(&program) {
        return Ok(program);
    }
    let names = known.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
    let all = format!("the known programs are {names}; without `--for`, all variables are printed");
    if program.is_empty() {
        return Err(Failure::new(Kind::Input, "the name of the program is empty").hint(all));
    }
    let what = format!("nothing is known about the program `{text}`");
    let told = Failure::new(Kind::Input, what);
    Err(match failure::nearest(&program, known.iter().map(String::as_str)) {
        Some(near) => told.hint(format!("did you mean `{near}`?")).hint(all),
        None => told.hint(all),
    })
}

/// Says which GPUs of the machine the programs do not see; `selects` is what selects another one.
pub(crate) fn tell_hidden(gpu: &GpuTarget, found: &[Gpu], selects: &str, tell: &dyn Fn(Notice)) {
    let mut hidden: Vec<&str> =
        found.iter().filter_map(|one| Some(one.target.as_ref()?.as_str())).collect();
    hidden.retain(|target| *target != gpu.as_str());
    hidden.dedup();
    tell(Notice::Hint(format!(
        "ROCR_VISIBLE_DEVICES shows programs only {gpu}; `--gpu {}` {selects}",
        hidden.join("` or `--gpu ")
    )));
}

/// Warns about a variable of the user that counts only the visible GPUs.
pub(crate) fn warn_of_index(name: &str, value: &str, fix: &str, tell: &dyn Fn(Notice)) {
    if matches!(name, "HIP_VISIBLE_DEVICES" | "CUDA_VISIBLE_DEVICES") && value != "0" {
        tell(Notice::warning(
            "visible-devices",
            format!(
                "`{name}={value}` counts only the GPUs that ROCR_VISIBLE_DEVICES shows, so programs may find none; {fix}"
            ),
        ));
    }
}
