//! The environment variables for a GPU: `[variable.NAME]` in `versions/gpus.toml`.
//!
//! Start at [`Gpus::environment`]. The command line does the quoting for shells, and adds the
//! variables that depend on the machine.

use std::collections::BTreeMap;

use crate::checks::{self, line};
use crate::problem::{Report, Reported, Wrong, list, nearest, quote, wrong};
use crate::reader::{Table, collect};
use crate::{Gpus, Releases, environment};
use names::{GfxVersion, GpuTarget};

/// When a variable is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// During compilation.
    Build,
    /// By a running program.
    Run,
    /// By a program that is being debugged; such variables make it slow.
    Debug,
}

/// A variable that exists and has an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The value; `{gpu}` in it is replaced with the target.
    pub value: String,
    /// When it is read.
    pub when: Vec<When>,
    /// The targets; empty means all.
    pub gpus: Vec<GpuTarget>,
    /// The ROCm releases; empty means all.
    pub rocm: Vec<Releases>,
    /// The programs that read it; empty means all.
    pub programs: Vec<String>,
    /// What it does, for people.
    pub why: String,
    /// The source, for people.
    pub evidence: String,
}

/// A variable to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// When it is read; one of the requested times.
    pub when: When,
    /// The programs that read it; empty means all.
    pub programs: Vec<String>,
    /// What it does.
    pub why: String,
    /// The source.
    pub evidence: String,
}

impl When {
    /// All times, in order.
    pub const ALL: [Self; 3] = [Self::Build, Self::Run, Self::Debug];

    /// Returns the name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Run => "run",
            Self::Debug => "debug",
        }
    }
}

/// The override of the GPU's version.
pub const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";

impl Gpus {
    /// Returns the variables for `gpu` that are read at the times `asked`, sorted by name. If an
    /// override is in effect, it comes first, and code is built for the GPU that it names: the
    /// runtime reports that GPU, and loads only code for it. Rows for particular ROCm releases are
    /// left out if `rocm` is unknown.
    pub fn environment(
        &self,
        gpu: &GpuTarget,
        rocm: Option<&str>,
        asked: &[When],
        spoof: Option<GfxVersion>,
    ) -> Vec<Setting> {
        let known = self.gpus.get(gpu);
        let evidence = known.and_then(|known| known.evidence.clone()).unwrap_or_default();
        let spoof = spoof.filter(|_| asked.contains(&When::Run));
        let setting = spoof.map(|version| Setting {
            name: OVERRIDE.to_owned(),
            value: version.to_string(),
            when: When::Run,
            programs: Vec::new(),
            why: format!(
                "makes the runtime report a GPU other than {gpu}, for programs without code for {gpu}; AMD does not support the override"
            ),
            evidence,
        });
        let reported = spoof.and_then(|version| version.target());
        let fits = |variable: &&Variable| {
            let is_for_gpu = variable.gpus.is_empty() || variable.gpus.contains(gpu);
            let is_for_rocm = variable.rocm.is_empty()
                || rocm.is_some_and(|rocm| variable.rocm.iter().any(|r| r.may_contain(rocm)));
            is_for_gpu && is_for_rocm
        };
        let rows = self.variables.iter().filter(|(_, variable)| fits(variable));
        let settings = rows.filter_map(|(name, variable)| {
            let when = *asked.iter().find(|when| variable.when.contains(when))?;
            let why = match &reported {
                Some(target) if variable.value.contains("{gpu}") => {
                    format!("{}: with {OVERRIDE}, the runtime reports {target}", variable.why)
                }
                _ => variable.why.clone(),
            };
            Some(Setting {
                name: name.clone(),
                value: variable.value.replace("{gpu}", reported.as_ref().unwrap_or(gpu).as_str()),
                when,
                programs: variable.programs.clone(),
                why,
                evidence: variable.evidence.clone(),
            })
        });
        setting.into_iter().chain(settings).collect()
    }

    /// Returns the override that `gpu` needs: its spoof, unless `rocm` supports the GPU natively,
    /// has no code for the GPU that the spoof names, or the spoof is only used on request. `7.2`
    /// means all releases 7.2.*.
    pub fn wanted_override(&self, gpu: &GpuTarget, rocm: Option<&str>) -> Option<GfxVersion> {
        let known = self.gpus.get(gpu)?;
        let is_native = rocm.is_some_and(|rocm| self.is_native(gpu, rocm));
        let helps = known.spoof_rocm.is_empty()
            || rocm.is_none_or(|rocm| known.spoof_rocm.iter().any(|range| range.contains(rocm)));
        known.spoof.filter(|_| !known.is_spoof_on_request && !is_native && helps)
    }

    /// Returns whether a ROCm release is known to support `gpu` natively.
    pub fn is_native(&self, gpu: &GpuTarget, rocm: &str) -> bool {
        let since = self.gpus.get(gpu).and_then(|known| known.native_since.as_ref());
        let native = since.and_then(|since| format!("{since} or newer").parse::<Releases>().ok());
        native.is_some_and(|native| native.may_contain(rocm))
    }
}

/// Reads all tables `[variable.NAME]`.
pub(crate) fn read(
    report: &mut Report<'_>,
    root: &Table<'_>,
) -> Result<BTreeMap<String, Variable>, Reported> {
    let Some(all) = root.get("variable") else { return Ok(BTreeMap::new()) };
    let all = all.table(report, "`[variable.NAME]`")?;
    collect(report, all.entries(), |report, entry| {
        let place = quote(&format!("[variable.{}]", entry.key));
        let table = entry.table(report, &place)?;
        table.check_form(report, crate::forms::VARIABLE.keys);
        let when = table.texts(report, "when", "run", when);
        if when.as_ref().is_ok_and(Vec::is_empty) {
            table.add_missing(report, "when", "when = [\"run\"]");
        }
        let is_debug = when.as_ref().is_ok_and(|when| when.as_slice() == [When::Debug]);
        let name = if is_debug {
            // Debugging needs exactly the variables that images must not set.
            Ok(entry.key.to_owned())
        } else {
            environment::name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong))
        };
        let value = table
            .required(report, "value", "value = \"1\"", |text| environment::value(entry.key, text));
        let gpus = table.texts(report, "gpus", "gfx1151", checks::gpu_target);
        let rocm = table.texts(report, "rocm", "7.2.1 or newer", crate::compat::releases);
        let programs = table.texts(report, "programs", "vllm", checks::program);
        let why = table.required(report, "why", "why = \"what it does\"", line(200));
        let evidence = table.required(report, "evidence", "evidence = \"ROCm/vllm\"", line(500));
        table.date(report, "checked")?;
        let variable = Variable {
            value: value?,
            when: when?,
            gpus: gpus?,
            rocm: rocm?,
            programs: programs?,
            why: why?,
            evidence: evidence?,
        };
        Ok((name?, variable))
    })
}

fn when(text: &str) -> Result<When, Wrong> {
    When::ALL.into_iter().find(|when| when.name() == text).ok_or_else(|| {
        let names = list(When::ALL.map(When::name));
        let help = match nearest(text, When::ALL.map(When::name)) {
            Some(near) => format!("did you mean `{near}`? It must be one of {names}"),
            None => format!("write one of {names}"),
        };
        wrong(format!("{} is not a value of `when`", quote(text)), help)
    })
}
