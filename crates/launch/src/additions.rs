//! The variables and volumes that the caller adds to a container.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use failure::{Failure, Kind};
use host::run::{Folder, VariableFile, Variables};
use names::Secret;
use project::environment;

/// The variable with the token for models on Hugging Face, which is passed on if it is set.
const TOKEN: &str = "HF_TOKEN";

/// The options of a caller.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    /// Variables: `NAME=VALUE`, or `NAME` for a variable of the environment.
    pub variables: Vec<Secret>,
    /// Files with variables.
    pub files: Vec<PathBuf>,
    /// Folders and files of the host: `HOST:CONTAINER[:ro]`.
    pub volumes: Vec<String>,
}

/// The parsed options.
#[derive(Debug, Clone, Default)]
pub(crate) struct Added {
    /// The variables.
    pub(crate) variables: Variables,
    /// The values of the variables that files from `run --print` contain only by name, if set.
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// The folders and files.
    pub(crate) volumes: Vec<Folder>,
}

impl Additions {
    /// Reads the files and the environment. Paths are relative to `here`.
    ///
    /// # Errors
    /// An option or a file is wrong.
    pub(crate) fn read(&self, here: &Path) -> Result<Added, Failure> {
        let mut added = Added::default();
        for file in &self.files {
            added.add_file(&here.join(file))?;
        }
        for variable in &self.variables {
            added.add(variable)?;
        }
        if !added.variables.has(TOKEN) && environment::passed(TOKEN).is_some() {
            added.pass(TOKEN);
        }
        let volumes = self.volumes.iter().map(|text| volume(here, text));
        added.volumes = volumes.collect::<Result<_, _>>()?;
        Ok(added)
    }
}

impl Added {
    /// Returns the variables that are passed on but not set.
    pub(crate) fn unset(&self) -> impl Iterator<Item = &String> {
        self.variables.passed.iter().filter(|name| !self.secrets.contains_key(*name))
    }

    /// Adds a variable, which replaces earlier ones of the same name.
    fn add(&mut self, variable: &Secret) -> Result<(), Failure> {
        let text = variable.expose();
        let name = text.split('=').next().unwrap_or_default();
        check_name(name).map_err(|()| {
            Failure::new(Kind::Input, "`--env` does not start with the name of a variable")
                .hint("use `--env NAME=VALUE`, or `--env NAME` to pass on the variable from your environment")
        })?;
        self.variables.values.remove(name);
        self.secrets.remove(name);
        match text.split_once('=') {
            None => self.pass(name),
            Some((_, value)) if variable.is_secret() => {
                self.variables.passed.insert(name.to_owned());
                self.secrets.insert(name.to_owned(), Secret::new(value));
            }
            Some((_, value)) => {
                self.variables.passed.remove(name);
                self.variables.values.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(())
    }

    /// Passes on a variable of the environment.
    fn pass(&mut self, name: &str) {
        self.variables.passed.insert(name.to_owned());
        self.secrets.extend(environment::passed(name).map(|value| (name.to_owned(), value)));
    }

    /// Adds the variables of a file, in the format of `podman run --env-file`.
    fn add_file(&mut self, path: &Path) -> Result<(), Failure> {
        let shown = path.display();
        let hint = "write one NAME=VALUE per line, without quotes around the value";
        let text = project::read_named_text(path).map_err(|error| {
            Failure::caused(Kind::Input, format!("cannot read `{shown}`"), &error).hint(hint)
        })?;
        let mut names = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = match line.split_once('=') {
                Some((name, value)) => (name, Some(Secret::new(value))),
                None => (line.trim_end(), environment::passed(line.trim_end())),
            };
            check_name(name).map_err(|()| {
                let number = number.saturating_add(1);
                let what = format!(
                    "line {number} of `{shown}` does not start with the name of a variable"
                );
                Failure::new(Kind::Input, what).hint(hint)
            })?;
            names.insert(name.to_owned());
            self.secrets.extend(value.map(|value| (name.to_owned(), value)));
        }
        let path = utf8(path)?;
        self.variables.files.push(VariableFile { path, names });
        Ok(())
    }
}

/// Accepts a name that shells, engines and systemd accept.
fn check_name(name: &str) -> Result<(), ()> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let starts = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    if is_plain && starts { Ok(()) } else { Err(()) }
}

fn utf8(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Kind::Input, format!("`{}` is not UTF-8", path.display()))
            .hint("rename the file or folder")
    })
}

