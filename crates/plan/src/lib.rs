//! Holds a [`Plan`]: typed steps, final label text, canonical text and digest.
//!
//! A plan is what the planner makes and the executor carries out; the two never meet but here.
//! It leaves no choice to the executor: images stand at digests, labels in their final text, time
//! as a value. [`Plan::canonical_text`] is what `plan --format json` prints, byte for byte, and
//! its SHA-256 is the plan digest that every image carries as a label.
//!
//! This crate knows no files, no network, no environment and no clock.

pub mod labels;
mod steps;

use std::collections::BTreeMap;

use image_ref::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use steps::{Action, ImageEdit, ManifestKind, Platform, Step};

/// The number of the plan's JSON form. A reader refuses a larger one.
pub const SCHEMA: u32 = 1;

/// What will be done to make one image, in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The number of this JSON form, [`SCHEMA`].
    pub schema: u32,
    /// The track, for example `locked-spoof`.
    pub track: String,
    /// The name of the image: the track, with `rehearsal-` in front of a rehearsed one.
    pub name: String,
    /// The GPU target the image is made for, for example `gfx1151`.
    pub gpu: String,
    /// Whether the bases are stand-ins. Such an image can never be published as the real one.
    pub rehearsal: bool,
    /// The time that everything in the image carries, in seconds since 1970-01-01 UTC.
    pub source_date_epoch: u64,
    /// The commit of the recipe, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    /// What this run changes against the data files, by name: pins, `spoof`, `gpu`, `source-date-epoch`.
    pub overrides: BTreeMap<String, String>,
    /// The value of every pin that the image is made from, by name.
    pub pins: BTreeMap<String, String>,
    /// The steps. Each stands behind all that it needs.
    pub steps: Vec<Step>,
}

/// Where the recipe of an image lies and which commit of it was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The repository's `https` address, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The last commit that changed `versions/`, `patches/` or `dockerfiles/`.
    pub commit: String,
    /// Whether those folders differ from that commit.
    pub modified: bool,
}

/// Why a text is not a plan.
#[derive(Debug, thiserror::Error)]
pub enum ParsePlanError {
    /// It is not JSON of this form.
    #[error("the text is not a plan of schema {SCHEMA}")]
    Json(#[source] serde_json::Error),
    /// A newer tool made it.
    #[error("the plan has schema {0}, this build-pipeline reads up to {SCHEMA}")]
    Newer(u32),
}

impl Plan {
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
    /// The text is not a plan, or a newer build-pipeline made it.
    pub fn parse(text: &str) -> Result<Self, ParsePlanError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(ParsePlanError::Json)?;
        if head.schema > SCHEMA {
            return Err(ParsePlanError::Newer(head.schema));
        }
        serde_json::from_str(text).map_err(ParsePlanError::Json)
    }

    /// Returns the labels that the image will carry beside those it inherits, the plan digest among them.
    ///
    /// The plan digest cannot stand in the text it is the digest of, so it is added here.
    pub fn final_labels(&self) -> BTreeMap<String, String> {
        let mut all = self.image_edit().map(|edit| edit.labels.clone()).unwrap_or_default();
        all.insert(labels::PLAN_DIGEST.to_owned(), self.digest().to_string());
        all
    }

    /// Returns the edit that makes the image of the plan, where it has one.
    pub fn image_edit(&self) -> Option<&ImageEdit> {
        self.steps.iter().find_map(|step| match &step.action {
            Action::DeriveImage { edit, .. } => Some(edit),
            Action::FetchBase { .. } => None,
        })
    }
}
