//! Writes a record as an SBOM for scanners: what an image was made from, in the format CycloneDX 1.6
//! (<https://cyclonedx.org/docs/1.6/json/>).
//!
//! The same record gives the same bytes: the time is that of the image, and the serial number comes
//! from the content. Every input of the plan is a component, except locks: each of their packages
//! is one. The SBOM does not know what is inside a base, and which of its inputs a Dockerfile keeps
//! in the image; it says so in `compositions`, and in the property [`IN_IMAGE`].

mod document;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use names::{Digest, ImageRef};
use pins::{LockedPackage, PackageLock, ParseError, ParsePythonLockError, PythonLock};
use plan::{Action, Input, OwnFile, PatchUse, Step};

use crate::purl::{self, purl};
use crate::{BuildRecord, Status};
use document::{
    Component, Diff, Evidence, Hash, Lifecycle, Metadata, Occurrence, Patch, Pedigree, Reference,
    Tools,
};

pub use document::Sbom;

/// Whether a component is in the image: `yes`, `no`, or `unknown` if a Dockerfile decides.
const IN_IMAGE: &str = "build-pipeline:in-image";
/// The input of the plan that a component comes from.
const INPUT: &str = "build-pipeline:input";

/// Whether a component is in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum InImage {
    No,
    /// A Dockerfile decides.
    Unknown,
    Yes,
}

/// The reason why there is no SBOM of a run.
#[derive(Debug, thiserror::Error)]
pub enum SbomError {
    /// The run did not succeed, or made no image.
    #[error("the run `{0}` did not end with an image")]
    NoImage(String),
    /// A lock is not available.
    #[error("the packages of the run are unknown: `{path}` is not the file that the run used")]
    NoLock {
        /// Its path from the root of the project.
        path: String,
        /// Its digest.
        digest: Digest,
    },
    /// A package lock cannot be read.
    #[error("cannot read the lock `{path}`")]
    PackageLock {
        /// Its path.
        path: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// A Python lock cannot be read.
    #[error("cannot read the lock `{path}`")]
    PythonLock {
        /// Its path.
        path: String,
        /// What is wrong with it.
        source: ParsePythonLockError,
    },
}

impl BuildRecord {
    /// Returns what the image of the run was made from. `lock_text` returns the text of a lock,
    /// given its path and digest.
    ///
    /// # Errors
    /// The run made no image, or a lock is not available.
    pub fn sbom(
        &self,
        lock_text: impl Fn(&str, &Digest) -> Option<String>,
    ) -> Result<Sbom, SbomError> {
        let image = self.image.as_ref().filter(|_| self.status == Status::Succeeded);
        let Some(image) = image else { return Err(SbomError::NoImage(self.id.clone())) };
        let mut all = Components::new(self);
        for (name, input) in &self.plan.inputs {
            match input {
                Input::Image { reference, .. } => all.base(name, reference),
                Input::Source { .. } | Input::Archive { .. } => all.source(name, input),
                Input::File { digest } => all.file(name, digest),
                Input::Lock { digest } => {
                    let text = lock_text(name, digest).ok_or_else(|| SbomError::NoLock {
                        path: name.clone(),
                        digest: digest.clone(),
                    })?;
                    all.lock(name, &text)?;
                }
            }
        }
        let subject = self.subject(&image.manifest_digest);
        all.lists.entry(all.of_image).or_default().push(subject.bom_ref.clone());
        let tool = Component {
            kind: "application",
            name: "build-pipeline".to_owned(),
            version: self.tool_version.clone(),
            ..Component::default()
        };
        let metadata = Metadata {
            timestamp: self.plan.image_edit().created.clone(),
            lifecycles: [Lifecycle { phase: "build" }],
            tools: Tools { components: [tool] },
            component: subject,
        };
        let components = all.components.into_values().map(|(one, in_image)| {
            let word = match in_image {
                InImage::No => "no",
                InImage::Unknown => "unknown",
                InImage::Yes => "yes",
            };
            one.with(IN_IMAGE, word)
        });
        let components = components.collect();
        Ok(Sbom::new(metadata, components, all.lists))
    }

    /// Returns the image, named as the first registry that has it, or as its track.
    fn subject(&self, digest: &Digest) -> Component {
        let references = self.registry_references();
        let first = references.first().and_then(|name| name.parse::<ImageRef>().ok());
        let plan = &self.plan;
        let package_url = first.map_or_else(
            || purl("oci", "", &plan.name, digest.as_str(), &[]),
            |one| purl::image(&one.repository, one.tag.as_ref(), digest),
        );
        let component = Component {
            kind: "container",
            bom_ref: package_url.clone(),
            name: references.first().map_or(plan.name.as_str(), |name| *name).to_owned(),
            version: digest.to_string(),
            hashes: vec![Hash::sha256(digest.hex())],
            purl: package_url,
            ..Component::default()
        };
        component
            .with("build-pipeline:track", &plan.track)
            .with("build-pipeline:gpu", plan.gpu.to_string())
            .with("build-pipeline:rehearsal", plan.rehearsal.to_string())
            .with("build-pipeline:plan-digest", self.plan_digest.to_string())
    }
}

/// The components of an SBOM.
struct Components<'a> {
    record: &'a BuildRecord,
    /// By `bom-ref`: the name of the input, or the package URL of a package of a lock.
    components: BTreeMap<String, (Component, InImage)>,
    /// Whether the parts of components are listed.
    lists: BTreeMap<&'static str, Vec<String>>,
    /// Whether the parts of the image are listed.
    of_image: &'static str,
}

