//! Defines a [`Plan`]: its inputs, typed steps, final labels, canonical text and digest.
//!
//! The planner creates a plan and the executor carries it out; they share nothing else. A plan
//! leaves no choice to the executor: images are identified by digest, labels have their final text,
//! and the time is fixed. `plan --format json` prints [`Plan::canonical_text`] byte for byte. The
//! SHA-256 of that text is the plan digest, which every image carries as a label.
//!
//! A [`Draft`] is the plain data; [`Draft::finish`] checks it. Every [`Plan`] is valid, even one
//! that was read from a file; [`InvalidPlan`] lists the possible errors. [`outline()`], [`dot`]
//! and [`mermaid`] show a plan to people.
//!
//! This crate does not use files, the network, the environment or a clock.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod diagrams;
mod draft;
mod files;
mod input;
pub mod labels;
mod outline;
mod steps;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;

use names::Digest;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

pub use diagrams::{dot, mermaid};
pub use draft::{Draft, InvalidPlan, Revision};
pub use files::{FilesContract, OwnFile, OwnFiles};
pub use input::{Input, Inputs};
pub use names::{ImageEdit, ManifestKind, Platform};
pub use outline::{SlimmedSizes, outline};
pub use steps::{
    Action, BootstrapContract, DeriveContract, Expectation, PatchUse, Seal, SealContract,
    SlimContract, Step,
};

/// The version of the plan's JSON format. A reader refuses all others.
pub const SCHEMA: u32 = 2;

/// Everything that is done to produce one image. A plan is valid and immutable.
///
/// It dereferences to a [`Draft`], which has the fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Plan(Draft);

/// The reason why a text is not a plan.
#[derive(Debug, thiserror::Error)]
pub enum ParsePlanError {
    /// The text is not JSON of this format.
    #[error("the text is not a plan of schema {SCHEMA}")]
    Json(#[source] serde_json::Error),
    /// A newer build-pipeline created it.
    #[error(
        "the plan has schema {0}, but this build-pipeline reads only up to {SCHEMA}; update build-pipeline"
    )]
    Newer(u32),
    /// A build-pipeline from before the first release created it.
    #[error(
        "the plan has schema {0}, from before the first release, but this build-pipeline reads {SCHEMA}"
    )]
    Older(u32),
    /// Its parts contradict each other.
    #[error("the plan is not valid")]
    Invalid(#[source] InvalidPlan),
}

impl Deref for Plan {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0
    }
}

impl JsonSchema for Plan {
    fn schema_name() -> Cow<'static, str> {
        Draft::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Draft::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Draft::deserialize(deserializer)?.finish().map_err(serde::de::Error::custom)
    }
}

/// Returns the name of a track's image. Set `variant` and `gpu` only if they differ from the
/// defaults; all images of a project then have different names.
pub fn image_name(track: &str, variant: Option<&str>, gpu: Option<&str>) -> String {
    [Some(track), variant, gpu].into_iter().flatten().collect::<Vec<_>>().join("-")
}

impl Plan {
    /// Returns the plain data, which can be changed and checked again.
    pub fn into_draft(self) -> Draft {
        self.0
    }

