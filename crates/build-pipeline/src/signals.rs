//! The signals that stop a run cleanly.

use std::pin::Pin;
use std::time::Duration;

use failure::{Failure, Kind};
use tokio::signal::unix::{SignalKind, signal};

/// How long a run that a signal stopped waits for the test of its engine to end.
const END_OF_TEST: Duration = Duration::from_secs(30);

/// Listens for the signals that stop a run cleanly.
pub(crate) struct Signals(Vec<(tokio::signal::unix::Signal, Kind)>);

impl Signals {
    pub(crate) fn listen() -> Self {
        let codes = [
            (SignalKind::interrupt(), Kind::Interrupted),
            (SignalKind::terminate(), Kind::Terminated),
            (SignalKind::hangup(), Kind::Terminated),
            // Ctrl-\ at a terminal.
            (SignalKind::quit(), Kind::Interrupted),
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

impl Signals {
    /// Waits for the test of an engine, which removes its containers and images when it ends. Waits
    /// only until another signal arrives.
    pub(crate) async fn let_end<T>(&mut self, test: Pin<Box<impl Future<Output = T>>>) {
        tokio::select! {
            _ = tokio::time::timeout(END_OF_TEST, test) => {}
            _ = self.next() => {}
        }
    }
}

/// Returns the error for a run that a signal stopped.
pub(crate) fn interrupted(code: Kind) -> Failure {
    Failure::new(code, "interrupted; existing output was not changed")
        .hint("rerun the same command to continue from the cache")
}
