//! The jobs of plans: one for each step that takes time and whose result is kept, and one for each
//! image.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use names::Digest;
use plan::{Action, Plan, Step};
use text::shell_line;

use crate::ci::Install;

/// What a workflow contains besides the steps.
#[derive(Debug)]
pub struct Options {
    /// The stores through which jobs share finished steps.
    pub stores: Vec<String>,
    /// The registries of the stores.
    pub hosts: BTreeSet<String>,
    /// Where images are pushed to.
    pub push: Option<String>,
    /// The shell command that installs this tool.
    pub install: Install,
    /// Where jobs run: the label of runners, or an image.
    pub runs_on: String,
    /// The command that writes the workflow.
    pub command: String,
}

impl Options {
    /// Returns the lines of a shell script that runs a job and writes the digest to a file.
    /// `results` are the keys of steps that the job needs, each with its digest or with a shell
    /// variable that holds it. `file` is a shell word.
    pub(crate) fn command_lines<'a>(
        &self,
        job: &Job,
        results: impl Iterator<Item = (&'a Digest, String)>,
        file: &str,
    ) -> Vec<String> {
        let mut words = vec!["build-pipeline".to_owned()];
        match &job.work {
            Work::Step(key) => words.extend(["step", "run", key.hex()].map(str::to_owned)),
            Work::Image => words.push("build".to_owned()),
        }
        words.extend(job.subject.iter().cloned());
        let option = |name: &str, value: &String| [name.to_owned(), value.clone()];
        words.extend(self.stores.iter().flat_map(|store| option("--store", store)));
        if matches!(job.work, Work::Image) {
            words.extend(self.push.iter().flat_map(|push| option("--push", push)));
        }
        let mut lines = vec![format!("{} \\", shell_line(&words))];
        let result =
            |(key, value): (&Digest, String)| format!("  --result {}=\"{value}\" \\", key.hex());
        lines.extend(results.map(result));
        lines.push(match job.work {
            Work::Step(_) => format!("  > {file}"),
            Work::Image => format!("  --quiet --digest-file {file}"),
        });
        lines
    }
}

/// The jobs of plans, each after the jobs that it needs.
#[derive(Debug)]
pub struct Jobs(pub(crate) Vec<Job>);

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    /// Its name, unique in the workflow.
    pub(crate) name: String,
    /// What it does.
    pub(crate) work: Work,
    /// The options that select the plan.
    pub(crate) subject: Vec<String>,
    /// The steps whose results it uses: their jobs, and their keys.
    pub(crate) needs: BTreeMap<String, Digest>,
    /// Whether it runs a Dockerfile or builds a base image in podman or docker.
    pub(crate) uses_engine: bool,
}

/// What a job does.
#[derive(Debug)]
pub(crate) enum Work {
    /// It runs the step with this key.
    Step(Digest),
    /// It writes the image of a track.
    Image,
}

impl Jobs {
    /// Returns the jobs of plans. A step that several plans contain has one job.
    ///
    /// # Errors
    /// The time of a plan comes from a variable.
    pub fn of(plans: &[Arc<Plan>]) -> Result<Self, EpochError> {
        let mut jobs = Vec::new();
        let mut names: BTreeMap<Digest, String> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for plan in plans {
            let (keys, subject) = (plan.step_keys(), subject(plan)?);
            // The jobs whose results each step uses.
            let mut used: BTreeMap<&str, BTreeMap<String, Digest>> = BTreeMap::new();
            for step in &plan.steps {
                let mut needs: BTreeMap<String, Digest> = BTreeMap::new();
                for need in step.action.needs() {
                    needs.extend(used.get(need).cloned().unwrap_or_default());
                }
                let Some(key) = keys.get(&*step.id).filter(|_| is_job(step)) else {
                    used.insert(&step.id, needs);
                    continue;
                };
                let is_new = !names.contains_key(key);
                let name =
                    names.entry(key.clone()).or_insert_with(|| name(step, key, &mut taken)).clone();
                used.insert(&step.id, [(name.clone(), key.clone())].into());
                if is_new {
                    let work = Work::Step(key.clone());
                    let uses_engine = !matches!(step.action, Action::SlimImage { .. });
                    jobs.push(Job { name, work, subject: subject.clone(), needs, uses_engine });
                }
            }
            let needs = plan.steps.last().and_then(|last| used.remove(&*last.id));
            let needs = needs.unwrap_or_default();
            let name = format!("image-{}", plan.name);
            jobs.push(Job { name, work: Work::Image, subject, needs, uses_engine: false });
        }
        Ok(Self(jobs))
    }
}

/// Returns whether a step gets its own job: it takes time, and its result is kept.
fn is_job(step: &Step) -> bool {
    matches!(
        step.action,
        Action::BootstrapBase { .. } | Action::SealImage { .. } | Action::SlimImage { .. }
    )
}

/// Returns the name of a step's job. Steps of different plans may have the same name.
fn name(step: &Step, key: &Digest, taken: &mut BTreeSet<String>) -> String {
    if taken.insert(step.id.clone()) {
        return step.id.clone();
    }
    format!("{}-{}", step.id, key.hex().get(..8).unwrap_or_default())
}

/// The time of a plan comes from a variable, which a job on another machine would not have.
#[derive(Debug, thiserror::Error)]
#[error("`SOURCE_DATE_EPOCH={0}` cannot be exported")]
pub struct EpochError(String);

/// Returns the options that select a plan.
///
/// # Errors
/// The time of the plan comes from a variable.
pub fn subject(plan: &Plan) -> Result<Vec<String>, EpochError> {
    let mut words = vec!["--track".to_owned(), plan.track.clone()];
    for (name, value) in &plan.overrides {
        match name.as_str() {
            "variant" | "gpu" | "spoof" => words.extend([format!("--{name}"), value.clone()]),
            "slim" => words.push(format!("--slim={value}")),
            "source-date-epoch" => return Err(EpochError(value.clone())),
            pin => {
                let digest = value.rsplit('@').next().unwrap_or_default();
                words.extend(["--set".to_owned(), format!("{pin}={digest}")]);
            }
        }
    }
    words.extend(plan.rehearsal.then(|| "--rehearse".to_owned()));
    Ok(words)
}
