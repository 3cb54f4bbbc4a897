//! Files with one mistake each.

mod breadth;
mod builds;
mod classes;
mod contents;
mod dockerfiles;
mod failures;
mod held;
mod hosts;
mod image;
mod installs;
mod layers;
mod machines;
mod moving;
mod origins;
mod readers;
mod relations;
mod rows;
mod scripts;
mod services;
mod stages;
mod steps;
mod together;
mod waits;

/// The rule, the file's name, the line, the text.
pub(crate) type Wrong = (&'static str, &'static str, usize, &'static str);

/// Returns all files.
pub(crate) fn all() -> Vec<Wrong> {
    [
        breadth::WRONG,
        classes::WRONG,
        contents::WRONG,
        dockerfiles::WRONG,
        installs::WRONG,
        layers::WRONG,
        machines::WRONG,
        moving::WRONG,
        readers::WRONG,
        services::WRONG,
        scripts::WRONG,
        stages::WRONG,
        relations::WRONG,
        rows::WRONG,
        builds::WRONG,
        together::WRONG,
        origins::WRONG,
        failures::WRONG,
        held::WRONG,
        hosts::WRONG,
        image::WRONG,
        steps::WRONG,
        waits::WRONG,
    ]
    .concat()
}
