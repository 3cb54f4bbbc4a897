//! A Tekton pipeline.
//!
//! Its fields are those of <https://tekton.dev/docs/pipelines/pipelines/>, version `v1`.

use std::fmt::Write as _;

use crate::jobs::{Job, Jobs, Options, Work};
use crate::writer::Writer;

/// Writes a pipeline.
pub const WRITER: Writer = Writer { comment: "#", runs_on: "debian:13", text: pipeline };

/// Returns the text of a pipeline, without the first line.
fn pipeline(jobs: &Jobs, options: &Options) -> String {
    let mut text = "# A task that runs a Dockerfile is privileged, because a container engine runs in it.\n\
         apiVersion: tekton.dev/v1\n\
         kind: Pipeline\n\
         metadata:\n\
         \x20 name: images\n\
         spec:\n\
         \x20 workspaces:\n\
         \x20   - name: project\n\
         \x20     description: A checkout of the project. Tasks may run at the same time.\n\
         \x20   - name: registry-auth\n\
         \x20     description: A secret with the file config.json of docker, to log in to registries.\n\
         \x20     optional: true\n\
         \x20 tasks:\n"
        .to_owned();
    let mut line = |indent: usize, line: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:indent$}{line}", "");
    };
    for job in &jobs.0 {
        write_task(job, options, &mut line);
    }
    text
}

/// Writes a task of the pipeline.
fn write_task(job: &Job, options: &Options, line: &mut impl FnMut(usize, &str)) {
    let what = match &job.work {
        Work::Step(_) => "The digest of the step's result",
        Work::Image => "The digest of the image",
    };
    line(4, &format!("- name: {}", job.name));
    line(6, "timeout: 6h0m0s");
    // The results of other tasks. They also define which tasks run before this one.
    entries(6, "params:", job.needs.keys().enumerate(), line, |(number, need)| {
        [format!("name: result-{number}"), format!("value: $(tasks.{need}.results.digest)")]
    });
    line(6, "workspaces:");
    line(8, "- name: project");
    line(8, "- name: registry-auth");
    line(6, "taskSpec:");
    let numbers = 0..job.needs.len();
    entries(8, "params:", numbers.clone(), line, |number| {
        [format!("name: result-{number}"), "type: string".to_owned()]
    });
    line(8, "workspaces:");
    line(10, "- name: project");
    line(10, "- name: registry-auth");
    line(12, "optional: true");
    line(8, "results:");
    line(10, "- name: digest");
    line(12, &format!("description: {what}"));
    line(8, "steps:");
    line(10, "- name: run");
    line(12, &format!("image: {}", options.runs_on));
    line(12, "workingDir: $(workspaces.project.path)");
    if job.uses_engine {
        line(12, "securityContext:");
        line(14, "privileged: true");
    }
    entries(12, "env:", numbers, line, |number| {
        [format!("name: RESULT_{number}"), format!("value: $(params.result-{number})")]
    });
    line(12, "script: |");
    line(14, "#!/bin/sh");
    line(14, "set -e");
    line(14, "if [ \"$(workspaces.registry-auth.bound)\" = true ]; then");
    line(14, "  export REGISTRY_AUTH_FILE=\"$(workspaces.registry-auth.path)/config.json\"");
    line(14, "fi");
    options.install.lines().for_each(|one| line(14, one));
    let results = job.needs.values().enumerate();
    let results = results.map(|(number, key)| (key, format!("$RESULT_{number}")));
    line(14, "digest=$(mktemp)");
    options.command_lines(job, results, "\"$digest\"").iter().for_each(|one| line(14, one));
    // Tekton would keep a trailing newline as part of the result.
    line(14, "tr -d '\\n' < \"$digest\" > \"$(results.digest.path)\"");
}

/// Writes a list whose entries have two fields each. An empty list is left out.
fn entries<T>(
    indent: usize,
    name: &str,
    of: impl Iterator<Item = T>,
    line: &mut impl FnMut(usize, &str),
    fields: impl Fn(T) -> [String; 2],
) {
    for (number, one) in of.enumerate() {
        if number == 0 {
            line(indent, name);
        }
        let [first, second] = fields(one);
        line(indent + 2, &format!("- {first}"));
        line(indent + 4, &second);
    }
}
