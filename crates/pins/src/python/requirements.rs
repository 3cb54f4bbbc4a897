//! Reads the requirement files of other projects: `pyproject.toml` and pip's text files.
//!
//! An option that says where packages come from is refused: what a lock is looked up in is ours to
//! say, and an index that merges with another may slip CUDA wheels in.

use crate::problem::quote;

/// Why a requirement file is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementsError {
    /// It is no TOML.
    #[error("`{file}` is not valid TOML")]
    Toml {
        /// The file.
        file: String,
    },
    /// It does not say what its build needs.
    #[error("`{file}` has no `[build-system]` with `requires`")]
    NoBuild {
        /// The file.
        file: String,
    },
    /// A line is an option that is not followed, or no requirement.
    #[error("line {line} of `{file}` is {text}, which is not followed")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What stands there, quoted.
        text: String,
    },
}

/// A line that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementLine {
    /// A requirement (PEP 508).
    Requirement(String),
    /// Another file, as seen from the folder of this one.
    Include(String),
}

/// Returns what a requirement file asks for. Of a `pyproject.toml` that is what its build needs.
///
/// # Errors
/// The file cannot be understood, or a line is an option other than `-r`.
pub fn requirements(file: &str, text: &str) -> Result<Vec<RequirementLine>, RequirementsError> {
    match file.ends_with(".toml") {
        true => build_requirements(file, text),
        false => lines(file, text),
    }
}

fn build_requirements(file: &str, text: &str) -> Result<Vec<RequirementLine>, RequirementsError> {
    let table: toml::Table =
        text.parse().map_err(|_| RequirementsError::Toml { file: file.to_owned() })?;
    let requires = table.get("build-system").and_then(|build| build.get("requires"));
    let all = requires.and_then(toml::Value::as_array);
    let all = all.ok_or_else(|| RequirementsError::NoBuild { file: file.to_owned() })?;
    let one = |value: &toml::Value| {
        let text = value.as_str().unwrap_or_default();
        requirement(file, 1, text)
    };
    all.iter().map(one).collect()
}

/// Reads pip's form: one requirement a line, `#` comments, `\` at the end goes on.
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
        let whole = match whole.starts_with('#') {
            true => "",
            false => whole.split(" #").next().unwrap_or_default().trim_end(),
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
