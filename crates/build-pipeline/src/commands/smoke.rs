//! `build-pipeline smoke`: smoke-tests a track's image, level by level, each in its own container.

use engine::Engine;
use failure::{Failure, Kind};
use host::run::trial::{self, Ending};
use host::run::{Level, Needs, Trial};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Format, Global, LevelChoice, Smoke};
use crate::commands::diagnose::{self, Known};
use crate::commands::run::prepare::{self, Prepared};
use crate::commands::run::session;
use crate::machine::Data;
use crate::output::{self, Page};

/// The output of `smoke --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SmokeReport {
    /// The version of this JSON format.
    schema: u32,
    /// The track.
    track: &'static str,
    /// The image.
    image: String,
    /// `podman` or `docker`.
    engine: &'static str,
    /// Whether the containers had a GPU.
    gpu: bool,
    /// Whether nothing failed.
    passed: bool,
    /// The levels, lowest first.
    levels: Vec<Tried>,
}

/// The result of a level.
#[derive(Debug, Serialize, JsonSchema)]
struct Tried {
    /// Its name.
    level: Level,
    /// Whether it ran and passed.
    outcome: Outcome,
    /// How it ended, or why it did not run.
    why: String,
    /// The exit status, if it ran; if a signal ended it, 128 plus the signal's number.
    status: Option<i64>,
    /// Whether it ran on a software device.
    software: bool,
    /// The last lines of its output.
    output: Vec<String>,
    /// Messages of the GPU driver during the level; null if the kernel log cannot be read.
    kernel: Option<Vec<String>>,
    /// The known failures in its output and in the kernel log.
    failures: Vec<Known>,
}

/// Whether a level ran and passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// It ended successfully and printed what was expected.
    Passed,
    /// It ended in another way.
    Failed,
    /// It did not run.
    NotTried,
}

/// How many of the last output lines are shown.
const SHOWN: usize = 12;

impl From<LevelChoice> for Level {
    fn from(choice: LevelChoice) -> Self {
        match choice {
            LevelChoice::Import => Self::Import,
            LevelChoice::Device => Self::Device,
            LevelChoice::Compute => Self::Compute,
            LevelChoice::Serve => Self::Serve,
        }
    }
}

/// Runs the levels and reports the results.
pub(crate) fn run(global: &Global, args: &Smoke) -> Result<(), Failure> {
    let report = project::runtime::start()?.block_on(async {
        let mut prepared = Prepared::read(global, &args.track, &args.given, true, None).await?;
        // Levels that need no GPU run even without one.
        let lacks = host::run::check_devices(prepared.row.gpu, &prepared.machine).err();
        let why = match &lacks {
            Some(error) if prepared.has_gpu => error.to_string(),
            _ => "`--no-gpu` was given".to_owned(),
        };
        prepared.has_gpu &= lacks.is_none();
        let session = Session { prepared: &prepared, args, data: Data::find(global)?, why };
        let engine = prepared.engine()?;
        let report = session.levels(engine).await;
        engine.stop().await;
        report
    })?;
    match args.format {
        Format::Text => output::sanitised_result(&text(&report))?,
        Format::Json => output::json(&report)?,
    }
    let asked = args.level.map(Level::from);
    let is_tried = |tried: &Tried| tried.outcome != Outcome::NotTried;
    match asked {
        _ if !report.passed => Err(Failure::told(Kind::Failed)),
        Some(level) if !report.levels.iter().any(|one| one.level == level && is_tried(one)) => {
            Err(Failure::told(Kind::Machine))
        }
        _ => Ok(()),
    }
}

/// The shared state of the levels.
struct Session<'a> {
    prepared: &'a Prepared,
    args: &'a Smoke,
    data: Data,
    /// Why there is no GPU.
    why: String,
}

