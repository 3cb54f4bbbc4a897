//! Lines on a terminal that change while something is in progress.

use std::io;

use console::Term;
use indicatif::{MultiProgress, ProgressDrawTarget, TermLike};

/// How often the lines are drawn, per second.
const RATE: u8 = 20;

/// The columns that stay free at the end of a line. A terminal shows Ctrl-C there as `^C`. If the
/// line were full, the terminal would show `^C` on the next line, and part of the line would
/// remain.
const FREE: u16 = 4;

/// Returns whether standard error is a terminal on which lines can change.
pub(crate) fn is_possible() -> bool {
    Term::stderr().is_term() && !console::is_dumb()
}

/// Returns lines that are drawn on standard error, or nowhere if they cannot change there.
pub(crate) fn lines() -> MultiProgress {
    let target = if is_possible() {
        ProgressDrawTarget::term_like_with_hz(Box::new(Narrow(Term::buffered_stderr())), RATE)
    } else {
        ProgressDrawTarget::hidden()
    };
    MultiProgress::with_draw_target(target)
}

/// A terminal that reports [`FREE`] columns fewer than it has.
#[derive(Debug)]
struct Narrow(Term);

impl TermLike for Narrow {
    fn width(&self) -> u16 {
        TermLike::width(&self.0).saturating_sub(FREE)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
