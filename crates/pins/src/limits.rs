//! What GPUs cannot do with some ROCm releases: `[limit.NAME]` in `versions/gpus.toml`.

use std::collections::BTreeMap;

use crate::checks::{self, line};
use crate::problem::{Report, Reported, quote};
use crate::reader::{Table, collect};
use crate::{Gpus, Known, Releases};
use names::GpuTarget;

/// What GPUs cannot do with some ROCm releases, and what works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The targets.
    pub gpus: Vec<GpuTarget>,
    /// The ROCm releases; empty means all.
    pub rocm: Vec<Releases>,
    /// The programs; empty means all.
    pub programs: Vec<String>,
    /// The fact; `{gpu}` in it is replaced with the target.
    pub why: String,
    /// What to use; `{gpu}` in it is replaced with the target.
    pub instead: String,
    /// How the fact is known.
    pub known: Known,
    /// The source, for people.
    pub evidence: String,
}

/// What a GPU cannot do, and what to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// One sentence.
    pub text: String,
    /// The programs; empty means all.
    pub programs: Vec<String>,
    /// The source.
    pub evidence: String,
}

impl Gpus {
    /// Returns what `gpu` cannot do with a ROCm release. Rows for particular releases are left out
    /// if `rocm` is unknown.
    pub fn limits(&self, gpu: &GpuTarget, rocm: Option<&str>) -> Vec<Advice> {
        let fits = |limit: &&Limit| {
            let is_for_rocm = limit.rocm.is_empty()
                || rocm.is_some_and(|rocm| limit.rocm.iter().any(|range| range.contains(rocm)));
            limit.gpus.contains(gpu) && is_for_rocm
        };
        let advice = |limit: &Limit| {
            let doubt = match limit.known {
                Known::OneSource => " (one report)",
                _ => "",
            };
            let text = format!("{}{doubt}; use {}", limit.why, limit.instead);
            Advice {
                text: text.replace("{gpu}", gpu.as_str()),
                programs: limit.programs.clone(),
                evidence: limit.evidence.clone(),
            }
        };
        self.limits.values().filter(fits).map(advice).collect()
    }
}

/// Reads all tables `[limit.NAME]`.
pub(crate) fn read(
    report: &mut Report<'_>,
    root: &Table<'_>,
) -> Result<BTreeMap<String, Limit>, Reported> {
    let Some(all) = root.get("limit") else { return Ok(BTreeMap::new()) };
    let all = all.table(report, "`[limit.NAME]`")?;
    collect(report, all.entries(), |report, entry| {
        let place = quote(&format!("[limit.{}]", entry.key));
        let table = entry.table(report, &place)?;
        table.check_form(report, crate::forms::LIMIT.keys);
        let gpus = table.texts(report, "gpus", "gfx906", checks::gpu_target);
        if gpus.as_ref().is_ok_and(Vec::is_empty) {
            table.add_missing(report, "gpus", "gpus = [\"gfx906\"]");
        }
        let rocm = table.texts(report, "rocm", "6.4 or newer", crate::compat::releases);
        let programs = table.texts(report, "programs", "vllm", checks::program);
        let why = table.required(report, "why", "why = \"rocBLAS has no code\"", line(200));
        let instead = table.required(report, "instead", "instead = \"ROCm 6.3\"", line(200));
        let known = table.required(report, "known", "known = \"vendor\"", Known::parse);
        let evidence = table.required(report, "evidence", "evidence = \"ROCm/vllm\"", line(500));
        table.date(report, "checked")?;
        let limit = Limit {
            gpus: gpus?,
            rocm: rocm?,
            programs: programs?,
            why: why?,
            instead: instead?,
            known: known?,
            evidence: evidence?,
        };
        Ok((entry.key.to_owned(), limit))
    })
}