impl Session<'_> {
    async fn levels(&self, engine: &Engine) -> Result<SmokeReport, Failure> {
        let last = self.args.level.map_or(Level::Serve, Level::from);
        let mut levels = Vec::new();
        let mut failed: Option<Level> = None;
        for level in Level::ALL.into_iter().filter(|level| *level <= last) {
            let lacking = match (failed, self.prepared.row.smoke.get(&level)) {
                (_, None) => Err(format!("track {} has no such level", self.prepared.track.name())),
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
            track: self.prepared.track.name(),
            image: self.prepared.wish()?.image,
            engine: self.prepared.engine_name(),
            gpu: self.prepared.has_gpu,
            passed: failed.is_none(),
            levels,
        })
    }

    /// Returns what a level needs but does not have.
    fn lacking(&self, trial: &Trial) -> Option<String> {
        if trial.needs == Needs::Gpu && !self.prepared.has_gpu {
            return Some(format!("it needs a GPU: {}", self.why));
        }
        let is_without = trial.has_model && self.args.model.is_none();
        is_without.then(|| "it needs a model: name one with `--model`".to_owned())
    }

    async fn level(&self, engine: &Engine, level: Level, trial: &Trial) -> Result<Tried, Failure> {
        let mut wish = self.prepared.wish()?;
        wish.entrypoint = Some(trial.program().to_owned());
        wish.command = vec!["-c".to_owned(), self.data.script(&trial.script)?];
        if let Some(model) = self.args.model.clone().filter(|_| trial.has_model) {
            wish.environment.insert("MODEL".to_owned(), model);
        }
        if trial.needs == Needs::AnyGpu && !self.prepared.has_gpu {
            wish.environment.insert("SOFTWARE".to_owned(), "1".to_owned());
        }
        let mut container = host::run::container(&wish).map_err(prepare::run_error)?;
        // The server is only used inside the container; a port in use must not fail a level.
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
        let is_good = *ending == Ending::Good && driver.found.is_empty();
        let own = failures.diagnose(said).map_err(unread)?;
        let known = own.found.iter().filter(|_| !is_good).chain(&driver.found);
        let text = String::from_utf8_lossy(said);
        let lines: Vec<&str> = text.lines().collect();
        Ok(Tried {
            level,
            outcome: if is_good { Outcome::Passed } else { Outcome::Failed },
            why: match (ending, driver.found.is_empty()) {
                (Ending::Good, false) => "the kernel log shows a known failure".to_owned(),
                (ending, _) => ending.words(),
            },
            status: Some(status),
            software: trial::is_software(trial, said),
            output: lines[lines.len().saturating_sub(SHOWN)..]
                .iter()
                .map(|line| (*line).to_owned())
                .collect(),
            failures: known.map(diagnose::known).collect(),
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
        }
    }
}

fn text(report: &SmokeReport) -> String {
    let mut page = Page::default();
    let gpu = if report.gpu { "with a GPU" } else { "without a GPU" };
    page.line(format_args!("{} on {}, {gpu}\n", report.image, report.engine));
    for tried in &report.levels {
        let outcome = match tried.outcome {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::NotTried => "-",
        };
        let software = if tried.software { " (on a software device)" } else { "" };
        page.line(format_args!("{outcome:7} {:8} {}{software}", tried.level.name(), tried.why));
        tried.output.iter().for_each(|line| page.line(format_args!("        | {line}")));
        for line in tried.kernel.iter().flatten() {
            page.line(format_args!("        kernel: {line}"));
        }
        for known in &tried.failures {
            page.line(format_args!("        known: {} [{}]", known.cause, known.name));
            known.fix.iter().for_each(|fix| page.line(format_args!("        fix    {fix}")));
        }
    }
    let of = |outcome| report.levels.iter().filter(|one| one.outcome == outcome).count();
    page.line(format_args!(
        "\n{} passed, {} failed, {} not run",
        of(Outcome::Passed),
        of(Outcome::Failed),
        of(Outcome::NotTried)
    ));
    page.into_text()
}
