//! The plain data of a plan, and the check that turns it into a [`Plan`].

use std::collections::{BTreeMap, BTreeSet};

use names::{CommitId, Digest, GpuTarget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Action, Input, Inputs, PatchUse, Plan, SlimContract, Step, files, labels};

/// Everything that is done to produce one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Plan")]
pub struct Draft {
    /// The version of this JSON format.
    pub schema: u32,
    /// The track, for example `locked-spoof`.
    pub track: String,
    /// The name of the image: the track, the variant and GPU if they are not the defaults, and the
    /// prefix `rehearsal-` for a rehearsal.
    pub name: String,
    /// The GPU target of the image, for example `gfx1151`.
    pub gpu: GpuTarget,
    /// Whether the image is a rehearsal. Such an image can never be published as the real one.
    pub rehearsal: bool,
    /// The timestamp of the image and of everything that the build adds to it, in seconds since
    /// 1970-01-01 UTC.
    pub source_date_epoch: u64,
    /// The commit for the labels. Absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The settings that this run overrides, by name: image inputs, `variant`, `spoof`, `gpu`,
    /// `slim`, `source-date-epoch`.
    pub overrides: BTreeMap<String, String>,
    /// Everything that the image is made from, by name. Each input is used by at least one step.
    pub inputs: Inputs,
    /// The steps. Each comes after all steps that it depends on.
    pub steps: Vec<Step>,
}

/// The last commit that changed a file that the image is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// The repository's `https` address, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The commit.
    pub commit: CommitId,
}

/// The reason why a draft is not a valid plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlan {
    /// The last step does not label an image, or another step does.
    #[error("the last step, and only that step, must label the image")]
    Last,
    /// Two steps have the same name.
    #[error("two steps are called `{0}`")]
    Twice(String),
    /// A step depends on something that no earlier step produces.
    #[error("step `{step}` needs `{need}`, but no earlier step produces it")]
    Need {
        /// The step.
        step: String,
        /// The missing step or result.
        need: String,
    },
    /// No other step uses a step's result.
    #[error("no step uses the result of step `{0}`")]
    UnusedStep(String),
    /// A step reads an input that is missing from the plan or is of a different kind.
    #[error("step `{step}` reads the {kind} `{input}`, which is not an input of the plan")]
    Input {
        /// The step.
        step: String,
        /// The name of the input.
        input: String,
        /// The kind of input that the step reads.
        kind: &'static str,
    },
    /// No step reads an input.
    #[error("no step reads input `{0}`")]
    UnusedInput(String),
    /// An image input has no digest.
    #[error("image `{0}` has no digest")]
    NoDigest(String),
    /// A layer or build context cannot contain one of the project's own files.
    #[error("step `{step}` cannot add `{path}`: {why}")]
    OwnFile {
        /// The step.
        step: String,
        /// The path of the entry.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// An override of this run does not affect anything that the plan uses.
    #[error("the change `{name}={value}` does not affect anything that the plan uses")]
    UnusedOverride {
        /// The name of the overridden setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// A label contradicts the plan.
    #[error("label `{label}` is `{found}`, but the plan requires `{expected}`")]
    Label {
        /// The label.
        label: String,
        /// Its value.
        found: String,
        /// The required value; empty if the label must be absent.
        expected: String,
    },
}

/// The kind of result that a step produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Product {
    /// An image that others can be based on, for example a fetched base or a sealed image.
    Image,
    /// A tree of files for a build context.
    Tree,
    /// Packages, for a build context or for a bootstrapped base.
    Packages,
    /// The output of an engine, not yet canonical.
    Built,
    /// The finished image.
    Labelled,
}

/// A dependency of a step, and the accepted kinds of result.
struct Need<'a> {
    step: &'a str,
    takes: &'static [Product],
}

impl Draft {
    /// Checks that the parts of the plan are consistent.
    ///
    /// # Errors
    /// Returns the first contradiction; [`InvalidPlan`] lists the checks.
    pub fn finish(self) -> Result<Plan, InvalidPlan> {
        self.check_steps()?;
        self.check_inputs()?;
        self.check_own_files()?;
        self.check_overrides()?;
        self.check_labels()?;
        Ok(Plan(self))
    }

    /// Returns the patches of all sources, each once, in order of application.
    pub(crate) fn patches(&self) -> Vec<&PatchUse> {
        let mut all: Vec<&PatchUse> = Vec::new();
        for step in &self.steps {
            let Action::FetchSource { patches, .. } = &step.action else { continue };
            for patch in patches {
                if !all.contains(&patch) {
                    all.push(patch);
                }
            }
        }
        all
    }

    /// Returns the step that removes code for other GPUs, if there is one.
    pub fn slim_step(&self) -> Option<&Step> {
        self.steps.iter().find(|step| matches!(step.action, Action::SlimImage { .. }))
    }

