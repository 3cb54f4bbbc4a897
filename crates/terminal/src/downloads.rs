//! Shows the progress of downloads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar};
use sources::{Event, SourceUrl};
use text::size;

use crate::reporter::{Progress, Reporter};
use crate::{live, output};

/// The downloads that are in progress.
#[derive(Debug)]
pub struct Downloads {
    /// Live lines on a terminal, one per URL.
    live: Option<(MultiProgress, Mutex<BTreeMap<String, ProgressBar>>)>,
}

impl Downloads {
    /// Shows downloads in the requested format.
    pub fn new(asked: Progress) -> Self {
        let is_live = matches!(Reporter::new(asked), Reporter::Tty(_)) && live::is_possible();
        Self { live: is_live.then(|| (live::lines(), Mutex::default())) }
    }

    /// Shows an event of a download.
    pub fn tell(&self, event: Event<'_>) {
        match event {
            Event::Fetching { url, place, commit } => {
                let from = if url == place { String::new() } else { format!(" from {place}") };
                self.say(&format!("fetching {url} at {commit}{from}"));
            }
            Event::Received { url, bytes } => self.received(url, bytes),
            Event::Resumed { url, from } => {
                self.say(&format!("resuming {url} at {}", size(from)));
            }
            Event::Retry { url, reason } => self.say(&format!("trying {url} again: {reason}")),
            Event::Waiting { path } => {
                self.say(&format!(
                    "waiting for another run, which holds the lock {}",
                    path.display()
                ));
            }
            _ => {}
        }
    }

    fn say(&self, text: &str) {
        match &self.live {
            Some((all, _)) => all.suspend(|| output::fetching(text)),
            None => output::fetching(text),
        }
    }

    fn received(&self, url: &SourceUrl, bytes: u64) {
        let Some((all, bars)) = &self.live else { return };
        let mut bars = bars.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bars.entry(url.to_string()).or_insert_with(|| {
            let bar = all.add(ProgressBar::new_spinner());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(format!("{} from {url}", size(bytes)));
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        if let Some((all, _)) = &self.live {
            drop(all.clear());
        }
    }
}
