//! From a request to a plan, in one place: `plan`, `build`, `verify`, `explain` and the home screen
//! all get their plans here, so that they agree.
//!
//! [`prepare`] reads the command line, resolves tags and makes the plans. [`Preparer::plan`] makes one
//! plan. It reads the data files, and of patches, Dockerfiles and locks those that this plan needs,
//! each once. The result is a function of the request and of the content of those files.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use executor::Materials;
use names::Digest;
use oci::stand_in::StandIn;
use plan::{Plan, Revision, labels};
use planner::{PlanError, Planned, PlanningInput, Warning};
use record::Recipe;

use crate::cli::{Global, Subject};
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::patching::patches;
use crate::project::{DATA_FILES, Project};
use crate::request::{self, PendingRequest, RevisionChoice};
use crate::{advice, mirrors, recipe, registry, rehearsal};

/// A plan, and what is known about it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Arc<Plan>,
    /// What a person should know before the plan runs.
    pub(crate) warnings: Vec<Warning>,
    /// The files that it was made from.
    files: recipe::Files,
    root: PathBuf,
    /// The image that takes the place of the base, where the plan is a rehearsal of metadata.
    pub(crate) stand_in: Option<StandIn>,
    /// The labels whose values were taken from an image, because this project cannot confirm them.
    pub(crate) unconfirmed: Vec<Unconfirmed>,
}

impl Prepared {
    /// Asks git where the files of the plan are in the history of the project. The plan does not
    /// depend on it.
    pub(crate) fn recipe(&self) -> Recipe {
        recipe::read(&self.root, self.files.clone())
    }
}

/// A label that this project cannot confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unconfirmed {
    pub(crate) label: &'static str,
    pub(crate) why: &'static str,
}

/// Plans that are carried out together.
#[derive(Debug)]
pub(crate) struct Preparation {
    pub(crate) plans: Vec<Prepared>,
    /// The texts that the plans name by their digests.
    pub(crate) materials: Arc<Materials>,
}

