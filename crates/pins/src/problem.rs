//! What is wrong with a data file, and where.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong with a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the file it is about.
    pub span: Range<usize>,
    /// The line the span starts on, from 1.
    pub line: usize,
    /// The column the span starts at, in characters, from 1.
    pub column: usize,
    /// What is wrong, with the value in backticks.
    pub message: String,
    /// What would be right, and the next step.
    pub help: String,
}

/// All that is wrong with one data file. There is at least one problem, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The file, as it was named by the caller.
    pub file: String,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let Problem { line, column, message, help, .. } = problem;
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{line}:{column}: {message} ({help})", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}
