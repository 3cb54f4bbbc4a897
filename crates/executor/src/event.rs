//! The events of an execution.

use std::time::Duration;

use names::Digest;
use record::{OutputState, StepState};
use serde::Serialize;

/// An event. `--progress json` prints one JSON object per event, each on its own line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A plan started.
    PlanBegun {
        /// The plan's digest.
        plan_digest: Digest,
        /// The number of its steps.
        steps: usize,
    },
    /// A step started.
    StepBegun {
        /// The step.
        step: String,
        /// What it does, as text for users.
        what: String,
    },
    /// A step ended.
    StepEnded {
        /// The step.
        step: String,
        /// Its result.
        state: StepState,
        /// How long it took, in milliseconds.
        milliseconds: u64,
        /// The store that the result came from, if another run made it.
        #[serde(skip_serializing_if = "Option::is_none")]
        store: Option<String>,
    },
    /// A warning or note for the user.
    Note {
        /// The rule's name.
        rule: String,
        /// What was found, and its consequences.
        message: String,
    },
    /// The engine started an instruction of a Dockerfile.
    BuildInstruction {
        /// The step.
        step: String,
        /// Its number, counted from 1 by the engine.
        number: u32,
        /// The number of instructions, counted in the same way.
        total: u32,
        /// The line of the Dockerfile on which it starts, counted from 1, if known.
        line: Option<usize>,
        /// The instruction.
        instruction: String,
    },
    /// A line of build output.
    BuildLine {
        /// The step.
        step: String,
        /// The line, unchanged.
        text: String,
    },
    /// A layer was made canonical.
    LayerSealed {
        /// The step.
        step: String,
        /// The number of its entries, or 0 if nothing changed.
        entries: usize,
        /// The number of entries that were left out because the base has identical ones.
        unchanged: u64,
        /// The number of paths that the scrub list removed.
        scrubbed: usize,
        /// The number of outdated Python bytecode files, which Python compiles again at every
        /// start.
        stale_bytecode: usize,
    },
    /// A step started to copy layers to this machine or into the engine.
    LayersWanted {
        /// The step.
        step: String,
        /// The size of the layers, or 0 if the step has copied all of them.
        layer_bytes: u64,
    },
    /// The code for other GPUs was removed from a layer.
    LayerSlimmed {
        /// The step.
        step: String,
        /// The number of the layer, counted from 1.
        number: usize,
        /// The number of layers of the image.
        total: usize,
        /// The size of the layer before, in bytes.
        before: u64,
        /// The size of the layer after, in bytes.
        after: u64,
    },
    /// The write to an output started.
    OutputBegun {
        /// The output, in the syntax of `--output`.
        output: String,
        /// The size of all layers of the image, or 0 if the output needs none. Layers that the
        /// output already has are not transferred.
        layer_bytes: u64,
    },
    /// A layer is being copied.
    LayerProgress {
        /// The output, or the step.
        output: String,
        /// The layer.
        layer: Digest,
        /// The number of bytes copied so far. If this is the full size in a layer's first event,
        /// the layer needed no transfer.
        done: u64,
        /// The layer's size in bytes.
        total: u64,
    },
    /// The write to an output ended.
    OutputEnded {
        /// The output.
        output: String,
        /// Its result.
        state: OutputState,
        /// The number of layer bytes that were copied.
        layer_bytes_copied: u64,
    },
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