/// Makes the plans of the command line. Registries are asked only where a tag must be resolved.
///
/// # Errors
/// The command line or a file of the project is wrong, a tag cannot be resolved, or a pin that a plan
/// needs is unresolved.
pub(crate) fn prepare(
    global: &Global,
    project: &Project,
    subject: &Subject,
) -> Result<Preparation, CommandError> {
    // A mirror that cannot be used is an error, also where nothing is fetched.
    mirrors::read(global)?;
    let mut preparer = Preparer::new(project)?;
    let mut pending = request::read(subject, &preparer.input)?;
    if pending.iter().any(|one| !one.tags.is_empty()) {
        let client = registry::client(global)?;
        crate::runtime()?.block_on(async {
            for one in &mut pending {
                request::resolve(one, &preparer.input, &client).await?;
            }
            Ok::<_, CommandError>(())
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
pub(crate) struct Preparer<'a> {
    project: &'a Project,
    pub(crate) input: PlanningInput,
    materials: Materials,
}

impl<'a> Preparer<'a> {
    /// Reads the data files.
    pub(crate) fn new(project: &'a Project) -> Result<Self, CommandError> {
        Ok(Self { project, input: project.data()?, materials: Materials::default() })
    }

    /// Returns the texts of all plans that were made.
    pub(crate) fn into_materials(self) -> Arc<Materials> {
        Arc::new(Materials { patches: self.input.patches, ..self.materials })
    }

    /// Makes the plan of a request whose tags are resolved.
    pub(crate) fn plan(&mut self, pending: PendingRequest) -> Result<Prepared, CommandError> {
        let PendingRequest { mut request, revision, of_image, .. } = pending;
        let refused = |error: PlanError| refused(error, of_image.as_deref());
        let stand_in = rehearsal::stand_in(&mut request, &self.input)?;
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

    /// Reads what a plan needs beside the data files. A file that is missing is left to the planner,
    /// which knows what it is needed for.
    fn read(&mut self, needs: &planner::Needs) -> Result<(), CommandError> {
        for component in &needs.components {
            if !self.input.patches.contains_key(component) {
                let set = patches::read_set(self.project, component)?;
                self.input.patches.insert(component.clone(), set);
            }
        }
        for file in &needs.files {
            if self.project.root.join(file).exists() && !self.input.files.contains_key(file) {
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

    /// Returns the files that a plan was made from, with their digests.
    fn files_of(&self, plan: &Plan, needs: &planner::Needs) -> Result<recipe::Files, CommandError> {
        let mut names: BTreeSet<String> = DATA_FILES.map(str::to_owned).into();
        names.extend(needs.files.iter().cloned());
        let patches = plan.patches().into_iter();
        names.extend(patches.map(|patch| patches::file_of(&patch.component, &patch.id)));
        let digest = |name: String| {
            let text = self.project.told_text(&name)?;
            Ok((name, Digest::of(text.as_bytes())))
        };
        names.into_iter().map(digest).collect()
    }

    /// Returns what this project cannot say about the commit that an image names.
    fn unconfirmed(&self, claimed: &Revision, recipe: &Recipe) -> Vec<Unconfirmed> {
        let mut all = Vec::new();
        if recipe::has_commit(&self.project.root, &claimed.commit).is_none() {
            let why = "the history of this project cannot tell; a full clone can";
            all.extend([labels::REVISION, labels::VCS_REF].map(|label| Unconfirmed { label, why }));
        }
        if claimed.url.is_some() && claimed.url != recipe.url {
            let why = "it is not the address of this project's remote `origin`";
            all.push(Unconfirmed { label: labels::SOURCE, why });
        }
        all
    }

    /// Returns the commit that an image names, unless the history of this project does not have it:
    /// then the one that the project itself would name.
    fn checked_revision(&self, claimed: Revision, recipe: &Recipe) -> Revision {
        let is_denied = recipe::has_commit(&self.project.root, &claimed.commit) == Some(false);
        match &recipe.commit {
            Some(commit) if is_denied => Revision { commit: commit.clone(), ..claimed },
            _ => claimed,
        }
    }
}

/// Words an error of the planner. Where the labels of an image ask for what no build gives, the image
/// is wrong, and not the command.
fn refused(error: PlanError, of_image: Option<&str>) -> CommandError {
    let is_of_request = matches!(
        error,
        PlanError::UnknownVariant { .. }
            | PlanError::NoVariants { .. }
            | PlanError::RehearsedOtherwise { .. }
            | PlanError::NoRehearsal { .. }
            | PlanError::UnknownPin { .. }
            | PlanError::UnusedPin { .. }
            | PlanError::UnknownGpu { .. }
            | PlanError::NotASpoofTrack { .. }
            | PlanError::Epoch(_)
            | PlanError::Invalid { .. }
    );
    match of_image {
        Some(image) if is_of_request => {
            let what =
                format!("the labels of `{image}` ask for what no build of this project gives");
            CommandError::caused(ExitCode::Differs, what, &error)
                .hint("the labels were changed, or the image is of another project")
        }
        _ => error.into(),
    }
}

/// Returns the commit that last changed a file of the plan.
fn own_revision(recipe: &Recipe) -> Result<Revision, CommandError> {
    let refuse = |why: String| {
        CommandError::new(
            ExitCode::Input,
            format!("the image cannot be labelled with a commit: {why}"),
        )
    };
    let Some(commit) = &recipe.commit else {
        let why = recipe.unknown.clone().unwrap_or_else(|| "none is known".to_owned());
        return Err(
            refuse(why).hint("leave out `--label-revision`; the image is the same otherwise")
        );
    };
    if !recipe.modified.is_empty() {
        let files = recipe.modified.join("`, `");
        return Err(refuse(format!("`{files}` has changes that are not committed"))
            .hint("commit the changes, or leave out `--label-revision`"));
    }
    Ok(Revision { url: recipe.url.clone(), commit: commit.clone() })
}
