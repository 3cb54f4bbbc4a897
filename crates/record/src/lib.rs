//! Holds a [`BuildRecord`], proves an image against what a plan says it must be ([`verify`]), and says
//! what is another between two plans ([`step_changes`]).
//!
//! A record is written for every run: when it begins, and again when it ends, well or not. It holds
//! the whole plan, what each step came to, and what went over the wire. This crate is pure: time
//! enters as text, and somebody else writes the file.

mod changes;
mod engine;
mod outcome;
pub mod verify;

use std::collections::BTreeMap;

use names::{CommitId, Digest};
use plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use changes::{InputChange, Standing, StepChange, step_changes};
pub use engine::{EngineUse, PassedOver};
pub use outcome::{
    ImageSummary, Note, OutputOutcome, OutputState, StepOutcome, StepState, Traffic,
};

/// The number of the record's JSON form. A reader refuses a larger one.
pub const SCHEMA: u32 = 2;

/// What one run did, or was doing when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuildRecord {
    /// The number of this JSON form, [`SCHEMA`].
    pub schema: u32,
    /// The record's name: the time the run began, the track and the process.
    pub id: String,
    /// The version of build-pipeline.
    pub tool_version: String,
    /// The words of the command, secrets taken out.
    pub command: Vec<String>,
    /// The process that runs it, for telling a lost run from a running one.
    pub process: u32,
    /// When the run began, RFC 3339.
    pub began: String,
    /// When it ended. Absent while it runs, and for ever where it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The state of the run.
    pub status: Status,
    /// What went wrong, outermost first. Empty where nothing did.
    pub error: Vec<String>,
    /// The plan's digest, which is also a label of the image.
    pub plan_digest: Digest,
    /// The whole plan.
    pub plan: Plan,
    /// Where the files of the plan are in the history of the project.
    pub recipe: Recipe,
    /// What was said about the plan before it ran, as `rule: message`.
    pub warnings: Vec<String>,
    /// The engine. Absent if the run needed none, or had none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineUse>,
    /// What became of each step.
    pub steps: Vec<StepOutcome>,
    /// The image, where one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSummary>,
    /// Where the image was put.
    pub outputs: Vec<OutputOutcome>,
    /// What was noticed while it ran.
    pub notes: Vec<Note>,
    /// What went over the wire.
    pub traffic: Traffic,
}

/// The files of the project that a plan was made from, and the commit they are from.
///
/// The image does not depend on it, only on the content of the files (docs/adr/0003).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recipe {
    /// The SHA-256 of each file that was read, by its path from the root of the project.
    pub files: BTreeMap<String, Digest>,
    /// The `https` address of the repository, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The last commit that changed one of the files, where the history tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// Why no commit is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The files that are not as the newest commit has them.
    pub modified: Vec<String>,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It has not ended; or it was killed, where its process is gone.
    Running,
    /// All that was asked for is done.
    Succeeded,
    /// Something went wrong.
    Failed,
    /// A signal ended it.
    Interrupted,
}

/// Why a text is not a record.
#[derive(Debug, thiserror::Error)]
pub enum ParseRecordError {
    /// It is not JSON of this form.
    #[error("the text is not a build record")]
    Json(#[source] serde_json::Error),
    /// A newer tool made it.
    #[error("the record has schema {0}, this build-pipeline reads up to {SCHEMA}")]
    Newer(u32),
    /// A tool from before the first release made it.
    #[error(
        "the record has schema {0}, from before the first release; this build-pipeline reads {SCHEMA}"
    )]
    Older(u32),
}

impl BuildRecord {
    /// Returns the record of a run that begins: no outcome yet.
    pub fn begin(plan: Plan, run: Run) -> Self {
        let Run { tool_version, command, process, began, warnings, recipe } = run;
        // A file name: RFC 3339 without the characters that file systems and shells dislike.
        let stamp: String = began.chars().filter(|c| !matches!(c, ':' | '-')).collect();
        Self {
            schema: SCHEMA,
            id: format!("{stamp}-{}-{process}", plan.name),
            tool_version,
            command,
            process,
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

    /// Reads a record from the text of its file.
    ///
    /// # Errors
    /// The text is not a record, or a newer build-pipeline made it.
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

/// What is known of a run when it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The version of build-pipeline.
    pub tool_version: String,
    /// The words of the command, secrets taken out.
    pub command: Vec<String>,
    /// The process that runs it.
    pub process: u32,
    /// When it begins, RFC 3339.
    pub began: String,
    /// What was said about the plan, as `rule: message`.
    pub warnings: Vec<String>,
    /// Where the files of the plan are in the history of the project.
    pub recipe: Recipe,
}

#[cfg(test)]
mod tests;
