//! Python locks: reads what uv writes, and writes `pylock.NAME.toml` (PEP 751) and pip's format.
//!
//! Except for the index of a release, a lock does not contain download locations: a file is the
//! same on every mirror of an index, and its hash identifies it. The lock expects its wheels in the
//! folder `wheels` next to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use names::Digest;
use toml::{Table, Value};

use super::{PythonSet, normalised};
use names::Sha256;

/// Projects that PyTorch also builds for ROCm; the default index has the CUDA builds.
const ROCM_BUILDS: [&str; 4] = ["torch", "torchaudio", "torchvision", "triton"];

/// The reason why a lock cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsePythonLockError {
    /// A newer build-pipeline wrote it.
    #[error("it was written by a newer build-pipeline")]
    Newer,
    /// It is damaged, or not a lock.
    #[error("{0}")]
    Wrong(String),
}

/// Python projects, each pinned to a version and the hashes of its wheels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonLock {
    /// The version of Python.
    pub python: String,
    /// The platform.
    pub platform: String,
    /// The digest of the inputs, [`PythonSet::inputs`]; absent from uv's own output.
    pub inputs: Option<Digest>,
    /// The index of the release in the inputs, which is queried before the default one.
    pub index: Option<String>,
    /// The projects, by normalised name.
    pub projects: BTreeMap<String, LockedProject>,
}

/// One project at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedProject {
    /// The version.
    pub version: String,
    /// The wheels that run on the platform; an installer chooses the best match.
    pub wheels: Vec<Wheel>,
}

/// One wheel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wheel {
    /// The name of the file.
    pub file: String,
    /// Its size in bytes, if the index provides it.
    pub size: Option<u64>,
    /// The hash of the file.
    pub sha256: Sha256,
}

impl PythonLock {
    /// Parses a `pylock.toml` that this tool wrote, or that uv wrote for `set`.
    ///
    /// # Errors
    /// Fails if the text is not a lock, or if a package is not a wheel with a SHA-256.
    pub fn parse(text: &str, set: Option<&PythonSet>) -> Result<Self, ParsePythonLockError> {
        let wrong = |what: &str| ParsePythonLockError::Wrong(what.to_owned());
        let table: Table = text.parse().map_err(|_| wrong("it is not valid TOML"))?;
        if table.get("lock-version").and_then(Value::as_str) != Some("1.0") {
            return Err(wrong("`lock-version` is not `1.0`"));
        }
        let own = table.get("tool").and_then(|tool| tool.get("build-pipeline"));
        match own.and_then(|own| own.get("schema")).map(|number| (number, number.as_integer())) {
            None | Some((_, Some(1))) => {}
            Some((_, Some(2..))) => return Err(ParsePythonLockError::Newer),
            Some((number, _)) => {
                return Err(wrong(&format!("its schema is `{number}`, which does not exist")));
            }
        }
        let word = |key: &str| own.and_then(|own| own.get(key)).and_then(Value::as_str);
        let inputs = word("inputs").map(str::parse).transpose();
        let mut projects = BTreeMap::new();
        let none = Vec::new();
        for package in table.get("packages").and_then(Value::as_array).unwrap_or(&none) {
            let (name, project) = project(package)?;
            if projects.insert(name.clone(), project).is_some() {
                return Err(ParsePythonLockError::Wrong(format!("`{name}` is listed twice")));
            }
        }
        let of = |key, field: fn(&PythonSet) -> &String| {
            let value = set.map(field).map(String::as_str).or_else(|| word(key));
            value
                .map(str::to_owned)
                .ok_or_else(|| ParsePythonLockError::Wrong(format!("`{key}` is missing")))
        };
        Ok(Self {
            python: of("python", |given| &given.python)?,
            platform: of("platform", |given| &given.platform)?,
            inputs: inputs.map_err(|_| wrong("`inputs` is not a digest"))?,
            index: word("index").map(str::to_owned),
            projects,
        })
    }