    /// Returns the contract and the GPU targets, sorted, if code for other GPUs is removed.
    pub fn slimmed_for(&self) -> Option<(SlimContract, BTreeSet<&GpuTarget>)> {
        match &self.slim_step()?.action {
            Action::SlimImage { contract, gpus, if_present, .. } => {
                Some((*contract, gpus.iter().chain(if_present).collect()))
            }
            _ => None,
        }
    }

    /// Returns the labels that follow from the rest of the plan. `None` means that a label must be
    /// absent. The planner writes these labels, and [`Draft::finish`] refuses other values.
    pub fn derived_labels(&self) -> BTreeMap<&'static str, Option<String>> {
        let pinned: BTreeMap<&String, String> = self
            .inputs
            .iter()
            .filter(|(_, input)| input.is_pinned())
            .map(|(name, input)| (name, input.to_string()))
            .collect();
        let pinned = serde_json::to_string(&pinned).expect("a map of text is JSON");
        let overrides: Vec<String> =
            self.overrides.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let patches = self.patches();
        let ids: Vec<String> =
            patches.iter().map(|patch| format!("{}/{}", patch.component, patch.id)).collect();
        let effects: String = ids
            .iter()
            .zip(&patches)
            .map(|(id, patch)| format!("{id} {}\n", patch.effect))
            .collect();
        let present = |text: String| Some(text).filter(|text| !text.is_empty());
        let revision = self.revision.as_ref();
        let commit = revision.map(|revision| revision.commit.to_string());
        let audited = self.steps.iter().flat_map(|step| match &step.action {
            Action::AuditImage { gpu, .. } => std::slice::from_ref(gpu),
            // With `if_present`, the image imitates another GPU, and `gpus` lacks the image's own GPU.
            Action::SlimImage { gpus, if_present, .. } if if_present.is_empty() => gpus,
            _ => &[],
        });
        let audited: BTreeSet<&str> = audited.map(GpuTarget::as_str).collect();
        let slimmed = self.slimmed_for().map(|(contract, gpus)| {
            let gpus: Vec<&str> = gpus.into_iter().map(GpuTarget::as_str).collect();
            format!("{contract} {}", gpus.join(" "))
        });
        let own_files: String = self
            .steps
            .iter()
            .filter_map(|step| step.action.files())
            .map(|files| files::listing(files, &self.inputs))
            .collect();
        BTreeMap::from([
            (labels::TRACK, Some(self.track.clone())),
            (labels::GPU, Some(self.gpu.to_string())),
            (labels::GPU_TARGETS, present(Vec::from_iter(audited).join(" "))),
            (labels::SLIM, slimmed),
            (labels::REHEARSAL, Some(self.rehearsal.to_string())),
            (labels::PINS_DIGEST, Some(Digest::of(pinned.as_bytes()).to_string())),
            (labels::OVERRIDES, present(overrides.join(" "))),
            (labels::PATCHES, present(ids.join(" "))),
            (
                labels::PATCHES_DIGEST,
                present(effects).map(|text| Digest::of(text.as_bytes()).to_string()),
            ),
            (labels::FILES_DIGEST, files::digest_of(&own_files).map(|digest| digest.to_string())),
            (labels::SOURCE, revision.and_then(|revision| revision.url.clone())),
            (labels::REVISION, commit.clone()),
            (labels::VCS_REF, commit),
            (labels::VCS_TYPE, revision.map(|_| "git".to_owned())),
        ])
    }

    fn check_steps(&self) -> Result<(), InvalidPlan> {
        let mut made: BTreeMap<&str, (Product, &Action)> = BTreeMap::new();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for (index, step) in self.steps.iter().enumerate() {
            let is_last = index + 1 == self.steps.len();
            if (product(&step.action) == Product::Labelled) != is_last {
                return Err(InvalidPlan::Last);
            }
            for need in needs(&step.action) {
                let found = made.get(need.step).filter(|(product, _)| need.takes.contains(product));
                if found.is_none() {
                    return Err(missing(step, need.step));
                }
                used.insert(need.step);
            }
            // Sealing must compare with the base that the engine built on, and with no other.
            if let Action::SealImage { image, base, .. } = &step.action
                && let Some((_, Action::BuildImage { base: built_on, .. })) =
                    made.get(image.as_str())
                && built_on != base
            {
                return Err(missing(step, base));
            }
            if made.insert(&step.id, (product(&step.action), &step.action)).is_some() {
                return Err(InvalidPlan::Twice(step.id.clone()));
            }
        }
        let Some((_, others)) = self.steps.split_last() else { return Err(InvalidPlan::Last) };
        match others.iter().find(|step| !used.contains(step.id.as_str())) {
            Some(step) => Err(InvalidPlan::UnusedStep(step.id.clone())),
            None => Ok(()),
        }
    }

    fn check_inputs(&self) -> Result<(), InvalidPlan> {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for step in &self.steps {
            let kinds = input_kinds(&step.action);
            let is_read = |input: &&Input| kinds.contains(&input.kind());
            for name in step.action.inputs() {
                if self.inputs.get(name).filter(is_read).is_none() {
                    let kind = kinds.first().copied().unwrap_or_default();
                    return Err(InvalidPlan::Input {
                        step: step.id.clone(),
                        input: name.to_owned(),
                        kind,
                    });
                }
                used.insert(name);
            }
        }
        for (name, input) in &self.inputs {
            if !used.contains(name.as_str()) {
                return Err(InvalidPlan::UnusedInput(name.clone()));
            }
            if matches!(input, Input::Image { reference, .. } if reference.digest.is_none()) {
                return Err(InvalidPlan::NoDigest(name.clone()));
            }
        }
        Ok(())
    }

    fn check_own_files(&self) -> Result<(), InvalidPlan> {
        for step in &self.steps {
            let refused = match &step.action {
                Action::AddFiles { files, .. } => files::refused(files),
                Action::BuildImage { files, context, .. } => {
                    files::refused_in_context(files, context.keys())
                }
                _ => None,
            };
            if let Some((path, why)) = refused {
                return Err(InvalidPlan::OwnFile { step: step.id.clone(), path, why });
            }
        }
        Ok(())
    }

    fn check_overrides(&self) -> Result<(), InvalidPlan> {
        for (name, value) in &self.overrides {
            let is_used = match name.as_str() {
                "variant" | "spoof" => true,
                "gpu" => *value == self.gpu.to_string(),
                "source-date-epoch" => *value == self.source_date_epoch.to_string(),
                "slim" => {
                    let kept = self.slimmed_for().map(|(_, gpus)| gpus);
                    let kept = kept.into_iter().flatten().map(GpuTarget::as_str);
                    let kept = Vec::from_iter(kept).join(",");
                    *value == if kept.is_empty() { "off".to_owned() } else { kept }
                }
                pin => match self.inputs.get(pin) {
                    Some(Input::Image { reference, .. }) => {
                        let digest = value.rsplit('@').next().unwrap_or_default();
                        reference.digest.as_ref().is_some_and(|found| found.as_str() == digest)
                    }
                    _ => false,
                },
            };
            if !is_used {
                let (name, value) = (name.clone(), value.clone());
                return Err(InvalidPlan::UnusedOverride { name, value });
            }
        }
        Ok(())
    }

    /// Checks that no label contradicts the plan. Labels may be absent.
    fn check_labels(&self) -> Result<(), InvalidPlan> {
        let derived = self.derived_labels();
        for step in &self.steps {
            let (Action::SealImage { edit, .. } | Action::DeriveImage { edit, .. }) = &step.action
            else {
                continue;
            };
            for (label, expected) in &derived {
                let found = edit.labels.get(*label);
                if found.is_some() && found != expected.as_ref() {
                    return Err(InvalidPlan::Label {
                        label: (*label).to_owned(),
                        found: found.cloned().unwrap_or_default(),
                        expected: expected.clone().unwrap_or_default(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn missing(step: &Step, need: &str) -> InvalidPlan {
    InvalidPlan::Need { step: step.id.clone(), need: need.to_owned() }
}

fn product(action: &Action) -> Product {
    match action {
        Action::FetchBase { .. }
        | Action::BootstrapBase { .. }
        | Action::SealImage { .. }
        | Action::SlimImage { .. }
        | Action::AuditImage { .. }
        | Action::AddFiles { .. } => Product::Image,
        Action::FetchSource { .. } | Action::FetchWheels { .. } | Action::AuditWheels { .. } => {
            Product::Tree
        }
        Action::FetchPackages { .. } => Product::Packages,
        Action::BuildImage { .. } => Product::Built,
        Action::DeriveImage { .. } => Product::Labelled,
    }
}

fn needs(action: &Action) -> Vec<Need<'_>> {
    use Product::{Built, Image, Packages, Tree};
    let takes = |step: &str| -> &'static [Product] {
        match action {
            Action::BootstrapBase { .. } => &[Packages],
            Action::SealImage { image, .. } if image == step => &[Built],
            Action::BuildImage { base, .. } if base != step => &[Tree, Packages],
            Action::AuditWheels { .. } => &[Tree],
            _ => &[Image],
        }
    };
    action.needs().into_iter().map(|step| Need { step, takes: takes(step) }).collect()
}

/// Returns the kinds of input that an action reads.
fn input_kinds(action: &Action) -> &'static [&'static str] {
    match action {
        Action::FetchBase { .. } => &["image"],
        Action::FetchSource { .. } => &["source", "archive"],
        Action::FetchPackages { .. } | Action::FetchWheels { .. } => &["lock"],
        Action::BuildImage { .. } | Action::AddFiles { .. } => &["file"],
        Action::BootstrapBase { .. }
        | Action::SealImage { .. }
        | Action::SlimImage { .. }
        | Action::AuditImage { .. }
        | Action::AuditWheels { .. }
        | Action::DeriveImage { .. } => &[],
    }
}