impl<'a> Components<'a> {
    fn new(record: &'a BuildRecord) -> Self {
        // Nothing lists the packages that come over the network.
        let is_open = |action: &Action| matches!(action, Action::BuildImage { network: true, .. });
        let is_open = record.plan.steps.iter().any(|step| is_open(&step.action));
        let of_image = if is_open { "incomplete" } else { "complete" };
        Self { record, components: BTreeMap::new(), lists: BTreeMap::new(), of_image }
    }

    fn actions(&self) -> impl Iterator<Item = &'a Action> + use<'a> {
        self.record.plan.steps.iter().map(|step| &step.action)
    }

    /// Adds a component. A package that is in several locks becomes one component.
    fn add(&mut self, component: Component, in_image: InImage) {
        match self.components.entry(component.bom_ref.clone()) {
            Entry::Vacant(place) => {
                place.insert((component, in_image));
            }
            Entry::Occupied(mut place) => {
                let (known, known_in_image) = place.get_mut();
                known.merge(component);
                *known_in_image = in_image.max(*known_in_image);
            }
        }
    }

    /// Adds a base. The packages in it are not listed.
    fn base(&mut self, name: &str, reference: &ImageRef) {
        let ImageRef { repository, tag, digest } = reference;
        let Some(digest) = digest else { return };
        let component = Component {
            kind: "container",
            bom_ref: name.to_owned(),
            name: repository.to_string(),
            version: digest.to_string(),
            hashes: vec![Hash::sha256(digest.hex())],
            purl: purl::image(repository, tag.as_ref(), digest),
            ..Component::default()
        };
        self.lists.entry("incomplete").or_default().push(name.to_owned());
        self.add(component, InImage::Yes);
    }

    /// Adds a commit or a release archive, with its patches. What it contains is not listed.
    fn source(&mut self, name: &str, input: &Input) {
        let mut component =
            Component { kind: "library", bom_ref: name.to_owned(), ..<_>::default() };
        match input {
            Input::Source { url, commit, version } => {
                let (plain, address) = (url.trim_end_matches('/'), url.clone());
                let last = plain.rsplit('/').next().unwrap_or_default();
                last.trim_end_matches(".git").clone_into(&mut component.name);
                component.version = commit.to_string();
                component.purl = purl::commit(url, commit.as_str());
                component.external_references.push(Reference { kind: "vcs", url: address });
                if let Some(version) = version {
                    component = component.with("build-pipeline:version", version);
                }
            }
            Input::Archive { project, version, sha256, subdirectory } => {
                component.name.clone_from(project);
                component.version.clone_from(version);
                component.hashes.push(Hash::sha256(sha256.to_string()));
                component.purl = purl::python(project, version);
                component.external_references.push(python_page(project));
                if let Some(folder) = subdirectory {
                    component = component.with("build-pipeline:subdirectory", folder);
                }
            }
            Input::Image { .. } | Input::Lock { .. } | Input::File { .. } => return,
        }
        let patches = self.actions().filter_map(|action| match action {
            Action::FetchSource { input: its, patches } if its == name => Some(patches),
            _ => None,
        });
        let patch = |one: &PatchUse| Patch {
            kind: "unofficial",
            diff: Diff { url: format!("patches/{}/{}.toml", one.component, one.id) },
        };
        let patches: Vec<Patch> = patches.flatten().map(patch).collect();
        component.pedigree = (!patches.is_empty()).then_some(Pedigree { patches });
        self.lists.entry("unknown").or_default().push(name.to_owned());
        self.add(component.with(INPUT, name), InImage::Unknown);
    }

    /// Adds a file of the project: in the image, in a build context, or a Dockerfile.
    fn file(&mut self, name: &str, digest: &Digest) {
        let mut places = BTreeSet::new();
        let mut in_image = InImage::No;
        for action in self.actions() {
            let is_it = |file: &OwnFile| matches!(file, OwnFile::File { from, .. } if from == name);
            let files = action.files().into_iter().flatten();
            let paths: Vec<_> =
                files.filter(|(_, file)| is_it(file)).map(|(path, _)| path).collect();
            match action {
                _ if paths.is_empty() => {}
                Action::AddFiles { .. } => {
                    places.extend(paths.into_iter().cloned());
                    in_image = InImage::Yes;
                }
                _ => in_image = in_image.max(InImage::Unknown),
            }
        }
        let occurrences: Vec<_> =
            places.into_iter().map(|location| Occurrence { location }).collect();
        let component = Component {
            kind: "file",
            bom_ref: name.to_owned(),
            name: name.to_owned(),
            scope: (in_image == InImage::No).then_some("excluded"),
            hashes: vec![Hash::sha256(digest.hex())],
            evidence: (!occurrences.is_empty()).then_some(Evidence { occurrences }),
            ..Component::default()
        };
        self.add(component, in_image);
    }

