//! Turns a request into a plan. `plan`, `build`, `verify`, `explain` and the home screen all get
//! their plans here, so that they agree.
//!
//! [`prepare`] reads the request, resolves tags and makes the plans. [`Preparer::plan`] makes
//! one plan. It reads the data files, and those patches, Dockerfiles and locks that the plan needs,
//! each once. The result depends only on the request and on the content of those files.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use executor::Materials;
use failure::{Failure, Kind};
use names::{Digest, TrackName};
use oci::stand_in::StandIn;
use plan::{Plan, Revision, labels};
use planner::{PlanError, Planned, PlanningInput, Warning};
use record::{Place, Recipe};

use crate::folder::{DATA_FILES, Project, TRACKS};
use crate::mirrors::Mirrors;
use crate::own_files::{self, ReadFiles};
use crate::request::{self, PendingRequest, RevisionChoice, Subject};
use crate::{advice, built_in, patches, recipe, registry, rehearsal, runtime, state};

/// A plan with its warnings and its input files.
#[derive(Debug)]
pub struct Prepared {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Warnings for the user before the plan runs.
    pub warnings: Vec<Warning>,
    /// The files that the plan was made from.
    files: recipe::Files,
    root: PathBuf,
    /// The image that replaces the base, if the plan is a rehearsal of metadata.
    pub stand_in: Option<StandIn>,
    /// Labels whose values came from an image because this project cannot confirm them.
    pub unconfirmed: Vec<Unconfirmed>,
}

impl Prepared {
    /// Asks git about the history of the plan's files. The plan does not depend on it.
    pub fn recipe(&self) -> Recipe {
        recipe::read(&self.root, self.files.clone())
    }

    /// Returns where a build of the plan takes place.
    pub fn place(&self) -> Option<Place> {
        let folder = std::env::current_dir().ok()?.display().to_string();
        Some(Place { project: state::name_of(&self.root), folder })
    }
}

/// A label that this project cannot confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The name of the label.
    pub label: &'static str,
    /// Why it cannot be confirmed.
    pub why: &'static str,
}

/// Plans that run together.
#[derive(Debug)]
pub struct Preparation {
    /// The plans, in the order of the request.
    pub plans: Vec<Prepared>,
    /// The texts that the plans refer to by digest.
    pub materials: Arc<Materials>,
}

/// Makes the plans of a subject. Contacts registries only to resolve tags.
///
/// # Errors
/// The request or a file of the project is wrong, a tag cannot be resolved, or a pin that a
/// plan needs is unresolved.
pub fn prepare(
    mirrors: &Mirrors,
    project: &Project,
    subject: &Subject,
) -> Result<Preparation, Failure> {
    let mut preparer = Preparer::new(project)?;
    let mut pending = request::read(subject, &preparer.input)?;
    if pending.iter().any(|one| !one.tags.is_empty()) {
        let client = registry::client(mirrors)?;
        runtime::start()?.block_on(async {
            for one in &mut pending {
                request::resolve(one, &preparer.input, &client).await?;
            }
            Ok::<_, Failure>(())
        })?;
    }
    let mut plans = Vec::new();
    for one in pending {
        plans.push(preparer.plan(one)?);
    }
    Ok(Preparation { plans, materials: preparer.into_materials() })
}

/// Makes plans from the files of one project.
#[derive(Debug)]
pub struct Preparer<'a> {
    project: &'a Project,
    /// What the files read so far contain.
    pub input: PlanningInput,
    materials: Materials,
}

impl<'a> Preparer<'a> {
    /// Reads the data files.
    ///
    /// # Errors
    /// A data file cannot be read or is wrong.
    pub fn new(project: &'a Project) -> Result<Self, Failure> {
        Ok(Self { project, input: project.data()?, materials: Materials::default() })
    }

    /// Returns the texts of all plans made so far.
    pub fn into_materials(self) -> Arc<Materials> {
        Arc::new(Materials { patches: self.input.patches, ..self.materials })
    }

