//! Holds a [`Plan`]: inputs, typed steps, final label text, canonical text and digest.
//!
//! A plan is what the planner makes and the executor carries out; the two share nothing else.
//! It leaves no choice to the executor: images are named by digest, labels have their final text,
//! time is a value. [`Plan::canonical_text`] is what `plan --format json` prints, byte for byte, and
//! its SHA-256 is the plan digest that every image carries as a label.
//!
//! A [`Draft`] is the plain data; [`Draft::finish`] checks it. Every [`Plan`] is valid, also one that
//! was read from a file: see [`InvalidPlan`] for what is refused.
//!
//! This crate knows no files, no network, no environment and no clock.

mod draft;
mod input;
pub mod labels;
mod steps;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;

use names::Digest;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

pub use draft::{Draft, InvalidPlan, Revision};
pub use input::{Input, Inputs};
pub use steps::{
    Action, BootstrapContract, DeriveContract, Expectation, ImageEdit, ManifestKind, PatchUse,
    Platform, Seal, SealContract, Step,
};

/// The number of the plan's JSON form. A reader refuses a larger one.
pub const SCHEMA: u32 = 2;

/// What will be done to make one image, in full. It is valid, and cannot be changed.
///
/// Its fields are those of [`Draft`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Plan(Draft);

/// Why a text is not a plan.
#[derive(Debug, thiserror::Error)]
pub enum ParsePlanError {
    /// It is not JSON of this form.
    #[error("the text is not a plan of schema {SCHEMA}")]
    Json(#[source] serde_json::Error),
    /// A newer tool made it.
    #[error("the plan has schema {0}, this build-pipeline reads up to {SCHEMA}")]
    Newer(u32),
    /// A tool from before the first release made it.
    #[error(
        "the plan has schema {0}, from before the first release; this build-pipeline reads {SCHEMA}"
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

impl Plan {
    /// Returns the plain data, to be changed and checked again.
    pub fn into_draft(self) -> Draft {
        self.0
    }

    /// Returns the canonical text: indented JSON in the order of the fields, with a final newline.
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

    /// Reads a plan back from its text.
    ///
    /// # Errors
    /// The text is not a plan, is not valid, or was made by another version of build-pipeline.
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

    /// Returns the labels that the image will carry beside those it inherits, the plan digest among
    /// them. The plan digest cannot be part of the text that it is the digest of.
    pub fn final_labels(&self) -> BTreeMap<String, String> {
        let mut all = self.image_edit().labels.clone();
        all.insert(labels::PLAN_DIGEST.to_owned(), self.digest().to_string());
        all
    }

    /// Returns the edit that makes the image of the plan.
    pub fn image_edit(&self) -> &ImageEdit {
        match self.steps.last().map(|step| &step.action) {
            Some(Action::DeriveImage { edit, .. }) => edit,
            _ => unreachable!("`Draft::finish` lets no other plan through"),
        }
    }

    /// Returns whether an engine builds the image, so that its layers exist nowhere else.
    pub fn is_built(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::SealImage { .. }))
    }

    /// Returns the patches of all sources, each once, in the order in which they are applied.
    pub fn patches(&self) -> Vec<&PatchUse> {
        self.0.patches()
    }

    /// Returns the input that a step reads, where it reads one.
    pub fn input_of(&self, step: &Step) -> Option<&Input> {
        self.inputs.get(step.action.input()?)
    }

    /// Returns what a step does together with the value of the input that it reads and, where the
    /// result depends on it, the GPU target: everything but the steps that it needs. Of a lock of
    /// packages only the sets count that the step fetches, which the step itself identifies.
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
        if let (Some(content), true) = (content.as_object_mut(), is_for_gpu) {
            content.insert("gpu".to_owned(), self.gpu.to_string().into());
        }
        content
    }

    /// Returns the key of each step by its name: the SHA-256 of its content and of the keys of the
    /// steps it needs. Steps of equal keys make the same thing, in whichever plan they are.
    ///
    /// The last step's labels name the plan's digest too, which is not part of the key.
    pub fn step_keys(&self) -> BTreeMap<&str, Digest> {
        let mut keys: BTreeMap<&str, Digest> = BTreeMap::new();
        for step in &self.steps {
            let needs: Vec<Option<&Digest>> =
                step.action.needs().into_iter().map(|need| keys.get(need)).collect();
            let text = serde_json::to_string(&(self.content_of(step), needs))
                .expect("a step holds text, numbers and maps keyed by text");
            keys.insert(&step.id, Digest::of(text.as_bytes()));
        }
        keys
    }
}

#[cfg(test)]
mod tests;