    /// Adds the packages of a lock that the run fetched.
    fn lock(&mut self, path: &str, text: &str) -> Result<(), SbomError> {
        for Step { id, action } in &self.record.plan.steps {
            match action {
                Action::FetchPackages { input, sets } if input == path => {
                    let lock = pins::parse_package_lock(path, text).map_err(|source| {
                        SbomError::PackageLock { path: path.to_owned(), source }
                    })?;
                    self.packages(path, &lock, id, sets.keys());
                }
                Action::FetchWheels { input } if input == path => {
                    let lock = PythonLock::parse(text, None).map_err(|source| {
                        SbomError::PythonLock { path: path.to_owned(), source }
                    })?;
                    self.wheels(path, &lock);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the packages in `sets` of a lock, which the step `step` fetches.
    fn packages<'b>(
        &mut self,
        path: &str,
        lock: &PackageLock,
        step: &str,
        sets: impl Iterator<Item = &'b String>,
    ) {
        let bases = self.actions().filter_map(|action| match action {
            Action::BootstrapBase { packages, set, .. } if packages == step => Some(set),
            _ => None,
        });
        let closure = |set: &String| lock.closure(set).unwrap_or_default();
        let installed: BTreeSet<&LockedPackage> = bases.flat_map(closure).collect();
        let all: BTreeSet<&LockedPackage> = sets.flat_map(closure).collect();
        let release = release_of(lock);
        for package in all {
            let is_installed = installed.contains(package);
            let in_image = if is_installed { InImage::Yes } else { InImage::Unknown };
            self.add(debian_package(package, &release, path), in_image);
        }
        if !installed.is_empty() {
            // Scanners look up the packages in the advisories of this release.
            let component = Component {
                kind: "operating-system",
                bom_ref: format!("debian-{release}"),
                name: "debian".to_owned(),
                version: release,
                ..Component::default()
            };
            self.add(component.with(INPUT, path), InImage::Yes);
        }
    }

    fn wheels(&mut self, path: &str, lock: &PythonLock) {
        for (name, project) in &lock.projects {
            let package_url = purl::python(name, &project.version);
            let mut component = Component {
                kind: "library",
                bom_ref: package_url.clone(),
                name: name.clone(),
                version: project.version.clone(),
                purl: package_url,
                ..Component::default()
            };
            // If there are several files, pip chooses one of them.
            if let [wheel] = project.wheels.as_slice() {
                component.hashes.push(Hash::sha256(wheel.sha256.to_string()));
            }
            // A project of a lock with its own index can come from either index.
            match &lock.index {
                None => component.external_references.push(python_page(name)),
                Some(index) => component = component.with("build-pipeline:index", index),
            }
            for wheel in &project.wheels {
                let file = format!("{} sha256:{}", wheel.file, wheel.sha256);
                component = component.with("build-pipeline:file", file);
            }
            self.add(component.with(INPUT, path), InImage::Unknown);
        }
    }
}

fn debian_package(package: &LockedPackage, release: &str, path: &str) -> Component {
    let source = Some(package.source()).filter(|source| *source != package.name);
    let distro = format!("debian-{release}");
    // Advisories of Debian are about source packages; syft, grype and others read `upstream`.
    let qualifiers = [
        ("arch", package.architecture.as_str()),
        ("distro", &distro),
        ("upstream", source.unwrap_or_default()),
    ];
    let package_url = purl("deb", "debian", &package.name, &package.version, &qualifiers);
    let component = Component {
        kind: "library",
        bom_ref: package_url.clone(),
        name: package.name.clone(),
        version: package.version.clone(),
        hashes: vec![Hash::sha256(package.sha256.to_string())],
        purl: package_url,
        external_references: vec![Reference {
            kind: "distribution",
            url: package.public_address(),
        }],
        ..Component::default()
    };
    // trivy reads the source package only from its own property.
    let component = component.with("aquasecurity:trivy:SrcName", package.source());
    component.with(INPUT, path)
}

/// Returns the version of the Debian release, which `base-files` has, or the name of the suite if
/// there is no release of it.
fn release_of(lock: &PackageLock) -> String {
    let mut packages = lock.sets.values().flat_map(|set| &set.packages);
    let base = packages.find(|package| package.name == "base-files");
    let major = base.and_then(|base| base.version.split(|c: char| !c.is_ascii_digit()).next());
    let is_rolling = ["sid", "unstable", "experimental"].contains(&lock.suite.as_str());
    match major {
        Some(major) if !is_rolling && !major.is_empty() => major.to_owned(),
        _ => lock.suite.clone(),
    }
}

/// Returns the page of a project with the addresses of its files.
fn python_page(project: &str) -> Reference {
    let url = format!("https://pypi.org/simple/{}/", pins::normalised(project));
    Reference { kind: "distribution", url }
}
