//! Rules that follow a build step by step: see [`crate::image`].

use super::{absent, homes, writable};
use crate::image::walk;
use crate::{Context, Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    walk(facts, &mut |state, step| {
        absent::at(facts, context, state, step, found);
        writable::at(facts, context, state, step, found);
        homes::at(facts, state, step, found);
    });
}