    /// Makes the plan of a request whose tags are already resolved.
    ///
    /// # Errors
    /// A file is missing or wrong, or the project has no such plan.
    pub fn plan(&mut self, pending: PendingRequest) -> Result<Prepared, Failure> {
        let PendingRequest { mut request, revision, of_image, .. } = pending;
        let refused = |error: PlanError| refused(error, of_image.as_deref());
        let stand_in = rehearsal::stand_in(&mut request, &self.input);
        let needs = planner::needs(&request, &self.input).map_err(refused)?;
        self.read(&needs)?;
        let mut planned = planner::plan(&request, &self.input).map_err(refused)?;
        let files = self.files_of(&planned.plan, &needs)?;
        let root = self.project.root.clone();
        let recipe = || recipe::read(&root, files.clone());
        let mut unconfirmed = Vec::new();
        request.revision = match revision {
            RevisionChoice::Absent => None,
            RevisionChoice::OfFiles => Some(own_revision(&recipe())?),
            RevisionChoice::OfImage(claimed) => {
                let recipe = recipe();
                unconfirmed = self.unconfirmed(&claimed, &recipe);
                Some(self.checked_revision(claimed, &recipe))
            }
        };
        if request.revision.is_some() {
            planned = planner::plan(&request, &self.input).map_err(refused)?;
        }
        let Planned { plan, mut warnings } = planned;
        advice::check_locks(self.project, &plan, &self.input.pins)?;
        warnings.extend(advice::advise(self.project, &plan, &self.input.pins)?);
        Ok(Prepared { plan: Arc::new(plan), warnings, files, root, stand_in, unconfirmed })
    }

    /// Reads the other files that a plan needs. Leaves missing files to the planner, which knows
    /// why they are needed.
    fn read(&mut self, needs: &planner::Needs) -> Result<(), Failure> {
        self.read_own_files(needs)?;
        for component in &needs.components {
            if !self.input.patches.contains_key(component) {
                let set = patches::read_set(self.project, component)?;
                self.input.patches.insert(component.clone(), set);
            }
        }
        for file in &needs.files {
            if self.project.has(file) && !self.input.files.contains_key(file) {
                let text = self.project.told_text(file)?;
                self.input.files.insert(file.clone(), Digest::of(text.as_bytes()));
                if needs.package_locks.contains(file) {
                    let lock = self.project.parse(file, pins::parse_package_lock)?;
                    let digests = lock
                        .sets
                        .keys()
                        .filter_map(|set| Some((set.to_string(), lock.digest_of(set.as_str())?)));
                    self.input.sets.insert(file.clone(), digests.collect());
                }
                self.materials.files.insert(file.clone(), text);
            }
        }
        Ok(())
    }

    /// Reads the own files of the tracks that a plan is made from.
    fn read_own_files(&mut self, needs: &planner::Needs) -> Result<(), Failure> {
        let own = |name: &&TrackName| !self.input.own_files.contains_key(*name);
        let tracks = needs.own_files.iter().filter(own);
        let tracks: Vec<_> =
            tracks.filter_map(|name| self.input.tracks.tracks.get_key_value(name)).collect();
        if tracks.is_empty() {
            return Ok(());
        }
        let text = self.project.told_text(TRACKS)?;
        let ReadFiles { tracks, places } =
            own_files::read(&self.project.root, TRACKS, &text, &tracks)?;
        self.input.own_files.extend(tracks);
        self.materials.own_files.extend(places);
        Ok(())
    }

