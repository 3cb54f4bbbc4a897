//! A GitLab CI pipeline.

use std::fmt::Write as _;

use names::Digest;

use crate::jobs::{Job, Jobs, Options, Work};
use crate::writer::Writer;

/// Writes a pipeline.
pub const WRITER: Writer = Writer { comment: "#", runs_on: "debian:13", text: pipeline };

/// Returns the text of a pipeline, without the first line.
fn pipeline(jobs: &Jobs, options: &Options) -> String {
    let mut text = format!(
        "# A job that runs a Dockerfile needs a container engine, for example from a runner with a\n\
         # shell executor. To log in to registries, define the variable REGISTRY_AUTH_FILE with the\n\
         # type File; its content is that of podman's auth.json or docker's config.json.\n\
         default:\n\
         \x20 image: {}\n\
         \x20 before_script:\n\
         \x20   - |\n",
        options.runs_on
    );
    let mut line = |indent: usize, line: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:indent$}{line}", "");
    };
    options.install.lines().for_each(|one| line(6, one));
    for job in &jobs.0 {
        write_job(job, options, &mut line);
    }
    text
}

/// Writes a job of the pipeline.
fn write_job(job: &Job, options: &Options, line: &mut impl FnMut(usize, &str)) {
    line(0, "");
    line(0, &format!("{}:", job.name));
    line(2, "timeout: 6 hours");
    let needs: Vec<&str> = job.needs.keys().map(String::as_str).collect();
    line(2, &format!("needs: [{}]", needs.join(", ")));
    line(2, "script:");
    line(4, "- |");
    let results = job.needs.values().map(|key| (key, format!("${}", variable(key))));
    options.command_lines(job, results, "digest").iter().for_each(|one| line(6, one));
    if let Work::Step(key) = &job.work {
        line(6, &format!("echo \"{}=$(cat digest)\" > digest.env", variable(key)));
        line(2, "artifacts:");
        line(4, "reports:");
        line(6, "dotenv: digest.env");
    }
}

/// Returns the variable that contains the result of a step.
fn variable(key: &Digest) -> String {
    format!("RESULT_{}", key.hex().get(..16).unwrap_or_default())
}
