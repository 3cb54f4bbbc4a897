//! A GitHub Actions workflow.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::ci::CHECKOUT;
use crate::jobs::{Job, Jobs, Options, Work};
use crate::writer::Writer;

/// The registry that accepts a workflow's token.
const GITHUB_REGISTRY: &str = "ghcr.io";

/// Writes a workflow.
pub const WRITER: Writer = Writer { comment: "#", runs_on: "ubuntu-24.04", text: workflow };

/// Returns the text of a workflow, without the first line.
fn workflow(jobs: &Jobs, options: &Options) -> String {
    let mut text = "name: Images\n\
         on:\n\
         \x20 push:\n\
         \x20   branches: [main]\n\
         \x20 workflow_dispatch:\n\
         \n\
         permissions: {}\n\
         \n\
         concurrency:\n\
         \x20 group: ${{ github.workflow }}-${{ github.ref }}\n\
         \x20 cancel-in-progress: false\n\
         \n\
         jobs:\n"
        .to_owned();
    let jobs: Vec<String> = jobs.0.iter().map(|one| job(one, options)).collect();
    text.push_str(&jobs.join("\n"));
    text
}

/// Returns a job of the workflow.
fn job(job: &Job, options: &Options) -> String {
    let mut text = String::new();
    let mut line = |indent: usize, line: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:indent$}{line}", "");
    };
    let registries = registries(job, options);
    line(2, &format!("{}:", job.name));
    line(4, &format!("name: {}", job.name));
    line(4, &format!("runs-on: {}", options.runs_on));
    line(4, "timeout-minutes: 360");
    let needs: Vec<&str> = job.needs.keys().map(String::as_str).collect();
    if !needs.is_empty() {
        line(4, &format!("needs: [{}]", needs.join(", ")));
    }
    line(4, "permissions:");
    line(6, "contents: read # to check out the repository");
    if registries.contains(GITHUB_REGISTRY) {
        line(6, "packages: write # to push finished steps and images");
    }
    line(4, "outputs:");
    line(6, "digest: ${{ steps.run.outputs.digest }}");
    line(4, "steps:");
    line(6, &format!("- uses: {CHECKOUT}"));
    line(8, "with:");
    line(10, "persist-credentials: false");
    line(6, "- name: Install build-pipeline");
    line(8, "run: |");
    options.install.lines().for_each(|one| line(10, one));
    for host in &registries {
        log_in(host, &mut line);
    }
    line(6, "- name: Run the step");
    line(8, "id: run");
    if !needs.is_empty() {
        line(8, "env:");
    }
    for (number, need) in needs.iter().enumerate() {
        line(10, &format!("RESULT_{number}: ${{{{ needs.{need}.outputs.digest }}}}"));
    }
    line(8, "run: |");
    let results = job.needs.values().enumerate();
    let results = results.map(|(number, key)| (key, format!("$RESULT_{number}")));
    options.command_lines(job, results, "digest").iter().for_each(|one| line(10, one));
    line(10, "echo \"digest=$(cat digest)\" >> \"$GITHUB_OUTPUT\"");
    text
}

/// Returns the registries that a job logs in to.
fn registries(job: &Job, options: &Options) -> BTreeSet<String> {
    let pushed = options.push.iter().filter(|_| matches!(job.work, Work::Image));
    let pushed = pushed.filter_map(|push| push.split_once('/')).map(|(host, _)| host.to_owned());
    let is_remote =
        |host: &String| !host.starts_with("127.0.0.1") && !host.starts_with("localhost");
    options.hosts.iter().cloned().chain(pushed).filter(is_remote).collect()
}

/// Writes the step that logs in to a registry. Only the environment of that step contains secrets.
fn log_in(host: &str, line: &mut impl FnMut(usize, &str)) {
    let (user, token) = match host {
        GITHUB_REGISTRY => ("github.actor", "github.token"),
        _ => ("secrets.REGISTRY_USER", "secrets.REGISTRY_TOKEN"),
    };
    line(6, &format!("- name: Log in to {host}"));
    line(8, "env:");
    line(10, &format!("REGISTRY_USER: ${{{{ {user} }}}}"));
    line(10, &format!("REGISTRY_TOKEN: ${{{{ {token} }}}}"));
    line(8, "run: |");
    line(
        10,
        &format!(
            "printf '%s' \"$REGISTRY_TOKEN\" | docker login {host} --username \"$REGISTRY_USER\" --password-stdin"
        ),
    );
}
