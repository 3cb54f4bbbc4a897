//! Smoke-tests a track's image, level by level, each in its own container.

use std::path::Path;

use engine::Engine;
use failure::{Failure, Kind};
use host::run::trial::{self, Ending};
use host::run::{Level, Needs, Trial};
use names::TrackName;
use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, Tone};

use crate::known::{ASSESSED, Assessment, Known};
use crate::machine::Data;
use crate::prepare::{self, Prepared};
use crate::session;

/// The output of `smoke --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SmokeReport {
    /// The version of this JSON format.
    pub schema: u32,
    /// The track.
    pub track: TrackName,
    /// The image.
    pub image: String,
    /// The engine, such as `podman`.
    pub engine: &'static str,
    /// Whether the containers had a GPU.
    pub gpu: bool,
    /// Whether no level failed.
    pub passed: bool,
    /// The levels, lowest first.
    pub levels: Vec<Tried>,
}

impl SmokeReport {
    /// Returns the report as text, level by level.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let gpu = if self.gpu { "with a GPU" } else { "without a GPU" };
        page.line(format_args!("{} on {}, {gpu}\n", self.image, self.engine));
        for tried in &self.levels {
            let (outcome, tone) = match tried.outcome {
                Outcome::Passed => ("ok", Tone::Good),
                Outcome::Failed => ("FAILED", Tone::Bad),
                Outcome::NotTried => ("-", Tone::Doubtful),
            };
            let software = if tried.software { " (on a software device)" } else { "" };
            page.column(outcome, tone, 7);
            page.line(format_args!(" {:8} {}{software}", tried.level.name(), tried.why));
            tried.output.iter().for_each(|line| page.line(format_args!("        | {line}")));
            for line in tried.kernel.iter().flatten() {
                page.line(format_args!("        kernel: {line}"));
            }
            for known in &tried.failures {
                page.line(format_args!("        known: {} [{}]", known.cause, known.name));
                known.fix.iter().for_each(|fix| page.line(format_args!("        fix    {fix}")));
            }
            if let Some(Assessment { kind, what, fix, more, .. }) = &tried.assessment {
                page.line(format_args!("        {ASSESSED}: {what} [{kind}]"));
                let all = fix.iter().chain(more);
                all.for_each(|one| page.line(format_args!("        try    {one}")));
            }
        }
        let of = |outcome| self.levels.iter().filter(|one| one.outcome == outcome).count();
        page.line(format_args!(
            "\n{} passed, {} failed, {} not run",
            of(Outcome::Passed),
            of(Outcome::Failed),
            of(Outcome::NotTried)
        ));
        page
    }
}

/// The result of a level.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tried {
    /// Its name.
    pub level: Level,
    /// Whether it ran and passed.
    pub outcome: Outcome,
    /// How it ended, or why it did not run.
    pub why: String,
    /// The exit status, if it ran; if a signal terminated it, 128 plus the signal's number.
    pub status: Option<i64>,
    /// Whether it ran on a software device.
    pub software: bool,
    /// The last lines of its output.
    pub output: Vec<String>,
    /// Messages of the GPU driver during the level; null if the kernel log cannot be read.
    pub kernel: Option<Vec<String>>,
    /// The known failures in the kernel log and, if the level failed, in its output.
    pub failures: Vec<Known>,
    /// Which part failed, and how, as far as the output says it. Only if the level failed, and if the
    /// output shows no known failure with a certain cause.
    pub assessment: Option<Assessment>,
}

/// Whether a level ran and passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ended successfully and printed what was expected.
    Passed,
    /// It ended in another way.
    Failed,
    /// It did not run.
    NotTried,
}

/// How many of the last output lines are shown.
const SHOWN: usize = 12;

/// What to test.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The last level to run; without one, all levels of the track.
    pub level: Option<Level>,
    /// The model to serve.
    pub model: Option<String>,
}

/// Smoke-tests the image of a track, level by level. `here` is the folder that `prepared` was read
/// from. `prepared` must have an engine that answered. If the machine lacks the GPU's device nodes,
/// the containers get no GPU.
///
/// # Errors
/// The engine fails, a data file is wrong, or the track has no levels. A level that fails is not an
/// error.
pub async fn levels(
    here: &Path,
    mut prepared: Prepared,
    asked: &Asked,
) -> Result<SmokeReport, Failure> {
    // Levels that need no GPU run even without one.
    let lacks = host::run::check_devices(prepared.row.gpu, &prepared.machine).err();
    let why = match &lacks {
        Some(error) if prepared.has_gpu => error.to_string(),
        _ => "`--no-gpu` was given".to_owned(),
    };
    prepared.has_gpu &= lacks.is_none();
    let session = Session { prepared: &prepared, asked, data: Data::find(here), why };
    let engine = prepared.engine()?;
    let report = if prepared.row.smoke.is_empty() {
        let track = &prepared.track;
        let what = format!("track `{track}` has no smoke tests");
        Err(Failure::new(Kind::Input, what)
            .hint(format!("add levels to `[{track}]` in versions/run.toml, for example `smoke.import = {{ script = \"NAME.sh\", expect = '^ok' }}`")))
    } else {
        session.levels(engine).await
    };
    engine.stop().await;
    report
}

