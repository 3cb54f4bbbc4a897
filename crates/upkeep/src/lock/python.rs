//! Python locks: uv looks up the requirements in `versions/python.toml`.

use std::collections::{BTreeMap, BTreeSet};

use failure::{Failure, Kind};
use names::PinName;
use pins::{
    Pins, PythonLock, PythonSet, RequirementLine, python_lock_path, requirements_lock_path,
};
use project::Project;
use project::fetch::{self, Fetcher, TreePin};
use project::mirrors::Mirrors;
use sources::{SourceUrl, Sources, Submodules, Tree};

use super::content::{Content, Found, Locked};
use super::uv::{Form, Unresolved, Uv, chain};

/// The name that messages use for the project's own requirements.
const OWN: &str = "versions/python.toml";

/// The clients for looking up packages.
pub(crate) struct Asking<'a> {
    project: &'a Project,
    pins: Pins,
    fetcher: Fetcher,
    mirrors: &'a Mirrors,
    uv: Uv,
}

impl<'a> Asking<'a> {
    /// Finds uv, or installs it and reports that to `tell`.
    pub(crate) fn new(
        project: &'a Project,
        sources: Sources,
        mirrors: &'a Mirrors,
        index: Option<&str>,
        tell: &dyn Fn(&str),
    ) -> Result<Self, Failure> {
        let fetcher = Fetcher::new(sources)?.at(index);
        let place = fetch::mirrored(mirrors, &fetch::index(index)?)?;
        let uv = Uv::find(&place, mirrors, &fetcher, tell)?;
        Ok(Self { project, pins: project.pins()?, fetcher, mirrors, uv })
    }

    /// Looks up a set.
    pub(crate) fn look_up(&mut self, name: &PinName, set: &PythonSet) -> Result<Found, Failure> {
        let before = self.before(name)?;
        let inputs = set.inputs(&self.pins);
        let texts = self.requirements(set)?;
        let index = self.index_of(set)?;
        let written = self.compile(set, &texts, index.as_ref(), Form::Pylock)?;
        let odd = |error: pins::ParsePythonLockError| {
            Failure::caused(Kind::Failed, format!("cannot create lock `{name}`"), &error)
                .hint("write requirements that can be met together on one platform and one version of Python")
        };
        let mut lock = PythonLock::parse(&written, Some(set)).map_err(odd)?;
        if lock.for_cuda().next().is_some() {
            let said = self.compile(set, &texts, index.as_ref(), Form::Reasons)?;
            return Err(refuse_cuda(name, &lock, &said));
        }
        lock.inputs = inputs;
        lock.index = self.release_of(set).map(|release| release.index.clone());
        let after = content(&lock);
        let files = vec![
            (requirements_lock_path(name.as_str()), lock.to_requirements()),
            (python_lock_path(name.as_str()), lock.to_pylock()),
        ];
        let (name, indexes) = (name.to_string(), Vec::new());
        Ok(Found { name, kind: "python", before, after, indexes, files })
    }

    /// Runs uv. If a mirror does not have a package, asks the mirror why.
    fn compile(
        &self,
        set: &PythonSet,
        texts: &BTreeMap<String, BTreeSet<String>>,
        index: Option<&SourceUrl>,
        form: Form,
    ) -> Result<String, Failure> {
        let compiled = self.uv.compile(set, texts, index, form);
        compiled.map_err(|Unresolved { failure, missing }| {
            let asked = missing.and_then(|name| self.fetcher.releases(&name).err());
            match asked {
                Some(reason) => Failure { log: failure.log, ..reason },
                None => *failure,
            }
        })
    }

    /// Returns the current content of the lock. Refuses a lock that a newer build-pipeline wrote.
    fn before(&self, name: &PinName) -> Result<Content, Failure> {
        match project::python_locks::read(self.project, name.as_str())? {
            Some((_, Ok(old))) => Ok(content(&old)),
            Some((_, Err(error @ pins::ParsePythonLockError::Newer))) => {
                let file = python_lock_path(name.as_str());
                let what = format!("cannot replace `{file}`");
                Err(Failure::caused(Kind::Input, what, &error)
                    .hint("update build-pipeline; nothing was changed"))
            }
            Some((_, Err(_))) | None => Ok(Content::new()),
        }
    }

    /// Returns the index URL of a set's release.
    fn index_of(&self, set: &PythonSet) -> Result<Option<SourceUrl>, Failure> {
        let url =
            |release: &pins::Release| fetch::mirrored(self.mirrors, &fetch::url(&release.index)?);
        self.release_of(set).map(url).transpose()
    }