    /// Returns the text of `pylock.NAME.toml`; the same lock always gives the same text.
    pub fn to_pylock(&self) -> String {
        let Self { python, platform, inputs, index, projects } = self;
        let mut text = format!(
            "# Written by `build-pipeline lock`; do not edit. It is made from versions/python.toml.\nlock-version = \"1.0\"\nrequires-python = \">={python}\"\ncreated-by = \"build-pipeline\"\n"
        );
        for (name, LockedProject { version, wheels }) in projects {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\nwheels = [\n"
            );
            for Wheel { file, size, sha256 } in wheels {
                let size = size.map_or_else(String::new, |size| format!("size = {size}, "));
                let _ = writeln!(
                    text,
                    "  {{ path = \"wheels/{file}\", {size}hashes = {{ sha256 = \"{sha256}\" }} }},"
                );
            }
            text.push_str("]\n");
        }
        let _ = write!(
            text,
            "\n[tool.build-pipeline]\nschema = 1\npython = \"{python}\"\nplatform = \"{platform}\"\n"
        );
        if let Some(inputs) = inputs {
            let _ = writeln!(text, "inputs = \"{inputs}\"");
        }
        if let Some(index) = index {
            let _ = writeln!(text, "index = \"{index}\"");
        }
        text
    }

    /// Returns the same content in pip's format.
    pub fn to_requirements(&self) -> String {
        let mut text = String::from(
            "# Written by `build-pipeline lock`; do not edit.\n# pip install --require-hashes --no-deps --only-binary :all: -r FILE\n",
        );
        for (name, LockedProject { version, wheels }) in &self.projects {
            let mut hashes: Vec<&Sha256> = wheels.iter().map(|wheel| &wheel.sha256).collect();
            hashes.sort();
            let hashes = hashes.iter().map(|hash| format!(" \\\n    --hash=sha256:{hash}"));
            let _ = writeln!(text, "{name}=={version}{}", hashes.collect::<String>());
        }
        text
    }

    /// Returns the projects that must not come from the default index: CUDA builds, and projects
    /// that would replace a ROCm build. A ROCm build has `rocm` in its version:
    /// `2.11.0+rocm7.14.0`.
    pub fn for_cuda(&self) -> impl Iterator<Item = (&str, &LockedProject)> {
        self.projects.iter().map(|(name, project)| (name.as_str(), project)).filter(
            |(name, project)| {
                let local = project.version.split_once('+').map_or("", |(_, local)| local);
                (ROCM_BUILDS.contains(name) && !local.contains("rocm"))
                    || name.starts_with("nvidia-")
                    || ["cuda-bindings", "cuda-pathfinder", "cuda-python", "cuda-toolkit"]
                        .contains(name)
                    || local.starts_with("cu")
            },
        )
    }
}

fn project(package: &Value) -> Result<(String, LockedProject), ParsePythonLockError> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text(package, "name")
        .ok_or_else(|| ParsePythonLockError::Wrong("a package has no name".to_owned()))?;
    let wrong = |what: &str| ParsePythonLockError::Wrong(format!("`{name}` {what}"));
    let version = text(package, "version").ok_or_else(|| wrong("has no version"))?;
    let is_plain =
        |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-!".contains(&b));
    if !is_plain(&version) || !is_plain(&name) {
        return Err(wrong("has an invalid name or version"));
    }
    // `marker` is not kept: the listed packages were chosen for the one platform of the lock.
    let wheels = package.get("wheels").and_then(Value::as_array).filter(|all| !all.is_empty());
    let wheels = wheels.ok_or_else(|| wrong("has no wheel"))?;
    let wheel = |wheel: &Value| {
        let place = text(wheel, "name").or(text(wheel, "path")).or(text(wheel, "url"))?;
        let place = place.split(['#', '?']).next().unwrap_or_default();
        let file = place.rsplit('/').next().filter(|file| file.ends_with(".whl"))?;
        // In URLs, the `+` of a local version is escaped.
        let file = file.replace("%2B", "+").replace("%2b", "+");
        let sha256 = text(wheel.get("hashes")?, "sha256")?.parse().ok()?;
        let size = wheel.get("size").and_then(Value::as_integer);
        let size = size.and_then(|size| u64::try_from(size).ok());
        is_plain(&file).then_some(Wheel { file, size, sha256 })
    };
    let wheels: Option<Vec<Wheel>> = wheels.iter().map(wheel).collect();
    let mut wheels = wheels.ok_or_else(|| wrong("has a wheel without a name or SHA-256"))?;
    wheels.sort();
    Ok((normalised(&name), LockedProject { version, wheels }))
}
