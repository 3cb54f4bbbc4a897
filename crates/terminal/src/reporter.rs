//! Reports progress to a person, a CI log or a program. All output goes to standard error.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use executor::{Event, OnEvent};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use names::{Digest, EngineKind};
use plan::Plan;
use project::{environment, state};
use record::{OutputState, StepState};
use serde::Serialize;
use text::sanitise::sanitise_line;
use text::{counted, seconds, size};

use crate::heartbeat::{Heartbeat, Transferred};
use crate::live;
use crate::output;

/// The shortest previous duration in milliseconds that is worth showing.
const LONG: u64 = 10_000;

/// The smallest transfer that is announced, in bytes.
const WORTH_A_LINE: u64 = 10_000_000;

/// The live line of a step or output that transfers nothing.
const PLAIN: &str = "{spinner} {elapsed:>4} {wide_msg}";

/// The number of recent build log lines that are shown live.
const TAIL: usize = 3;

/// A requested progress format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Live lines on a terminal, plain lines elsewhere.
    Auto,
    /// Live lines.
    Tty,
    /// One line per step.
    Plain,
    /// One JSON object per line.
    Json,
}

/// A progress format that is in use.
#[derive(Debug)]
pub enum Reporter {
    /// Live lines on a terminal.
    Tty(Live),
    /// Log lines: finished steps and outputs, the output of builds, and heartbeat lines.
    Plain(Heartbeat),
    /// One JSON object per event.
    Json,
    /// Nothing.
    Quiet,
}

/// A plan whose events are reported.
struct Teller {
    reporter: Arc<Reporter>,
    /// The name of its image.
    plan: String,
    /// The prefix of step names, if several plans run at the same time.
    prefix: String,
    /// How long each step took last time, in milliseconds. Loaded when the first step starts;
    /// empty for a plan whose steps are short.
    last_times: OnceLock<BTreeMap<String, u64>>,
}

/// An event of a plan, as a line of `--progress json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PlanEvent {
    /// The name of the image that the plan builds.
    plan: String,
    #[serde(flatten)]
    event: Event,
}

impl Reporter {
    /// Selects how to show progress: the requested format, or one that suits the output.
    pub fn new(asked: Progress) -> Self {
        if output::is_quiet() {
            return Self::Quiet;
        }
        match with_buildkit(asked) {
            Progress::Json => Self::Json,
            Progress::Plain => Self::Plain(Heartbeat::default()),
            Progress::Tty => Self::live(),
            Progress::Auto if live::is_possible() && !environment::is_ci() => Self::live(),
            Progress::Auto => Self::Plain(Heartbeat::default()),
        }
    }

    /// Reports that the engine of a build is about to be found and tested.
    pub fn test_engine(&self, asked: Option<EngineKind>) {
        let line = match asked {
            Some(kind) => format!("· testing {kind}"),
            None => {
                let all = EngineKind::list("or", |kind| kind.to_string());
                format!("· looking for {all}, and testing it")
            }
        };
        match self {
            Self::Plain(_) | Self::Tty(_) => output::say(&line),
            Self::Json | Self::Quiet => {}
        }
    }

    /// Returns whether progress is printed as log lines.
    pub fn is_log(asked: Progress) -> bool {
        matches!(Self::new(asked), Self::Plain(_))
    }

    /// Returns whether progress and all other messages are JSON.
    pub fn is_json(asked: Progress) -> bool {
        with_buildkit(asked) == Progress::Json
    }

    fn live() -> Self {
        Self::Tty(Live { all: live::lines(), shown: Mutex::default() })
    }

    /// Returns the event handler for a plan, which may be one of several.
    pub fn for_plan(self: &Arc<Self>, plan: &Plan, is_one_of_several: bool) -> OnEvent {
        let last_times = OnceLock::new();
        if !plan.needs_all_layers() {
            // The steps of this plan are too short to show durations.
            last_times.get_or_init(BTreeMap::new);
        }
        let prefix = if is_one_of_several { format!("{}/", plan.name) } else { String::new() };
        let (reporter, plan) = (Arc::clone(self), plan.name.clone());
        let teller = Teller { reporter, plan, prefix, last_times };
        Arc::new(move |event| teller.tell(event))
    }

    /// Returns the event handler for an image that is being copied.
    pub fn for_image(self: &Arc<Self>, name: &str) -> OnEvent {
        let last_times = OnceLock::from(BTreeMap::new());
        let (reporter, plan) = (Arc::clone(self), name.to_owned());
        let teller = Teller { reporter, plan, prefix: String::new(), last_times };
        Arc::new(move |event| teller.tell(event))
    }
}

impl Teller {
    fn tell(&self, event: Event) {
        match &*self.reporter {
            Reporter::Quiet => {}
            Reporter::Json => output::json_line(&PlanEvent { plan: self.plan.clone(), event }),
            Reporter::Plain(heartbeat) => {
                if let Some(line) = self.line(&event) {
                    output::say(&line);
                }
                self.beat(heartbeat, &event);
            }
            Reporter::Tty(live) => live.tell(self, &event),
        }
    }

