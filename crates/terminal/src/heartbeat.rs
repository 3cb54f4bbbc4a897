//! Prints a line about a step, an output or a command that has been silent for a while, so that a
//! log shows that the run continues.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use names::Digest;
use oci::client::bytes_received;
use text::size;

use crate::output;

/// The longest silence. Lines are less than 10 s apart, because the threads check more often.
const SILENCE: Duration = Duration::from_secs(9);
/// How often the threads check.
const TICK: Duration = Duration::from_millis(500);

/// How many steps and outputs of this process are running.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The running steps and outputs of a run, by their displayed names.
#[derive(Debug, Default)]
pub struct Heartbeat {
    running: Arc<Mutex<BTreeMap<String, Running>>>,
    thread: OnceLock<()>,
}

/// A running step or output.
#[derive(Debug)]
struct Running {
    began: Instant,
    /// When the last line about it was printed.
    said: Instant,
    /// What is transferred, if it is an output or a step that copies layers.
    transfer: Option<Transferred>,
    /// Whether it is a step that fetches something.
    fetches: bool,
}

/// The bytes of an output's layers.
#[derive(Debug, Default)]
pub struct Transferred {
    /// The bytes to transfer, as far as known.
    total: u64,
    /// The bytes that were transferred, by layer. `None` for a layer that needs no transfer.
    layers: BTreeMap<Digest, Option<u64>>,
}

impl Transferred {
    /// Starts counting; `total` is the size of all layers.
    pub fn of(total: u64) -> Self {
        Self { total, layers: BTreeMap::new() }
    }

    /// Records the progress of a layer. If the first progress is its whole size, the layer already
    /// existed and needs no transfer.
    pub fn note(&mut self, layer: &Digest, done: u64, size: u64) {
        match self.layers.get_mut(layer) {
            Some(Some(moved)) => *moved = done,
            Some(None) => {}
            None if done == size => {
                self.total = self.total.saturating_sub(size);
                self.layers.insert(layer.clone(), None);
            }
            None => {
                self.layers.insert(layer.clone(), Some(done));
            }
        }
    }

    /// Returns the number of bytes that were transferred.
    pub fn done(&self) -> u64 {
        self.layers.values().flatten().sum()
    }

    /// Returns the number of bytes to transfer.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the state as text: how much, how fast, and how long it will take.
    fn text(&self, elapsed: Duration) -> String {
        let (done, total) = (self.done(), self.total());
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = done.saturating_mul(1000) / millis;
        let left = total.saturating_sub(done).checked_div(rate);
        let left = left.map_or_else(String::new, |seconds| format!(", {} left", long(seconds)));
        format!("{} of {}, {}/s{left}", size(done), size(total), size(rate))
    }
}

impl Heartbeat {
    /// Records that a step or output has started. `bytes` is the size of the layers of an output.
    pub fn begin(&self, name: String, bytes: Option<u64>, fetches: bool) {
        let now = Instant::now();
        let transfer = bytes.map(Transferred::of);
        let new = Running { began: now, said: now, transfer, fetches };
        if lock(&self.running).insert(name, new).is_none() {
            RUNNING.fetch_add(1, Ordering::Relaxed);
        }
        self.thread.get_or_init(|| {
            let running = Arc::downgrade(&self.running);
            start(move || beat(&running));
        });
    }

    /// Records that a line about a step or output was printed.
    pub fn said(&self, name: &str) {
        if let Some(running) = lock(&self.running).get_mut(name) {
            running.said = Instant::now();
        }
    }

    /// Records that a step transfers layers.
    pub fn expect(&self, name: &str, bytes: u64) {
        if let Some(running) = lock(&self.running).get_mut(name) {
            running.transfer = Some(Transferred::of(bytes));
        }
    }

    /// Records the progress of a layer.
    pub fn progress(&self, name: &str, layer: &Digest, done: u64, size: u64) {
        let mut all = lock(&self.running);
        if let Some(transfer) = all.get_mut(name).and_then(|running| running.transfer.as_mut()) {
            transfer.note(layer, done, size);
        }
    }

