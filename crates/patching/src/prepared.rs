//! Determines the tree to patch, its version, the patches, and the GPU target.
//!
//! A tree is a directory, or the fetched source of a pin.

use std::collections::BTreeMap;
use std::path::Path;

use executor::{Confinement, Tools};
use failure::{Failure, Kind};
use names::Version;
use names::{GpuTarget, Sha256};
use patcher::{NoProbes, Outcome, PatchSet, Probes, Subject, Tree, TreePath};
use project::fetch::{Fetcher, TreePin};
use project::{Project, environment, patches};
use sources::{Sources, Submodules};

use crate::directory::Directory;
use crate::pinned::PinnedTree;
use crate::receipts::ReceiptList;
use crate::rooted::Rooted;
use crate::version;

/// The patches to try, and the tree.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// The patches to try; if empty, all patches of the component.
    pub only: &'a [String],
    /// The pin whose source to patch, or `None` for the component's pin.
    pub pin: Option<&'a str>,
    /// The version of the tree, or `None` to take it from the pin or from the tree's packaging.
    pub version: Option<&'a str>,
    /// The GPU target, or `None` for the project's target.
    pub gpu: Option<&'a str>,
}

/// Whether to run the probes of patches, which execute code of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunProbes {
    /// Confined, or not at all.
    Confined,
    /// Confined if this machine allows it, otherwise with all privileges of this process.
    ConfinedIfPossible,
    /// Not at all.
    No,
}

impl RunProbes {
    /// Returns the runner for the probes.
    pub fn runner(self) -> Box<dyn Probes> {
        let tools = || Tools::new(&environment::program_path());
        match self {
            Self::Confined => Box::new(tools()),
            Self::ConfinedIfPossible => Box::new(tools().with_confinement(Confinement::Preferred)),
            Self::No => Box::new(NoProbes),
        }
    }
}

/// Everything that is needed to try a patch.
#[derive(Debug)]
pub struct Prepared<T> {
    /// The component.
    pub component: String,
    /// Its patches.
    pub set: PatchSet,
    /// The GPU target.
    pub gpu: GpuTarget,
    /// The version of the tree, if it has one.
    pub version: Option<version::Found>,
    /// The receipts of patches that were applied to the tree before.
    pub receipt_list: ReceiptList,
    /// The tree.
    pub tree: T,
    /// Whether the tree is known to be unchanged from upstream.
    is_pristine: bool,
    base: BTreeMap<TreePath, Sha256>,
}

impl Prepared<PinnedTree> {
    /// Prepares the patches of a component for the source of a pin, which is fetched with
    /// `sources`.
    ///
    /// # Errors
    /// Fails if `wanted` or a patch file is invalid, or if the source cannot be fetched.
    pub fn pinned(
        sources: impl FnOnce() -> Result<Sources, Failure>,
        project: &Project,
        component: &str,
        wanted: Wanted<'_>,
        submodules: Submodules,
    ) -> Result<Self, Failure> {
        let all = patches::read(project, component)?;
        let set = patches::select(all, wanted.only)?;
        let gpu = gpu(project, wanted.gpu)?;
        let pins = project.pins()?;
        let (name, pin) = pin_of(&pins, component, wanted.pin)?;
        let tree = Fetcher::new(sources()?)?.tree(name, pin, submodules);
        let tree = tree.map_err(|failure| with_archives(failure, pin))?;
        let tree = PinnedTree::new(tree, format!("pin {name} ({})", pin.what()));
        let stated = pin.version().and_then(|version| version.parse().ok());
        let stated = stated.map(|version| version::Found { version, from: format!("pin {name}") });
        let version = version_of(&tree, component, &set, wanted, stated)?;
        let (receipt_list, base) = (ReceiptList::empty(), BTreeMap::new());
        let component = component.to_owned();
        Ok(Self { component, set, gpu, version, receipt_list, tree, is_pristine: true, base })
    }
}

impl Prepared<Directory> {
    /// Prepares the patches of a component for the directory at `root`, which is relative to
    /// `here`.
    ///
    /// # Errors
    /// Fails if `wanted` or a patch file is invalid, or if the directory cannot be read.
    pub fn new(
        here: &Path,
        project: &Project,
        component: &str,
        wanted: Wanted<'_>,
        root: &Path,
    ) -> Result<Self, Failure> {
        let all = patches::read(project, component)?;
        let set = patches::select(all, wanted.only)?;
        let directory = open(here, root)?;
        let gpu = gpu(project, wanted.gpu)?;
        let version = version_of(&directory, component, &set, wanted, None)?;
        Self::in_directory(component, set, gpu, version, directory)
    }

    /// Prepares a set of patches for a directory.
    ///
    /// # Errors
    /// Fails if the receipts in the directory cannot be read.
    pub fn in_directory(
        component: &str,
        set: PatchSet,
        gpu: GpuTarget,
        version: Option<version::Found>,
        directory: Directory,
    ) -> Result<Self, Failure> {
        let receipt_list = ReceiptList::read(&directory)?;
        let base = version::untouched(&directory, component, set.patches());
        let component = component.to_owned();
        let (tree, is_pristine) = (directory, false);
        Ok(Self { component, set, gpu, version, receipt_list, tree, is_pristine, base })
    }

