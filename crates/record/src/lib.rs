//! Defines a [`BuildRecord`], checks an image against what a plan requires ([`verify`]), and
//! compares two plans ([`ExplainReport`]).
//!
//! A record is written for every run: once at the start and once at the end, whether the run
//! succeeds or not. It contains the whole plan, the result of each step, and the traffic with registries.
//! This crate is pure: the time is passed in as text, and the caller writes the file.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod changes;
mod engine;
mod outcome;
mod provenance;
mod purl;
mod sbom;
pub mod verify;

use std::collections::BTreeMap;

use names::{CommitId, Digest};
use plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use changes::{ExplainReport, InputChange, Standing, StepChange, step_changes};
pub use engine::{EngineUse, PassedOver};
pub use outcome::{
    ImageSummary, Note, OutputOutcome, OutputState, SlimSummary, SlimmedLayer, StepOutcome,
    StepState, Traffic,
};
pub use provenance::Statement;
pub use sbom::{Sbom, SbomError};

/// The version of the record's JSON format. A reader refuses all others.
pub const SCHEMA: u32 = 2;

/// What one run did, or was doing when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuildRecord {
    /// The version of this JSON format.
    pub schema: u32,
    /// The record's name: the start time, the name of the image and the process ID.
    pub id: String,
    /// The version of build-pipeline.
    pub tool_version: String,
    /// The words of the command, without secrets.
    pub command: Vec<String>,
    /// The process ID of the run, to distinguish a killed run from a running one.
    pub process: u32,
    /// Where the run took place. Absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// When the run started, RFC 3339.
    pub began: String,
    /// When it ended. Absent while running; never set if the run was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The state of the run.
    pub status: Status,
    /// The error, outermost message first. Empty if there was none.
    pub error: Vec<String>,
    /// The plan's digest, which is also a label of the image.
    pub plan_digest: Digest,
    /// The whole plan.
    pub plan: Plan,
    /// The project files that the plan was made from, and the last commit that changed them.
    pub recipe: Recipe,
    /// The warnings about the plan before the run, as `rule: message`.
    pub warnings: Vec<String>,
    /// The engine. Absent if the run needed none, or had not chosen one yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineUse>,
    /// The result of each step.
    pub steps: Vec<StepOutcome>,
    /// The image, if one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSummary>,
    /// The results of the outputs.
    pub outputs: Vec<OutputOutcome>,
    /// The notes about the run.
    pub notes: Vec<Note>,
    /// The traffic with registries. Downloads of sources and packages do not count.
    pub traffic: Traffic,
}

/// The folders of a run. Projects may have tracks of the same name, and outputs may be relative
/// paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The root of the project.
    pub project: String,
    /// The folder in which the command ran: the one of `-C`, or the current folder.
    pub folder: String,
}

/// The project files that a plan was made from, and their commit.
///
/// The image depends only on the content of the files, not on the commit (docs/adr/0003).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recipe {
    /// The SHA-256 of each file that was read, by its path from the root of the project.
    pub files: BTreeMap<String, Digest>,
    /// The `https` address of the repository, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The last commit that changed any of the files, if the history contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// Why no commit is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The files that differ from the newest commit.
    pub modified: Vec<String>,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It has not ended. In a record's file, also: it was killed (its process no longer exists).
    Running,
    /// It was killed: it has not ended, and its process no longer exists. Only `records` states
    /// this; a killed run cannot write it into its record.
    Killed,
    /// Everything that was requested is done.
    Succeeded,
    /// There was an error.
    Failed,
    /// A signal ended it.
    Interrupted,
}

/// The reason why a text is not a record.
#[derive(Debug, thiserror::Error)]
pub enum ParseRecordError {
    /// The text is not JSON of this format.
    #[error("the text is not a build record")]
    Json(#[source] serde_json::Error),
    /// A newer build-pipeline wrote it.
    #[error(
        "the record has schema {0}, but this build-pipeline reads only up to {SCHEMA}; update build-pipeline"
    )]
    Newer(u32),
    /// A build-pipeline from before the first release wrote it.
    #[error(
        "the record has schema {0}, from before the first release, but this build-pipeline reads {SCHEMA}"
    )]
    Older(u32),
}

impl BuildRecord {
    /// Returns the record of a run that starts, without an outcome.
    pub fn begin(plan: Plan, run: Run) -> Self {
        let Run { tool_version, command, process, place, began, warnings, recipe } = run;
        // The id is a file name: RFC 3339 without the characters that cause problems in file
        // systems and shells.
        let stamp: String = began.chars().filter(|c| !matches!(c, ':' | '-')).collect();
        Self {
            schema: SCHEMA,
            id: format!("{stamp}-{}-{process}", plan.name),
            tool_version,
            command,
            process,
            place,
            began,
            ended: None,
            status: Status::Running,
            error: Vec::new(),
            plan_digest: plan.digest(),
            plan,
            recipe,
            warnings,
            engine: None,
            steps: Vec::new(),
            image: None,
            outputs: Vec::new(),
            notes: Vec::new(),
            traffic: Traffic::default(),
        }
    }

    /// Returns the text of the record's file.
    pub fn to_text(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a record holds text, numbers and lists");
        text.push('\n');
        text
    }

    /// Parses a record from the text of its file.
    ///
    /// # Errors
    /// Fails if the text is not a record, or if a build-pipeline with a different record format
    /// wrote it.
    pub fn parse(text: &str) -> Result<Self, ParseRecordError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(ParseRecordError::Json)?;
        if head.schema > SCHEMA {
            return Err(ParseRecordError::Newer(head.schema));
        }
        if head.schema < SCHEMA {
            return Err(ParseRecordError::Older(head.schema));
        }
        serde_json::from_str(text).map_err(ParseRecordError::Json)
    }
}

/// The facts about a run at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The version of build-pipeline.
    pub tool_version: String,
    /// The words of the command, without secrets.
    pub command: Vec<String>,
    /// The process of the run.
    pub process: u32,
    /// Where it takes place.
    pub place: Option<Place>,
    /// The start time, RFC 3339.
    pub began: String,
    /// The warnings about the plan, as `rule: message`.
    pub warnings: Vec<String>,
    /// The project files that the plan was made from, and the last commit that changed them.
    pub recipe: Recipe,
}

#[cfg(test)]
mod tests;