/// Parses `HOST:CONTAINER[:ro]`.
fn volume(here: &Path, text: &str) -> Result<Folder, Failure> {
    let wrong = |what: String| {
        Failure::new(Kind::Input, what)
            .hint("use `--volume HOST:CONTAINER`, or `--volume HOST:CONTAINER:ro`; HOST is an existing folder or file, and CONTAINER is an absolute path")
    };
    let words: Vec<&str> = text.split(':').collect();
    let (host, container, is_read_only) = match words.as_slice() {
        [host, container] | [host, container, "rw"] => (host, container, false),
        [host, container, "ro"] => (host, container, true),
        _ => return Err(wrong(format!("`--volume {text}` is not HOST:CONTAINER"))),
    };
    if host.is_empty() {
        return Err(wrong(format!("`--volume {text}` is not HOST:CONTAINER")));
    }
    if !container.starts_with('/') {
        return Err(wrong(format!("`{container}` in `--volume {text}` is not an absolute path")));
    }
    if container.contains([',', '"', '\'', '\\', '\n']) {
        return Err(wrong(format!(
            "`{container}` in `--volume {text}` contains a comma, a quote, a backslash or a line break"
        )));
    }
    let path = here.join(host).canonicalize();
    let path = path.map_err(|error| wrong(format!("`{host}` cannot be mounted: {error}")))?;
    let container = (*container).to_owned();
    Ok(Folder { host: utf8(&path)?, container, is_made: false, is_read_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(here: &Path, variables: &[&str], volumes: &[&str]) -> Result<Added, Failure> {
        let additions = Additions {
            variables: variables.iter().map(|text| Secret::new(*text)).collect(),
            files: vec![PathBuf::from("file.env")],
            volumes: volumes.iter().map(|text| (*text).to_owned()).collect(),
        };
        additions.read(here)
    }

    #[test]
    fn a_file_of_variables_has_a_limited_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        for endless in ["/dev/zero", "big"] {
            let big = std::fs::File::create(folder.path().join("big")).unwrap();
            big.set_len(5 << 20).unwrap();
            let files = vec![PathBuf::from(endless)];
            let additions = Additions { variables: Vec::new(), files, volumes: Vec::new() };
            let error = additions.read(folder.path()).map(|_| ()).unwrap_err();
            assert_eq!(error.kind, Kind::Input);
            told.extend(error.causes);
        }
        assert_eq!(told, ["the file is larger than 4 MiB"; 2]);
        // The pipe of `<(COMMAND)` is no regular file.
        let files = vec![PathBuf::from("/dev/null")];
        let additions = Additions { variables: Vec::new(), files, volumes: Vec::new() };
        assert!(additions.read(folder.path()).is_ok());
    }

    #[test]
    fn later_variables_replace_earlier_ones_and_secrets_have_no_written_value() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file.env"), "# c\nA=\"1\" #2\n\nB=b\n").unwrap();
        let variables =
            ["MODE=slow", "MODE=fast=x", "HF_TOKEN=canary", "B=c", "A_TOKEN", "A_TOKEN="];
        let added = read(folder.path(), &variables, &["./:/data:ro"]).unwrap();
        assert!(!format!("{:?}", added.variables).contains("canary"));
        let values: Vec<_> = added.variables.values.iter().collect();
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let wanted = [text("A_TOKEN", ""), text("B", "c"), text("MODE", "fast=x")];
        assert!(values.into_iter().eq(wanted.iter().map(|(name, value)| (name, value))));
        assert_eq!(added.secrets["A"].expose(), "\"1\" #2");
        assert_eq!(added.secrets["HF_TOKEN"].expose(), "canary");
        assert!(added.variables.has("A") && added.variables.passed.contains("HF_TOKEN"));
        assert!(added.volumes[0].is_read_only && added.volumes[0].container == "/data");
    }

    #[test]
    fn wrong_options_are_answered_without_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = |variables: &[&str], volumes: &[&str]| {
            let error = read(folder.path(), variables, volumes).unwrap_err();
            assert_eq!(error.kind, Kind::Input);
            let text = error.lines().join(" ");
            assert!(!text.contains("canary"), "{text}");
            text
        };
        assert!(wrong(&[], &[]).contains("cannot read"));
        std::fs::write(folder.path().join("file.env"), "A=b\nmy name=canary\n").unwrap();
        assert!(wrong(&[], &[]).contains("line 2 of"));
        std::fs::write(folder.path().join("file.env"), "").unwrap();
        for variable in ["=canary", "1A=canary", "A B=canary", ""] {
            wrong(&[variable], &[]);
        }
        for volume in ["/", "/:", ":/a", "a:b", "/:/a:rx", "/:/a,b", "nowhere:/a"] {
            wrong(&[], &[volume]);
        }
    }
}