    /// Returns the canonical text: indented JSON with the fields in order, and a final newline.
    pub fn canonical_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a plan holds text, numbers and maps keyed by text");
        text.push('\n');
        text
    }

    /// Returns the SHA-256 of the canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical_text().as_bytes())
    }

    /// Parses a plan from its text.
    ///
    /// # Errors
    /// Fails if the text is not a plan, is not valid, or was created by a build-pipeline with
    /// a different plan format.
    pub fn parse(text: &str) -> Result<Self, ParsePlanError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(ParsePlanError::Json)?;
        if head.schema > SCHEMA {
            return Err(ParsePlanError::Newer(head.schema));
        }
        if head.schema < SCHEMA {
            return Err(ParsePlanError::Older(head.schema));
        }
        let draft: Draft = serde_json::from_str(text).map_err(ParsePlanError::Json)?;
        draft.finish().map_err(ParsePlanError::Invalid)
    }

    /// Returns the labels that the plan adds to the inherited ones, including the plan digest. The
    /// plan cannot contain its own digest.
    pub fn final_labels(&self) -> BTreeMap<String, String> {
        let mut all = self.image_edit().labels.clone();
        all.insert(labels::PLAN_DIGEST.to_owned(), self.digest().to_string());
        all
    }

    /// Returns the edit that produces the image of the plan.
    pub fn image_edit(&self) -> &ImageEdit {
        match self.steps.last().map(|step| &step.action) {
            Some(Action::DeriveImage { edit, .. }) => edit,
            _ => unreachable!("`Draft::finish` accepts no other plan"),
        }
    }

    /// Returns whether an engine builds the image. If so, its layers exist nowhere else.
    pub fn is_built(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::SealImage { .. }))
    }

    /// Returns the step that removes code for other GPUs, if there is one.
    pub fn slim_step(&self) -> Option<&Step> {
        self.0.slim_step()
    }

    /// Returns whether a layout must contain all layers, because an engine builds them, or because
    /// code for other GPUs is removed from them.
    pub fn needs_all_layers(&self) -> bool {
        self.is_built() || self.slim_step().is_some()
    }

    /// Returns whether steps make layers: they build, slim, or add the project's own files.
    pub fn makes_layers(&self) -> bool {
        let adds = |step: &Step| matches!(step.action, Action::AddFiles { .. });
        self.needs_all_layers() || self.steps.iter().any(adds)
    }

    /// Returns the patches of all sources, each once, in order of application.
    pub fn patches(&self) -> Vec<&PatchUse> {
        self.0.patches()
    }

    /// Returns the input that a step reads, if it reads one.
    pub fn input_of(&self, step: &Step) -> Option<&Input> {
        self.inputs.get(step.action.input()?)
    }

    /// Returns the content of a step: its action, the values of the inputs it reads and, if the
    /// result depends on it, the GPU target. The steps that it depends on are not included. For a
    /// package lock, only the fetched sets count, and the action itself identifies them.
    pub fn content_of(&self, step: &Step) -> serde_json::Value {
        let is_for_gpu =
            matches!(&step.action, Action::FetchSource { patches, .. } if !patches.is_empty());
        let mut content = serde_json::to_value(&step.action)
            .expect("an action holds text, numbers and maps keyed by text");
        let is_whole = !matches!(&step.action, Action::FetchPackages { .. });
        let input = self.input_of(step).filter(|_| is_whole);
        if let (Some(content), Some(input)) = (content.as_object_mut(), input) {
            let value =
                serde_json::to_value(input).expect("an input holds text and maps keyed by text");
            content.insert("value".to_owned(), value);
        }
        if let (Some(_), Some(content)) = (step.action.files(), content.as_object_mut()) {
            let inputs = step.action.inputs().into_iter();
            let values: BTreeMap<&str, String> = inputs
                .filter_map(|name| Some((name, self.inputs.get(name)?.to_string())))
                .collect();
            content.insert("values".to_owned(), serde_json::json!(values));
        }
        if let (Some(content), true) = (content.as_object_mut(), is_for_gpu) {
            content.insert("gpu".to_owned(), self.gpu.to_string().into());
        }
        content
    }

    /// Returns the key of each step by its name: the SHA-256 of its content and of the keys of the
    /// steps that it depends on. Steps with equal keys produce the same result, in any plan.
    ///
    /// The labels of the last step also contain the plan's digest, which is not part of the key.
    pub fn step_keys(&self) -> BTreeMap<&str, Digest> {
        let mut keys: BTreeMap<&str, Digest> = BTreeMap::new();
        for step in &self.steps {
            let text = self.key_text(step, |need| keys.get(need));
            keys.insert(&step.id, Digest::of(text.as_bytes()));
        }
        keys
    }

    /// Returns the text whose SHA-256 is the key of a step: everything that determines its result.
    /// `key` returns the key of a step that it depends on.
    pub fn key_text<'a>(&self, step: &Step, key: impl Fn(&str) -> Option<&'a Digest>) -> String {
        let needs: Vec<Option<&Digest>> = step.action.needs().into_iter().map(key).collect();
        serde_json::to_string(&(self.content_of(step), needs))
            .expect("a step holds text, numbers and maps keyed by text")
    }
}

#[cfg(test)]
mod tests;