    fn release_of(&self, set: &PythonSet) -> Option<&pins::Release> {
        self.pins.releases.get(set.release.as_ref()?)
    }

    /// Returns the requirements of a set, by the file that contains them.
    fn requirements(&self, set: &PythonSet) -> Result<BTreeMap<String, BTreeSet<String>>, Failure> {
        let mut texts = BTreeMap::new();
        let mut own = set.requirements.clone();
        let release = self.release_of(set);
        let packages = release.iter().flat_map(|release| &release.packages);
        own.extend(packages.map(|(package, version)| format!("{package}=={version}")));
        if !own.is_empty() {
            texts.insert(OWN.to_owned(), own);
        }
        let Some(source) = &set.source else { return Ok(texts) };
        let pin = TreePin::find(&self.pins, source.as_str())?;
        let tree = self.fetcher.tree(source.as_str(), pin, Submodules::None)?;
        let mut open = set.files.clone();
        while let Some(file) = open.pop() {
            if texts.contains_key(&file) {
                continue;
            }
            let mut wanted = BTreeSet::new();
            for line in lines(&tree, source, &file)? {
                match line {
                    RequirementLine::Requirement(text) => drop(wanted.insert(text)),
                    RequirementLine::Include(path) => open.push(beside(&file, &path)),
                }
            }
            texts.insert(file, wanted);
        }
        Ok(texts)
    }
}

/// Reads a requirements file of a source.
fn lines(tree: &Tree, pin: &PinName, file: &str) -> Result<Vec<RequirementLine>, Failure> {
    let wrong = |error: &dyn std::error::Error| {
        let what = format!("cannot use `{file}` of pin `{pin}`");
        Failure::caused(Kind::Input, what, error).hint(
            "specify another file in `versions/python.toml`, or list its packages in `requirements`",
        )
    };
    let bytes = tree.read_file(file).map_err(|error| wrong(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    pins::requirements(file, &text).map_err(|error| wrong(&error))
}

/// Resolves the path that a file names, relative to that file.
fn beside(file: &str, path: &str) -> String {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Refuses CUDA packages, and reports which requirements caused them.
fn refuse_cuda(name: &PinName, lock: &PythonLock, reasons: &str) -> Failure {
    let all: Vec<(&str, &str)> =
        lock.for_cuda().map(|(package, project)| (package, project.version.as_str())).collect();
    let is_one = |package: &str| all.iter().any(|(other, _)| *other == package);
    // The CUDA packages that no other CUDA package requires explain all the others.
    let mut chains: Vec<Vec<String>> =
        all.iter().map(|(package, _)| chain(reasons, package)).collect();
    chains.retain(|chain| chain.iter().filter(|one| is_one(one)).count() == 1);
    let (first, version) = chains
        .first()
        .and_then(|chain| {
            all.iter().find(|(package, _)| Some(*package) == chain.last().map(String::as_str))
        })
        .or(all.first())
        .copied()
        .unwrap_or_default();
    let told = Failure::new(
        Kind::Input,
        format!(
            "lock `{name}` would take `{first}` {version} from the default index; that package is for CUDA, or replaces the one for ROCm"
        ),
    );
    let mut causes: Vec<String> = chains.iter().map(|chain| chain.join(" -> ")).collect();
    let others: Vec<&str> = all
        .iter()
        .map(|(package, _)| *package)
        .filter(|package| {
            !chains.iter().any(|chain| chain.last().is_some_and(|last| last == package))
        })
        .collect();
    if !others.is_empty() {
        causes.push(format!("it also adds {}", others.join(", ")));
    }
    Failure { causes, ..told }
        .hint(format!("nothing was written; if the image already contains this package, add the package to `provided` in `[{name}]` in `versions/python.toml`"))
        .hint("wheels for ROCm come from AMD's index, `[release.…]` in `versions/versions.toml`, never from the default index")
}

fn content(lock: &PythonLock) -> Content {
    let one = |(name, project): (&String, &pins::LockedProject)| {
        let files = project.wheels.iter();
        let files = files.map(|wheel| (wheel.file.clone(), wheel.sha256.to_string())).collect();
        (name.clone(), Locked { version: project.version.clone(), files })
    };
    lock.projects.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_found_from_their_own_folder() {
        assert_eq!(beside("requirements/rocm.txt", "common.txt"), "requirements/common.txt");
        assert_eq!(
            beside("requirements/build/rocm.txt", "../common.txt"),
            "requirements/common.txt"
        );
        assert_eq!(beside("a.txt", "./b.txt"), "b.txt");
        // Paths cannot point outside the tree.
        assert_eq!(beside("a.txt", "../../etc/passwd"), "etc/passwd");
    }
}
