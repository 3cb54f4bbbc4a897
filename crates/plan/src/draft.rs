//! The plain data of a plan, and the check that makes a [`Plan`] of it.

use std::collections::{BTreeMap, BTreeSet};

use names::{CommitId, Digest, GpuTarget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Action, Input, Inputs, PatchUse, Plan, Step, labels};

/// What will be done to make one image, in full: the plain data, which [`Draft::finish`] checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Plan")]
pub struct Draft {
    /// The number of this JSON form.
    pub schema: u32,
    /// The track, for example `locked-spoof`.
    pub track: String,
    /// The name of the image: the track, with `rehearsal-` in front of a rehearsed one.
    pub name: String,
    /// The GPU target the image is made for, for example `gfx1151`.
    pub gpu: GpuTarget,
    /// Whether the bases are stand-ins. Such an image can never be published as the real one.
    pub rehearsal: bool,
    /// The time that everything in the image carries, in seconds since 1970-01-01 UTC.
    pub source_date_epoch: u64,
    /// The commit that the labels name. Absent unless the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// What this run changes against the data files, by name: image inputs, `variant`, `spoof`, `gpu`,
    /// `source-date-epoch`.
    pub overrides: BTreeMap<String, String>,
    /// Everything that the image is made from, by name. Each is used by a step.
    pub inputs: Inputs,
    /// The steps. Each comes after all that it needs.
    pub steps: Vec<Step>,
}

/// The commit that last changed a file which the image is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// The repository's `https` address, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The commit.
    pub commit: CommitId,
}

/// Why a draft is not a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlan {
    /// The last step does not label an image, or another one does.
    #[error("the last step, and no other, must label the image")]
    Last,
    /// Two steps have one name.
    #[error("two steps are called `{0}`")]
    Twice(String),
    /// A step needs something that no earlier step makes.
    #[error("step `{step}` needs `{need}`, and no earlier step makes that")]
    Need {
        /// The step.
        step: String,
        /// What it needs.
        need: String,
    },
    /// A step's result is used by no other step.
    #[error("no step uses what step `{0}` makes")]
    UnusedStep(String),
    /// A step reads an input that the plan does not have, or one of another kind.
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
    /// A change of this run concerns nothing that the plan uses.
    #[error("the change `{name}={value}` concerns nothing that the plan uses")]
    UnusedOverride {
        /// What is changed.
        name: String,
        /// Its value.
        value: String,
    },
    /// A label contradicts the plan.
    #[error("label `{label}` says `{found}` where the plan says `{expected}`")]
    Label {
        /// The label.
        label: String,
        /// What it says.
        found: String,
        /// What the plan says; empty where the label must be absent.
        expected: String,
    },
}

/// What a step gives to those that need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Product {
    /// An image that others can be built on: a fetched base, or a sealed image.
    Image,
    /// A tree of files for a build context.
    Tree,
    /// Packages: a tree too, and what a base is made of.
    Packages,
    /// What an engine built, not yet canonical.
    Built,
    /// The finished image.
    Labelled,
}

/// Something that a step needs, and what it takes in its place.
struct Need<'a> {
    step: &'a str,
    takes: &'static [Product],
}

impl Draft {
    /// Checks that the parts of the plan fit each other.
    ///
    /// # Errors
    /// The first thing that does not fit; [`InvalidPlan`] lists what is checked.
    pub fn finish(self) -> Result<Plan, InvalidPlan> {
        self.check_steps()?;
        self.check_inputs()?;
        self.check_overrides()?;
        self.check_labels()?;
        Ok(Plan(self))
    }

    /// Returns the patches of all sources, each once, in the order in which they are applied.
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

    /// Returns the labels that follow from the rest of the plan. `None` says that a label must be
    /// absent. The planner writes them, and [`Draft::finish`] refuses labels that say anything else.
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
        BTreeMap::from([
            (labels::TRACK, Some(self.track.clone())),
            (labels::GPU, Some(self.gpu.to_string())),
            (labels::REHEARSAL, Some(self.rehearsal.to_string())),
            (labels::PINS_DIGEST, Some(Digest::of(pinned.as_bytes()).to_string())),
            (labels::OVERRIDES, present(overrides.join(" "))),
            (labels::PATCHES, present(ids.join(" "))),
            (
                labels::PATCHES_DIGEST,
                present(effects).map(|text| Digest::of(text.as_bytes()).to_string()),
            ),
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
            // What is new is told from the base that the engine built on, and from no other.
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
            let Some(name) = step.action.input() else { continue };
            let kinds = input_kinds(&step.action);
            let is_read = |input: &&Input| kinds.contains(&input.kind());
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

    fn check_overrides(&self) -> Result<(), InvalidPlan> {
        for (name, value) in &self.overrides {
            let is_used = match name.as_str() {
                "variant" | "spoof" => true,
                "gpu" => *value == self.gpu.to_string(),
                "source-date-epoch" => *value == self.source_date_epoch.to_string(),
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

    /// A label may be absent, but it never says what the plan does not.
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
        Action::FetchBase { .. } | Action::BootstrapBase { .. } | Action::SealImage { .. } => {
            Product::Image
        }
        Action::FetchSource { .. } | Action::FetchWheels { .. } => Product::Tree,
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
        Action::BuildImage { .. } => &["file"],
        Action::BootstrapBase { .. } | Action::SealImage { .. } | Action::DeriveImage { .. } => &[],
    }
}