    /// Passes an event to the heartbeat.
    fn beat(&self, heartbeat: &Heartbeat, event: &Event) {
        match event {
            Event::StepBegun { step, what } => {
                heartbeat.begin(self.name(step), None, what.starts_with("fetch "));
            }
            Event::OutputBegun { output, layer_bytes } => {
                heartbeat.begin(self.name(output), Some(*layer_bytes), false);
            }
            Event::StepEnded { step, .. } => heartbeat.end(&self.name(step)),
            Event::OutputEnded { output, .. } => heartbeat.end(&self.name(output)),
            Event::BuildInstruction { step, .. }
            | Event::BuildLine { step, .. }
            | Event::LayerSealed { step, .. }
            | Event::LayerSlimmed { step, .. } => heartbeat.said(&self.name(step)),
            Event::LayersWanted { step, layer_bytes } => {
                heartbeat.expect(&self.name(step), *layer_bytes);
            }
            Event::LayerProgress { output, layer, done, total } => {
                heartbeat.progress(&self.name(output), layer, *done, *total);
            }
            Event::PlanBegun { .. } | Event::Note { .. } => {}
        }
    }

    /// Returns the displayed name of a step or output.
    fn name(&self, step: &str) -> String {
        format!("{}{step}", self.prefix)
    }

    /// Returns a line about a running step, and whether its last run was long. If so, the line
    /// includes its duration.
    fn under_way(&self, step: &str, what: &str) -> (String, bool) {
        let (name, what) = (self.name(step), sanitise_line(what));
        match self.last_times.get_or_init(|| state::last_times(&self.plan)).get(step) {
            Some(last @ LONG..) => {
                (format!("{name}: {what}; took {} last time", seconds(*last)), true)
            }
            _ => (format!("{name}: {what}"), false),
        }
    }

    /// Returns the line for an event, or `None` for progress that is not worth a line.
    fn line(&self, event: &Event) -> Option<String> {
        match event {
            Event::PlanBegun { plan_digest, steps } => {
                let (steps, plan) = (counted(*steps, "step"), plan_digest.short());
                Some(format!("building {}: {steps}, plan {plan}", self.plan))
            }
            Event::StepBegun { step, what } => {
                let (line, is_long) = self.under_way(step, what);
                is_long.then(|| format!("· {line}"))
            }
            Event::StepEnded { step, state, milliseconds, store } => {
                let (mark, word) = match state {
                    StepState::Done => ("✓", ""),
                    StepState::Cached => ("✓", ", cached"),
                    StepState::Failed => ("✗", ", failed"),
                    StepState::Interrupted => ("✗", ", interrupted"),
                    StepState::NotBegun => ("-", ", not started"),
                };
                let from = store.as_ref().map(|store| format!(" from {store}"));
                let (took, from) = (seconds(*milliseconds), from.unwrap_or_default());
                Some(format!("{mark} {} ({took}{word}{from})", self.name(step)))
            }
            Event::Note { rule, message } => {
                Some(format!("note: {} [{rule}]", sanitise_line(message)))
            }
            Event::OutputEnded { output, state, layer_bytes_copied } => {
                let output = self.name(output);
                let moved = match layer_bytes_copied {
                    0 if output.starts_with("oci") => "no layers downloaded".to_owned(),
                    0 => "no layers transferred".to_owned(),
                    bytes => format!("{} of layers transferred", size(*bytes)),
                };
                Some(match state {
                    OutputState::Written => format!("✓ {output} ({moved})"),
                    OutputState::UpToDate => format!("✓ {output} (up to date)"),
                    OutputState::Failed | OutputState::Interrupted => {
                        let place = output.split_once(':').map(|(_, place)| Path::new(place));
                        // A new output that fails is removed.
                        let is_kept = place.is_some_and(Path::exists);
                        let kept = if is_kept { "; existing output was not changed" } else { "" };
                        format!("✗ {output} (failed{kept})")
                    }
                })
            }
            Event::BuildInstruction { step, number, total, line, instruction } => {
                let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
                let (name, instruction) = (self.name(step), sanitise_line(instruction));
                Some(format!("  {name} {number}/{total}{line} {instruction}"))
            }
            Event::BuildLine { step, text } => {
                Some(format!("  {} | {}", self.name(step), sanitise_line(text)))
            }
            Event::LayerSealed { step, entries, unchanged, scrubbed, stale_bytecode } => {
                let stale = match stale_bytecode {
                    0 => String::new(),
                    count => format!(", {count} bytecode files are stale"),
                };
                Some(format!(
                    "  {} sealed a layer of {}; left out: {unchanged} unchanged from the base, {scrubbed} that no image needs, such as logs{stale}",
                    self.name(step),
                    counted(*entries, "entry")
                ))
            }
            Event::LayerSlimmed { step, number, total, before, after } => Some(format!(
                "  {} layer {number} of {total}: {} before, {} after",
                self.name(step),
                size(*before),
                size(*after)
            )),
            Event::OutputBegun { output: name, layer_bytes }
            | Event::LayersWanted { step: name, layer_bytes }
                if *layer_bytes >= WORTH_A_LINE =>
            {
                Some(format!("· {}: {} of layers", self.name(name), size(*layer_bytes)))
            }
            Event::OutputBegun { .. }
            | Event::LayersWanted { .. }
            | Event::LayerProgress { .. } => None,
        }
    }
}

