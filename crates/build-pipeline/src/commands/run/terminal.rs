//! The terminal that we were started from: whether there is one, its size, its mode, what is typed.

use std::io::{self, IsTerminal as _, Read as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// What is typed, piece by piece; it ends with the input.
pub(super) type Input = mpsc::Receiver<Vec<u8>>;

/// Returns whether input and output both are a terminal.
pub(super) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Returns its rows and columns.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Begins to read what is typed, on a thread that nobody waits for: it may wait for ever.
pub(super) fn input() -> Input {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; 16 << 10];
        while let Ok(length) = stdin.read(&mut buffer) {
            if length == 0 || sender.blocking_send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A terminal in raw mode: every key goes to the container. Its mode comes back when this is dropped.
pub(super) struct Raw(Termios);

impl Raw {
    /// Begins raw mode; nothing where the terminal does not allow that.
    pub(super) fn begin() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Now, &self.0) {
            tracing::debug!(%error, "the terminal is gone");
        }
    }
}
