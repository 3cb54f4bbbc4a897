//! The signals that stop a run cleanly.

use failure::{Failure, Kind};
use tokio::signal::unix::{SignalKind, signal};

/// Listens for the signals that stop a run cleanly.
pub(crate) struct Signals(Vec<(tokio::signal::unix::Signal, Kind)>);

impl Signals {
    pub(crate) fn listen() -> Self {
        let codes = [
            (SignalKind::interrupt(), Kind::Interrupted),
            (SignalKind::terminate(), Kind::Terminated),
            (SignalKind::hangup(), Kind::Terminated),
        ];
        // A signal that cannot be handled keeps its default action, which terminates the process.
        Self(
            codes.into_iter().filter_map(|(kind, code)| Some((signal(kind).ok()?, code))).collect(),
        )
    }

    /// Waits for one of the signals. Returns the kind of failure that it causes.
    pub(crate) async fn next(&mut self) -> Kind {
        std::future::poll_fn(|context| {
            for (signal, code) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*code);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Returns the error for a run that a signal stopped.
pub(crate) fn interrupted(code: Kind) -> Failure {
    Failure::new(code, "interrupted; existing output was not changed")
        .hint("rerun the same command to continue from the cache")
}