/// Returns the requested format, or the one that BuildKit's variable requests.
fn with_buildkit(asked: Progress) -> Progress {
    match (asked, environment::buildkit_progress().as_deref()) {
        (Progress::Auto, Some("plain")) => Progress::Plain,
        (Progress::Auto, Some("tty")) => Progress::Tty,
        (Progress::Auto, Some("rawjson")) => Progress::Json,
        (asked, _) => asked,
    }
}

/// The live lines.
#[derive(Debug)]
pub struct Live {
    all: MultiProgress,
    shown: Mutex<BTreeMap<String, Shown>>,
}

/// The live display of a running step or output.
#[derive(Debug)]
struct Shown {
    head: ProgressBar,
    /// Its last output lines, shown below.
    tail: Vec<ProgressBar>,
    lines: VecDeque<String>,
    /// The layers of an output.
    transferred: Transferred,
}

impl Live {
    fn tell(&self, teller: &Teller, event: &Event) {
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match event {
            Event::StepBegun { step, what } => {
                let (line, _) = teller.under_way(step, what);
                shown.insert(teller.name(step), self.begin(line));
            }
            Event::OutputBegun { output, layer_bytes } => {
                let name = teller.name(output);
                let mut line = self.begin(format!("write {name}"));
                line.transferred = Transferred::of(*layer_bytes);
                shown.insert(name, line);
            }
            Event::LayersWanted { step, layer_bytes } => {
                if let Some(shown) = shown.get_mut(&teller.name(step)) {
                    shown.transferred = Transferred::of(*layer_bytes);
                    shown.head.set_style(style(PLAIN));
                    shown.head.unset_length();
                }
            }
            Event::LayerProgress { output, layer, done, total } => {
                if let Some(shown) = shown.get_mut(&teller.name(output)) {
                    shown.transfer(layer, *done, *total);
                }
            }
            Event::StepEnded { step: name, .. } | Event::OutputEnded { output: name, .. } => {
                if let Some(ended) = shown.remove(&teller.name(name)) {
                    ended.clear();
                }
            }
            Event::BuildLine { step, text } => {
                if let Some(shown) = shown.get_mut(&teller.name(step)) {
                    shown.say(&self.all, sanitise_line(text));
                }
            }
            Event::PlanBegun { .. }
            | Event::Note { .. }
            | Event::BuildInstruction { .. }
            | Event::LayerSealed { .. }
            | Event::LayerSlimmed { .. } => {}
        }
        // A whole log would scroll everything else away, and running steps are shown live.
        let is_line = !matches!(event, Event::BuildLine { .. } | Event::StepBegun { .. });
        if let Some(line) = teller.line(event).filter(|_| is_line) {
            // Print above the live lines. `println` prints nothing if the target is hidden;
            // `suspend` always works.
            self.all.suspend(|| output::say(&line));
        }
    }

    fn begin(&self, message: String) -> Shown {
        let bar = ProgressBar::new_spinner().with_style(style(PLAIN));
        let bar = self.all.add(bar.with_message(message));
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        Shown::of(bar)
    }
}

impl Shown {
    fn of(head: ProgressBar) -> Self {
        let transferred = Transferred::default();
        Self { head, tail: Vec::new(), lines: VecDeque::new(), transferred }
    }

    /// Shows how much of all layers was transferred.
    fn transfer(&mut self, layer: &Digest, done: u64, size: u64) {
        self.transferred.note(layer, done, size);
        if self.transferred.done() == 0 {
            return;
        }
        if self.head.length().is_none() {
            let sizes = "{decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";
            self.head.set_style(style(&format!("{{spinner}} {{elapsed:>4}} {{wide_msg}} {sizes}")));
        }
        self.head.set_length(self.transferred.total());
        self.head.set_position(self.transferred.done());
    }

    /// Shows a new line below, and drops the oldest.
    fn say(&mut self, all: &MultiProgress, line: String) {
        if self.lines.len() == TAIL {
            self.lines.pop_front();
        } else {
            let last = self.tail.last().unwrap_or(&self.head);
            let bar = ProgressBar::new_spinner().with_style(style("    | {wide_msg}"));
            let bar = all.insert_after(last, bar);
            self.tail.push(bar);
        }
        self.lines.push_back(line);
        for (bar, text) in self.tail.iter().zip(&self.lines) {
            bar.set_message(text.clone());
        }
    }

    fn clear(&self) {
        for bar in self.tail.iter().chain([&self.head]) {
            bar.finish_and_clear();
        }
    }
}

/// Parses a built-in template.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
