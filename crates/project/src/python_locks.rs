//! The Python locks of a project: reading them, and whether they match the requirements.

use failure::{Failure, Kind};
use pins::{Pins, PythonLock, PythonSet, python_lock_path, requirements_lock_path};

use crate::folder::Project;

/// The text of a lock, and what was parsed from it.
pub type Read = (String, Result<PythonLock, pins::ParsePythonLockError>);

/// Reads the lock `name` of the project, if it exists.
///
/// # Errors
/// The file exists and cannot be read.
pub fn read(project: &Project, name: &str) -> Result<Option<Read>, Failure> {
    let file = python_lock_path(name);
    match project.text(&file) {
        Ok(text) => {
            let lock = PythonLock::parse(&text, None);
            Ok(Some((text.to_string(), lock)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(project.unreadable(&file, &error)),
    }
}

/// Returns whether a lock exists.
pub fn is_made(project: &Project, name: &str) -> bool {
    project.has(&python_lock_path(name))
}

/// Returns why a lock does not match the requirements, if it does not. Makes no requests.
///
/// # Errors
/// The lock cannot be read.
pub fn stale(
    project: &Project,
    pins: &Pins,
    name: &str,
    set: &PythonSet,
) -> Result<Option<String>, Failure> {
    let Some((text, lock)) = read(project, name)? else {
        return Ok(Some(format!("`{}` does not exist", python_lock_path(name))));
    };
    let lock = match lock {
        Ok(lock) => lock,
        Err(error) => return Ok(Some(format!("`{}`: {error}", python_lock_path(name)))),
    };
    let inputs = set.inputs(pins);
    if inputs.is_none() || lock.inputs != inputs {
        let why = "it was made from a different `versions/python.toml` or a different source";
        return Ok(Some(why.to_owned()));
    }
    if lock.to_pylock() != text {
        return Ok(Some(format!("`{}` was edited", python_lock_path(name))));
    }
    let file = requirements_lock_path(name);
    let same = project.text(&file).is_ok_and(|now| *now == *lock.to_requirements());
    Ok((!same).then(|| format!("`{file}` does not match `{}`", python_lock_path(name))))
}

/// Creates the error for locks that do not match the current requirements: the name of each lock,
/// and why.
pub fn refuse_stale(stale: Vec<(String, String)>) -> Failure {
    let names: Vec<String> = stale.iter().map(|(name, _)| name.clone()).collect();
    let message = match stale.as_slice() {
        [(name, why)] => format!("lock `{name}` is stale: {why}"),
        all => format!("{} locks are stale", all.len()),
    };
    let told = Failure::new(Kind::OutOfDate, message);
    let causes = match stale.as_slice() {
        [_] => Vec::new(),
        all => all.iter().map(|(name, why)| format!("`{name}`: {why}")).collect(),
    };
    let them = if names.len() == 1 { "it" } else { "them" };
    let hint = format!("`build-pipeline lock {}` updates {them}", names.join(" "));
    Failure { causes, ..told }.hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_speaks_of_one_lock_or_of_several() {
        let stale = |names: &[&str]| {
            let why = "it was edited".to_owned();
            refuse_stale(names.iter().map(|name| ((*name).to_owned(), why.clone())).collect()).hints
        };
        assert_eq!(stale(&["a"]), ["`build-pipeline lock a` updates it"]);
        assert_eq!(stale(&["a", "b"]), ["`build-pipeline lock a b` updates them"]);
    }
}
