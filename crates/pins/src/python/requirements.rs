//! Reads the requirement files of other projects: `pyproject.toml` and pip's text files.
//!
//! Options that select a package index are refused: this project decides where packages come from,
//! and an index that is merged with another one may add CUDA wheels.

use crate::problem::quote;

/// The reason why a requirement file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementsError {
    /// It is not valid TOML.
    #[error("`{file}` is not valid TOML")]
    Toml {
        /// The file.
        file: String,
    },
    /// It does not declare build requirements.
    #[error("`{file}` has no `[build-system]` with `requires`")]
    NoBuild {
        /// The file.
        file: String,
    },
    /// A line is an unsupported option, or not a requirement.
    #[error("line {line} of `{file}` is {text}, which is not supported")]
    Line {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The content of the line, quoted.
        text: String,
    },
}

/// A line with content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementLine {
    /// A requirement (PEP 508).
    Requirement(String),
    /// Another file, relative to the folder of this one.
    Include(String),
}

/// Returns the requirements in a requirement file; for a `pyproject.toml`, the build requirements.
///
/// # Errors
/// Fails if the file cannot be parsed, or if a line is neither a requirement nor the option `-r`.
pub fn requirements(file: &str, text: &str) -> Result<Vec<RequirementLine>, RequirementsError> {
    if file.ends_with(".toml") { build_requirements(file, text) } else { lines(file, text) }
}

fn build_requirements(file: &str, text: &str) -> Result<Vec<RequirementLine>, RequirementsError> {
    let table: toml::Table =
        text.parse().map_err(|_| RequirementsError::Toml { file: file.to_owned() })?;
    let requires = table.get("build-system").and_then(|build| build.get("requires"));
    let all = requires.and_then(toml::Value::as_array);
    let all = all.ok_or_else(|| RequirementsError::NoBuild { file: file.to_owned() })?;
    let one = |value: &toml::Value| requirement(file, 1, value.as_str().unwrap_or_default());
    all.iter().map(one).collect()
}

/// Reads pip's format: one requirement per line, `#` comments, and `\` at the end to continue a
/// line.
fn lines(file: &str, text: &str) -> Result<Vec<RequirementLine>, RequirementsError> {
    let mut found = Vec::new();
    let mut open = String::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(part) = line.strip_suffix('\\') {
            open.push_str(part);
            continue;
        }
        open.push_str(line);
        let whole = std::mem::take(&mut open);
        let whole = whole.trim();
        let whole = if whole.starts_with('#') {
            ""
        } else {
            whole.split(" #").next().unwrap_or_default().trim_end()
        };
        if whole.is_empty() {
            continue;
        }
        let include = whole.strip_prefix("-r ").or_else(|| whole.strip_prefix("--requirement "));
        found.push(match include {
            Some(path) => RequirementLine::Include(path.trim().to_owned()),
            None => requirement(file, index + 1, whole)?,
        });
    }
    Ok(found)
}

fn requirement(file: &str, line: usize, text: &str) -> Result<RequirementLine, RequirementsError> {
    let checked = super::read::requirement(text);
    checked.map(RequirementLine::Requirement).map_err(|_| RequirementsError::Line {
        file: file.to_owned(),
        line,
        text: quote(text),
    })
}