    /// Records that a step or output has ended.
    pub fn end(&self, name: &str) {
        if lock(&self.running).remove(name).is_some() {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Starts a thread. If that fails, the command still works, but prints no heartbeat lines.
fn start(body: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().spawn(body) {
        tracing::debug!(%error, "cannot start a thread for heartbeat lines");
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        // The steps of an interrupted run do not end.
        RUNNING.fetch_sub(lock(&self.running).len(), Ordering::Relaxed);
    }
}

/// From now on, prints a line whenever the command has been silent for too long and none of its
/// steps and outputs is running. Running steps and outputs have separate lines.
pub fn watch(command: &str) {
    let (command, started) = (command.to_owned(), Instant::now());
    start(move || {
        let mut idle = started;
        loop {
            thread::sleep(TICK);
            if RUNNING.load(Ordering::Relaxed) > 0 {
                idle = Instant::now();
            } else if output::silence(idle) >= SILENCE {
                output::say(&running_for(&command, started.elapsed(), bytes_received()));
            }
        }
    });
}

/// Returns a line about something with an unknown duration.
fn running_for(name: &str, elapsed: Duration, received: u64) -> String {
    let elapsed = long(elapsed.as_secs());
    match received {
        0 => format!("· {name}: running for {elapsed}"),
        _ => format!("· {name}: running for {elapsed}; {} received so far", size(received)),
    }
}

/// Prints lines until the run has ended.
fn beat(running: &Weak<Mutex<BTreeMap<String, Running>>>) {
    loop {
        thread::sleep(TICK);
        let Some(running) = running.upgrade() else { return };
        for line in lines(&mut lock(&running), Instant::now()) {
            output::say(&line);
        }
    }
}

/// Returns a line about each step or output that has been silent for too long.
fn lines(running: &mut BTreeMap<String, Running>, now: Instant) -> Vec<String> {
    let is_silent = |one: &Running| now.duration_since(one.said) >= SILENCE;
    running
        .iter_mut()
        .filter(|(_, one)| is_silent(one))
        .map(|(name, one)| {
            one.said = now;
            let elapsed = now.duration_since(one.began);
            match &one.transfer {
                Some(transfer) if transfer.done() > 0 => {
                    format!("· {name}: {}", transfer.text(elapsed))
                }
                _ => running_for(name, elapsed, if one.fetches { bytes_received() } else { 0 }),
            }
        })
        .collect()
}

/// Returns a duration in seconds, minutes or hours, depending on its length.
fn long(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_transfer_says_how_far_it_is() {
        let heartbeat = Heartbeat::default();
        let [there, moving] = [Digest::of(b"there"), Digest::of(b"moving")];
        let begin = Instant::now();
        heartbeat.begin("oci:x".to_owned(), Some(3_000_000_000), false);
        heartbeat.begin("fetch".to_owned(), None, false);
        heartbeat.progress("oci:x", &there, 1_000_000_000, 1_000_000_000);
        heartbeat.progress("oci:x", &moving, 4_000_000, 2_000_000_000);
        heartbeat.progress("oci:x", &moving, 1_000_000_000, 2_000_000_000);
        let later = |seconds| begin + Duration::from_secs(seconds);
        let mut all = lock(&heartbeat.running);
        assert_eq!(lines(&mut all, later(8)), [""; 0]);
        let first = lines(&mut all, later(10));
        assert_eq!(first[0], "· fetch: running for 9 s".replace("9 s", &first[0][22..]));
        assert!(first[1].starts_with("· oci:x: 1.0 GB of 2.0 GB, 10"), "{first:?}");
        assert!(first[1].ends_with("MB/s, 9 s left"), "{first:?}");
        assert_eq!(lines(&mut all, later(15)), [""; 0]);
        assert_eq!(lines(&mut all, later(310))[0].split_once("for ").unwrap().1, "5 min");
    }

    #[test]
    fn a_line_says_how_much_was_received() {
        let seconds = Duration::from_secs;
        assert_eq!(running_for("audit", seconds(9), 0), "· audit: running for 9 s");
        assert_eq!(
            running_for("fetch-packages-x", seconds(130), 1_500_000),
            "· fetch-packages-x: running for 2 min; 1.5 MB received so far"
        );
    }
}