    /// Rereads the data that another run may have changed before the tree was locked, and removes
    /// leftovers of a killed run.
    ///
    /// # Errors
    /// Fails if the receipts in the directory cannot be read.
    pub fn refresh(&mut self) -> Result<(), Failure> {
        ReceiptList::sweep(&self.tree);
        let edits = self.set.patches().iter().flat_map(|patch| &patch.edits);
        self.tree.sweep(edits.flat_map(|edit| &edit.files));
        self.receipt_list = ReceiptList::read(&self.tree)?;
        self.tree.sweep(self.receipt_list.files());
        self.base = version::untouched(&self.tree, &self.component, self.set.patches());
        Ok(())
    }
}

impl<T: Rooted> Prepared<T> {
    /// Returns the known facts about the tree.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            gpu: &self.gpu,
            version: self.version.as_ref().map(|found| &found.version),
            build_env: None,
            is_pristine: self.is_pristine,
            base: &self.base,
            receipts: &self.receipt_list.receipts,
        }
    }

    /// Computes the effect of the patches on the tree.
    pub fn outcome(&self, probes: RunProbes) -> Outcome {
        patcher::apply(&self.set, &self.subject(), self.tree(), &*probes.runner())
    }

    /// Returns the tree.
    fn tree(&self) -> &dyn Tree {
        &self.tree
    }
}

/// Returns the pin whose source to patch: the given pin, else the component's pin with the same
/// name as the component, else the component's only pin.
fn pin_of<'a>(
    pins: &'a pins::Pins,
    component: &str,
    asked: Option<&'a str>,
) -> Result<(&'a str, TreePin<'a>), Failure> {
    if let Some(name) = asked {
        return Ok((name, TreePin::find(pins, name)?));
    }
    let of_component = TreePin::of_component(pins, component);
    let name = component.replace('.', "-");
    if let Some((name, pin)) = of_component.get_key_value(name.as_str()) {
        return Ok((name, *pin));
    }
    let names: Vec<&str> = of_component.keys().copied().collect();
    match names[..] {
        [only] => Ok((only, of_component[only])),
        [] => Err(Failure::new(
            Kind::Input,
            format!("no pin uses `patches = \"{component}\"`, and no tree was given"),
        )
        .hint("use `--root DIR`")),
        [first, ..] => Err(Failure::new(
            Kind::Input,
            format!("several pins use the patches of `{component}`: {}", names.join(", ")),
        )
        .hint(format!("specify one: `--pin {first}`"))),
    }
}

/// Fetches the source of the pin `name` with `sources`.
///
/// # Errors
/// Fails if there is no such pin, if it is unresolved, or if it cannot be fetched.
pub(crate) fn fetch(
    sources: impl FnOnce() -> Result<Sources, Failure>,
    project: &Project,
    name: &str,
) -> Result<PinnedTree, Failure> {
    let pins = project.pins()?;
    let pin = TreePin::find(&pins, name)?;
    let tree = Fetcher::new(sources()?)?.tree(name, pin, Submodules::None);
    let tree = tree.map_err(|failure| with_archives(failure, pin))?;
    Ok(PinnedTree::new(tree, format!("pin {name} ({})", pin.what())))
}

/// Adds the hint that not all sources come from git servers.
pub(crate) fn with_archives(failure: Failure, pin: TreePin<'_>) -> Failure {
    match (pin, failure.kind) {
        (TreePin::Git(_), Kind::Network) => {
            failure.hint("`--pin NAME` can also name a release archive from a package index")
        }
        _ => failure,
    }
}

/// Opens a directory that was given on the command line.
///
/// # Errors
/// Fails if it is not a directory.
pub fn open(here: &Path, root: &Path) -> Result<Directory, Failure> {
    Directory::open(&here.join(root)).map_err(|error| {
        Failure::caused(
            Kind::Input,
            format!("`{}` is not a folder that can be read", root.display()),
            &error,
        )
        .hint("pass the folder that contains the unpacked sources or the installed packages")
    })
}

/// Parses `--gpu`, or returns the project's target.
///
/// # Errors
/// Fails if `asked` is not the name of a known target.
pub(crate) fn gpu(project: &Project, asked: Option<&str>) -> Result<GpuTarget, Failure> {
    match asked {
        None => project.default_gpu(),
        Some(text) => project.known_gpu(text),
    }
}

fn version_of(
    tree: &dyn Rooted,
    component: &str,
    set: &PatchSet,
    wanted: Wanted<'_>,
    stated: Option<version::Found>,
) -> Result<Option<version::Found>, Failure> {
    if let Some(text) = wanted.version {
        let version = text.parse::<Version>().map_err(|error| {
            Failure::from_chain(Kind::Input, &error).hint("use `--version 0.11.0`")
        })?;
        return Ok(Some(version::Found { version, from: "--version".to_owned() }));
    }
    match stated.or_else(|| version::detect(tree, component)) {
        None if version::is_needed(set.patches()) => Err(Failure::new(
            Kind::Input,
            format!("cannot determine the version of `{component}` in {}", tree.shown()),
        )
        .hint("specify it with `--version VERSION`")),
        found => {
            if let Some(found) = &found {
                version::check_exact(found, set.patches())?;
            }
            Ok(found)
        }
    }
}