    /// Returns the files that a plan was made from, with their digests.
    fn files_of(&self, plan: &Plan, needs: &planner::Needs) -> Result<recipe::Files, Failure> {
        let mut names: BTreeSet<String> = DATA_FILES.map(str::to_owned).into();
        names.extend(needs.files.iter().cloned());
        let patches = plan.patches().into_iter();
        names.extend(patches.map(|patch| patches::file_of(&patch.component, &patch.id)));
        let mut files = recipe::Files::new();
        for name in names {
            if self.project.has_own(&name) {
                let text = self.project.told_text(&name)?;
                files.insert(name.clone(), Digest::of(text.as_bytes()));
                if !DATA_FILES.contains(&name.as_str()) || !self.project.reads_built_in(&name) {
                    continue;
                }
            }
            let text = built_in::text(&name).unwrap_or_default();
            files.insert(format!("{}{name}", recipe::BUILT_IN), Digest::of(text.as_bytes()));
        }
        for track in needs.own_files.iter().filter_map(|name| self.input.own_files.get(name)) {
            let digests = track.digests.iter();
            files.extend(
                digests.map(|(name, digest)| (own_files::path_of(name).to_owned(), digest.clone())),
            );
        }
        Ok(files)
    }

    /// Returns the labels about the image's commit that this project cannot confirm.
    fn unconfirmed(&self, claimed: &Revision, recipe: &Recipe) -> Vec<Unconfirmed> {
        let mut all = Vec::new();
        if recipe::has_commit(&self.project.root, &claimed.commit).is_none() {
            let why = "the git history of this project is incomplete; use a full clone";
            all.extend([labels::REVISION, labels::VCS_REF].map(|label| Unconfirmed { label, why }));
        }
        if claimed.url.is_some() && claimed.url != recipe.url {
            let why = "it is not the address of this project's remote `origin`";
            all.push(Unconfirmed { label: labels::SOURCE, why });
        }
        all
    }

    /// Returns the commit that an image names. If the project's history does not contain it,
    /// returns the commit that the project itself would name.
    fn checked_revision(&self, claimed: Revision, recipe: &Recipe) -> Revision {
        let is_denied = recipe::has_commit(&self.project.root, &claimed.commit) == Some(false);
        match &recipe.commit {
            Some(commit) if is_denied => Revision { commit: commit.clone(), ..claimed },
            _ => claimed,
        }
    }
}

/// Turns an error of the planner into a command error. If the labels of an image request something
/// that no build produces, the image is at fault, not the command.
fn refused(error: PlanError, of_image: Option<&str>) -> Failure {
    let is_of_request = matches!(
        error,
        PlanError::NoSettings { .. }
            | PlanError::UnknownVariant { .. }
            | PlanError::NoVariants { .. }
            | PlanError::RehearsedOtherwise { .. }
            | PlanError::NoRehearsal { .. }
            | PlanError::UnknownPin { .. }
            | PlanError::UnusedPin { .. }
            | PlanError::UnknownGpu { .. }
            | PlanError::UnknownSlimGpu { .. }
            | PlanError::NotASpoofTrack { .. }
            | PlanError::Epoch(_)
            | PlanError::Invalid { .. }
    );
    match of_image {
        Some(image) if is_of_request => {
            let what = format!("no build of this project would produce the labels of `{image}`");
            Failure::caused(Kind::Differs, what, &error)
                .hint("the labels were changed, or another project built the image")
        }
        _ => error.into(),
    }
}

/// Returns the commit that last changed a file of the plan.
fn own_revision(recipe: &Recipe) -> Result<Revision, Failure> {
    let refuse = |why: String| {
        Failure::new(Kind::Input, format!("cannot label the image with a commit: {why}"))
    };
    let Some(commit) = &recipe.commit else {
        let why = recipe.unknown.clone().unwrap_or_else(|| "the commit is unknown".to_owned());
        return Err(
            refuse(why).hint("leave out `--label-revision`; the image is otherwise the same")
        );
    };
    if !recipe.modified.is_empty() {
        let files = recipe.modified.join("`, `");
        return Err(refuse(format!("`{files}` has uncommitted changes"))
            .hint("commit the changes, or leave out `--label-revision`"));
    }
    Ok(Revision { url: recipe.url.clone(), commit: commit.clone() })
}
