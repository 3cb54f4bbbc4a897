//! Reads workflows of GitHub Actions and the jobs of GitLab CI: the scripts that they run, and the
//! images in which they run.

use crate::containers;
use crate::facts::{Facts, Image};
use crate::shell::{self, EMPTY, ShellCommand, UNKNOWN, Word};
use crate::yaml::{self, Node};

/// The number of scripts that are read.
const MOST_SCRIPTS: usize = 500;

/// The keys of a job of GitLab CI that contain commands.
const SCRIPTS: [&str; 3] = ["before_script", "script", "after_script"];

/// Returns whether a YAML file describes jobs of a continuous integration.
pub(crate) fn is_workflow(name: &str, text: &str) -> bool {
    let has = |keys: &[&str]| text.lines().any(|line| keys.iter().any(|key| line.starts_with(key)));
    name.ends_with(".gitlab-ci.yml") || has(&["jobs:"]) && has(&["on:", "'on':", "\"on\":"])
}

/// Adds the facts of a workflow.
pub(crate) fn read(text: &str, facts: &mut Facts<'_>) {
    let mut left = MOST_SCRIPTS;
    for document in yaml::documents(text) {
        let Some(jobs) = document.get("jobs") else {
            gitlab(&document, &mut left, facts);
            continue;
        };
        for (_, job) in jobs.entries() {
            github(job, &mut left, facts);
        }
    }
}

/// Adds the facts of a job of GitHub Actions.
fn github(job: &Node, left: &mut usize, facts: &mut Facts<'_>) {
    if let Some(container) = job.get("container") {
        let image = container.get("image").unwrap_or(container);
        started(image, container.get("options"), facts);
    }
    for (_, service) in job.get("services").map_or(&[][..], Node::entries) {
        if let Some(image) = service.get("image") {
            refers(image, facts);
        }
    }
    let runner = job.get("runs-on").and_then(Node::text).unwrap_or_default();
    if runner.contains("windows") {
        return;
    }
    for step in job.get("steps").map_or(&[][..], Node::items) {
        if let Some(uses) = step.get("uses")
            && uses.text().is_some_and(|text| text.starts_with("docker://"))
        {
            refers(uses, facts);
        }
        let is_shell = step
            .get("shell")
            .and_then(Node::text)
            .is_none_or(|shell| shell.starts_with("bash") || shell.starts_with("sh"));
        let condition = step.get("if").and_then(Node::text).unwrap_or_default();
        if is_shell
            && !condition.to_ascii_lowercase().contains("windows")
            && let Some(run) = step.get("run")
        {
            script(run, left, facts);
        }
    }
}

/// Adds the facts of the jobs of GitLab CI.
fn gitlab(document: &Node, left: &mut usize, facts: &mut Facts<'_>) {
    let jobs = document.entries().iter().map(|(_, job)| job.as_ref());
    for job in std::iter::once(document).chain(jobs) {
        if let Some(image) = job.get("image") {
            refers(image.get("name").unwrap_or(image), facts);
        }
        for key in SCRIPTS {
            let Some(commands) = job.get(key) else { continue };
            // One command, or a list.
            script(commands, left, facts);
            for command in commands.items() {
                script(command, left, facts);
            }
        }
    }
}

/// Returns the name of an image, if it does not depend on the run.
fn reference(image: &Node) -> Option<&str> {
    let text = image.text().filter(|text| !text.contains('$') && !text.is_empty())?;
    Some(text.strip_prefix("docker://").unwrap_or(text))
}

/// Adds an image.
fn refers(image: &Node, facts: &mut Facts<'_>) {
    if let Some(reference) = reference(image) {
        facts.images.push(Image::new(reference, image.line));
    }
}

/// Adds the container in which a job runs. Its image can be an expression, whose value is not known.
fn started(image: &Node, options: Option<&Node>, facts: &mut Facts<'_>) {
    let unknown = UNKNOWN.to_string();
    let known = reference(image);
    if known.is_none() && options.is_none() {
        return;
    }
    let words = ["docker", "run"].map(|text| Word { text: text.to_owned(), line: image.line });
    let mut words = Vec::from(words);
    if let Some((text, line)) = options.and_then(|options| Some((options.text()?, options.line))) {
        let text = expanded(text);
        let own = text.split_whitespace();
        words.extend(own.map(|word| Word { text: word.to_owned(), line }));
    }
    let name = known.unwrap_or(&unknown);
    words.push(Word { text: name.to_owned(), line: image.line });
    let command = ShellCommand { words, ..EMPTY };
    containers::read(&command, facts);
}

/// Adds the facts of a script.
fn script(node: &Node, left: &mut usize, facts: &mut Facts<'_>) {
    let Some(text) = node.text().filter(|_| *left > 0) else { return };
    *left -= 1;
    // The text of a block starts on the line after its indicator.
    let start = text.lines().next().unwrap_or_default().trim();
    let is_block = facts.line(node.line + 1).trim() == start;
    let first = node.line + usize::from(is_block);
    let mut script = shell::script_at(&expanded(text), first);
    // The runner sets most variables.
    script.missing.clear();
    facts.script(script);
}

/// Replaces the expressions `${{ … }}`, whose values are known only at run time.
fn expanded(text: &str) -> String {
    let mut parts = text.split("${{");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        all.push(UNKNOWN);
        all.push_str(part.split_once("}}").map_or(part, |(_, rest)| rest));
    }
    all
}
