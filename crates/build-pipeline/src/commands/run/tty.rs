//! The terminal that the program was started from: whether there is one, its size, its mode, and
//! its input.

use std::io::{self, IsTerminal as _, Read as _};

use launch::session::Input;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// Returns whether input and output are both terminals.
pub(super) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Returns the terminal's rows and columns.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Starts reading the input on a thread that is never joined, because it may block forever. If the
/// thread cannot be started, the input is empty.
pub(super) fn input() -> Input {
    let (sender, receiver) = mpsc::channel(16);
    let read = move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; 16 << 10];
        while let Ok(length) = stdin.read(&mut buffer) {
            if length == 0 || sender.blocking_send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().spawn(read) {
        tracing::warn!(%error, "the input cannot be read: starting a thread failed");
    }
    receiver
}

/// A terminal in raw mode, in which every key goes to the container. Dropping it restores the mode.
pub(super) struct Raw(Termios);

impl Raw {
    /// Switches to raw mode. Returns `None` if the terminal does not allow that.
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
            tracing::debug!(%error, "cannot restore the terminal's mode");
        }
    }
}
