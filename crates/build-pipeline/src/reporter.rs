//! Tells a person, a CI log or a program what is happening. All of it goes to standard error.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Mutex;

use executor::Event;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use record::{OutputState, StepState};

use crate::cli::Progress;
use crate::sanitise::sanitise_line;
use crate::{environment, output};

/// One of the ways to show progress.
#[derive(Debug)]
pub(crate) enum Reporter {
    /// Live lines on a terminal.
    Tty(Live),
    /// One line when something ends.
    Plain,
    /// One JSON object an event.
    Json,
}

/// The live lines.
#[derive(Debug)]
pub(crate) struct Live {
    all: MultiProgress,
    bars: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Reporter {
    /// Chooses how to show progress: what was asked for, else what fits where it is shown.
    pub(crate) fn new(asked: Progress) -> Self {
        match with_buildkit(asked) {
            Progress::Json => Self::Json,
            Progress::Plain => Self::Plain,
            Progress::Tty => Self::live(),
            Progress::Auto if std::io::stderr().is_terminal() && !environment::is_ci() => {
                Self::live()
            }
            Progress::Auto => Self::Plain,
        }
    }

    /// Returns whether progress is shown as JSON, and with it everything else that is said.
    pub(crate) fn is_json(asked: Progress) -> bool {
        with_buildkit(asked) == Progress::Json
    }

    fn live() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self::Tty(Live { all, bars: Mutex::default() })
    }

    /// Tells of an event.
    pub(crate) fn tell(&self, event: &Event) {
        match self {
            Self::Json => output::json_line(event),
            Self::Plain => {
                if let Some(line) = finished_line(event) {
                    output::say(&line);
                }
            }
            Self::Tty(live) => live.tell(event),
        }
    }
}

/// Returns what was asked for, or where nothing was, what BuildKit's variable asks for.
fn with_buildkit(asked: Progress) -> Progress {
    match (asked, environment::buildkit_progress().as_deref()) {
        (Progress::Auto, Some("plain")) => Progress::Plain,
        (Progress::Auto, Some("tty")) => Progress::Tty,
        (Progress::Auto, Some("rawjson")) => Progress::Json,
        (asked, _) => asked,
    }
}

/// Returns what is said when something ends; nothing for what is only under way.
fn finished_line(event: &Event) -> Option<String> {
    match event {
        Event::PlanBegun { name, plan_digest, steps } => {
            Some(format!("building {name}: {steps} steps, plan {}", plan_digest.short()))
        }
        Event::StepEnded { step, state, milliseconds } => {
            let (mark, word) = match state {
                StepState::Done => ("✓", ""),
                StepState::Cached => ("✓", ", cached"),
                StepState::Failed => ("✗", ", failed"),
                StepState::Interrupted => ("✗", ", interrupted"),
                StepState::NotBegun => ("-", ", not begun"),
            };
            Some(format!("{mark} {step} ({}{word})", seconds(*milliseconds)))
        }
        Event::Note { rule, message } => Some(format!("note: {} [{rule}]", sanitise_line(message))),
        Event::OutputEnded { output, state, layer_bytes_copied } => {
            let moved = match layer_bytes_copied {
                0 => "no layer bytes moved".to_owned(),
                bytes => format!("{} of layers copied", size(*bytes)),
            };
            Some(match state {
                OutputState::Written => format!("✓ {output} ({moved})"),
                OutputState::UpToDate => format!("✓ {output} (up to date)"),
                OutputState::Failed | OutputState::Interrupted => {
                    format!("✗ {output} (failed; what was there before is intact)")
                }
            })
        }
        Event::BuildInstruction { number, total, line, instruction, .. } => {
            let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
            Some(format!("  {number}/{total}{line} {}", sanitise_line(instruction)))
        }
        Event::BuildLine { text, .. } => Some(format!("  | {}", sanitise_line(text))),
        Event::LayerSealed { entries, unchanged, scrubbed, stale_bytecode, .. } => {
            let stale = match stale_bytecode {
                0 => String::new(),
                count => format!(", {count} files of bytecode are stale"),
            };
            Some(format!(
                "  sealed: {entries} entries; {unchanged} were as in the base, {scrubbed} scrubbed{stale}"
            ))
        }
        Event::StepBegun { .. } | Event::OutputBegun { .. } | Event::LayerProgress { .. } => None,
    }
}

impl Live {
    fn tell(&self, event: &Event) {
        let mut bars = self.bars.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match event {
            Event::StepBegun { step, what } => {
                let bar =
                    self.all.add(ProgressBar::new_spinner().with_message(sanitise_line(what)));
                bar.enable_steady_tick(std::time::Duration::from_millis(120));
                bars.insert(step.clone(), bar);
            }
            Event::OutputBegun { output } => {
                let bar = self
                    .all
                    .add(ProgressBar::new_spinner().with_message(format!("write {output}")));
                bar.enable_steady_tick(std::time::Duration::from_millis(120));
                bars.insert(output.clone(), bar);
            }
            Event::LayerProgress { output, layer, done, total } => {
                let bar = bars.entry(format!("{output} {layer}")).or_insert_with(|| {
                    let style = ProgressStyle::with_template(
                        "  {msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
                    );
                    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
                    self.all.add(
                        ProgressBar::new(*total)
                            .with_style(style)
                            .with_message(layer.short().to_owned()),
                    )
                });
                bar.set_position(*done);
                if done == total {
                    bar.finish_and_clear();
                }
            }
            Event::StepEnded { step: name, .. } | Event::OutputEnded { output: name, .. } => {
                for (key, bar) in bars.iter() {
                    if key == name || key.starts_with(&format!("{name} ")) {
                        bar.finish_and_clear();
                    }
                }
            }
            Event::BuildLine { step, text } => {
                if let Some(bar) = bars.get(step) {
                    bar.set_message(sanitise_line(text));
                }
                // The whole log would scroll everything else away.
                return;
            }
            Event::PlanBegun { .. }
            | Event::Note { .. }
            | Event::BuildInstruction { .. }
            | Event::LayerSealed { .. } => {}
        }
        if let Some(line) = finished_line(event) {
            // Above the live lines. `println` of a hidden target prints nothing, `suspend` always does.
            self.all.suspend(|| output::say(&line));
        }
    }
}

fn seconds(milliseconds: u64) -> String {
    match milliseconds {
        0..10_000 => format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000),
        _ => format!("{} s", milliseconds / 1000),
    }
}

/// Returns a size in the decimal units that registries and disks are sold by.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, wanted) in
            [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (7_500_000_000, "7.5 GB")]
        {
            assert_eq!(size(bytes), wanted);
        }
    }
}
