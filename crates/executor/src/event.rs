//! What is reported while a plan is carried out.

use std::time::Duration;

use names::Digest;
use record::{OutputState, StepState};
use serde::Serialize;

/// Something that happened. Also the lines of `--progress json`, one JSON object each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A plan begins.
    PlanBegun {
        /// The plan's digest.
        plan_digest: Digest,
        /// How many steps it has.
        steps: usize,
    },
    /// A step begins.
    StepBegun {
        /// The step.
        step: String,
        /// What it does, for people.
        what: String,
    },
    /// A step ended.
    StepEnded {
        /// The step.
        step: String,
        /// What became of it.
        state: StepState,
        /// How long it took, in milliseconds.
        milliseconds: u64,
    },
    /// Something a person should know.
    Note {
        /// The rule's name.
        rule: String,
        /// What is so, and what follows.
        message: String,
    },
    /// The engine begins an instruction of a Dockerfile.
    BuildInstruction {
        /// The step.
        step: String,
        /// Its number, from 1, as the engine counts.
        number: u32,
        /// How many there are, by the same count.
        total: u32,
        /// The line of the Dockerfile that it begins on, from 1, where that is known.
        line: Option<usize>,
        /// The instruction.
        instruction: String,
    },
    /// A build says a line.
    BuildLine {
        /// The step.
        step: String,
        /// The line, as it came.
        text: String,
    },
    /// A layer was made canonical.
    LayerSealed {
        /// The step.
        step: String,
        /// How many entries it has; none where nothing changed.
        entries: usize,
        /// How many entries were left out because the base has the same.
        unchanged: u64,
        /// How many paths the scrub list left out.
        scrubbed: usize,
        /// Bytecode of Python that is out of date, which Python compiles again at every start.
        stale_bytecode: usize,
    },
    /// An output begins to be written.
    OutputBegun {
        /// The output, spelled as `--output` takes it.
        output: String,
    },
    /// A layer is being copied.
    LayerProgress {
        /// The output.
        output: String,
        /// The layer.
        layer: Digest,
        /// Bytes copied so far.
        done: u64,
        /// The layer's size in bytes.
        total: u64,
    },
    /// An output ended.
    OutputEnded {
        /// The output.
        output: String,
        /// What became of it.
        state: OutputState,
        /// How many bytes of layers were copied.
        layer_bytes_copied: u64,
    },
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