/// The shared state of the levels.
struct Session<'a> {
    prepared: &'a Prepared,
    asked: &'a Asked,
    data: Data,
    /// Why there is no GPU.
    why: String,
}

impl Session<'_> {
    async fn levels(&self, engine: &Engine) -> Result<SmokeReport, Failure> {
        let last = self.asked.level.unwrap_or(Level::Serve);
        let mut levels = Vec::new();
        let mut failed: Option<Level> = None;
        for level in Level::ALL.into_iter().filter(|level| *level <= last) {
            let lacking = match (failed, self.prepared.row.smoke.get(&level)) {
                (_, None) => Err(format!("track {} has no such level", self.prepared.track)),
                (Some(before), _) => Err(format!("level {} failed", before.name())),
                (None, Some(trial)) => self.lacking(trial).map_or(Ok(trial), Err),
            };
            let tried = match lacking {
                Ok(trial) => self.level(engine, level, trial).await?,
                Err(why) => Tried::not(level, why),
            };
            if tried.outcome == Outcome::Failed {
                failed = Some(level);
            }
            levels.push(tried);
        }
        Ok(SmokeReport {
            schema: 1,
            track: self.prepared.track.clone(),
            image: self.prepared.wish()?.image,
            engine: self.prepared.engine_kind().as_str(),
            gpu: self.prepared.has_gpu,
            passed: failed.is_none(),
            levels,
        })
    }

    /// Returns a message if something that a level needs is missing.
    fn lacking(&self, trial: &Trial) -> Option<String> {
        if trial.needs == Needs::Gpu && !self.prepared.has_gpu {
            return Some(format!("it needs a GPU: {}", self.why));
        }
        let is_without = trial.has_model && self.asked.model.is_none();
        is_without.then(|| "it needs a model: specify one with `--model`".to_owned())
    }

    async fn level(&self, engine: &Engine, level: Level, trial: &Trial) -> Result<Tried, Failure> {
        let mut wish = self.prepared.wish()?;
        wish.entrypoint = Some(trial.program().to_owned());
        wish.command = vec!["-c".to_owned(), self.data.script(&trial.script)?];
        if let Some(model) = self.asked.model.clone().filter(|_| trial.has_model) {
            wish.environment.insert("MODEL".to_owned(), model);
        }
        if trial.needs == Needs::AnyGpu && !self.prepared.has_gpu {
            wish.environment.insert("SOFTWARE".to_owned(), "1".to_owned());
        }
        let mut container = host::run::container(&wish).map_err(prepare::run_error)?;
        // The server is only used inside the container; a port in use must not make a level fail.
        container.port = None;
        let before = host::kernel_log(&self.prepared.root);
        let ended = session::kept(engine, self.prepared, &container).await?;
        let after = host::kernel_log(&self.prepared.root);
        let kernel = before.zip(after).map(|(before, after)| {
            trial::said_meanwhile(&trial::kernel_lines(&before), &trial::kernel_lines(&after))
        });
        let ending = trial::judge(trial, ended.status, &ended.last);
        self.tried(level, trial, (&ending, ended.status, &ended.last), kernel)
    }

    fn tried(
        &self,
        level: Level,
        trial: &Trial,
        (ending, status, said): (&Ending, i64, &[u8]),
        kernel: Option<Vec<String>>,
    ) -> Result<Tried, Failure> {
        let failures = self.data.failures()?;
        let unread =
            |error| Failure::caused(Kind::Bug, "cannot read the output of a level", &error);
        let driver = kernel.clone().unwrap_or_default().join("\n");
        let driver = failures.diagnose(driver.as_bytes()).map_err(unread)?;
        // A failure in the kernel log counts even if the program did not notice it.
        let is_good = *ending == Ending::Good && !driver.has_failure();
        let own = failures.diagnose(said).map_err(unread)?;
        let assessment = own.assessment.as_ref().filter(|_| !is_good).map(Assessment::from);
        let own = own.found.iter().chain(&own.possible);
        let known = own.filter(|_| !is_good).chain(&driver.found);
        let text = String::from_utf8_lossy(said);
        let lines: Vec<&str> = text.lines().collect();
        Ok(Tried {
            level,
            outcome: if is_good { Outcome::Passed } else { Outcome::Failed },
            why: match (ending, driver.has_failure()) {
                (Ending::Good, true) => "the kernel log shows a known failure".to_owned(),
                (ending, _) => ending.words(),
            },
            status: Some(status),
            software: trial::is_software(trial, said),
            output: lines[lines.len().saturating_sub(SHOWN)..]
                .iter()
                .map(|line| (*line).to_owned())
                .collect(),
            failures: known.map(Known::from).collect(),
            assessment,
            kernel,
        })
    }
}

impl Tried {
    fn not(level: Level, why: String) -> Self {
        Self {
            level,
            outcome: Outcome::NotTried,
            why,
            status: None,
            software: false,
            output: Vec::new(),
            kernel: None,
            failures: Vec::new(),
            assessment: None,
        }
    }
}
