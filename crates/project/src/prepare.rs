//! Turns a request into a plan. Every command that needs a plan gets it here, so that all commands
//! agree.
//!
//! [`prepare`] reads the request, resolves tags and makes the plans. [`Preparer::new`] reads the
//! data files. [`Preparer::plan`] makes one plan, and reads the patches, Dockerfiles, locks and own
//! files that the plan needs, each once. The plan depends only on the request and on the content of
//! those files, and on the git history if its labels name a commit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use executor::Materials;
use failure::{Failure, Kind, nearest};
use names::{Digest, TrackName};
use oci::stand_in::StandIn;
use pins::reader::{Report, Table, document, quote, wrong};
use pins::{SECRET_HELP, secret_lines};
use plan::{Plan, Revision, labels};
use planner::{ImageOverride, PlanError, Planned, PlanningInput, Warning};
use record::{Place, Recipe};

use crate::folder::{DATA_FILES, Project, TRACKS};
use crate::mirrors::Mirrors;
use crate::own_files::{self, ReadFiles};
use crate::request::{self, PendingRequest, RevisionChoice, Subject, TagOfPin};
use crate::{advice, built_in, inside, patches, recipe, registry, rehearsal, runtime, state};

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
    /// The image that replaces the base, if the plan rehearses a track that only adds metadata.
    pub stand_in: Option<StandIn>,
    /// Labels whose values came from an image because this project cannot confirm them.
    pub unconfirmed: Vec<Unconfirmed>,
}

impl Prepared {
    /// Asks git about the history of the plan's files. The plan depends on the history only if its
    /// labels name a commit.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The name of the label.
    pub label: &'static str,
    /// Why it cannot be confirmed.
    pub why: String,
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
/// The request or a project file is wrong, a tag cannot be resolved, or a pin that a
/// plan needs is unresolved.
pub fn prepare(
    mirrors: &Mirrors,
    project: &Project,
    subject: &Subject,
) -> Result<Preparation, Failure> {
    let mut preparer = Preparer::new(project)?;
    let mut pending = request::read(subject, &preparer.input)?;
    if pending.iter().any(|one| !one.tags.is_empty()) {
        pending.iter().try_for_each(|one| preparer.check(one))?;
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
    /// The content of the files that have been read.
    pub input: PlanningInput,
    materials: Materials,
}

impl<'a> Preparer<'a> {
    /// Reads the data files.
    ///
    /// # Errors
    /// A data file cannot be read or is invalid.
    pub fn new(project: &'a Project) -> Result<Self, Failure> {
        Ok(Self { project, input: project.data()?, materials: Materials::default() })
    }

    /// Returns the texts of all plans made so far.
    pub fn into_materials(self) -> Arc<Materials> {
        Arc::new(Materials { patches: self.input.patches, ..self.materials })
    }

    /// Refuses a request that cannot be planned, before a registry is asked for its tags. The plan
    /// does not depend on the digests of the tags, except for the digests themselves.
    fn check(&mut self, pending: &PendingRequest) -> Result<(), Failure> {
        let mut request = pending.request.clone();
        for TagOfPin { pin, tag } in &pending.tags {
            let unknown = ImageOverride { tag: Some(tag.clone()), digest: Digest::of(b"") };
            request.overrides.insert(pin.clone(), unknown);
        }
        self.plan(PendingRequest::new(request)).map(drop)
    }

    /// Makes the plan of a request whose tags are already resolved.
    ///
    /// # Errors
    /// A file is missing or wrong, or the project has no such plan.
    pub fn plan(&mut self, pending: PendingRequest) -> Result<Prepared, Failure> {
        let PendingRequest { mut request, revision, of_image, .. } = pending;
        let project = self.project;
        let refused = |error: PlanError| refused(project, error, of_image.as_deref());
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

    /// Reads the other files that a plan needs. The planner reports missing files, because its
    /// error says why they are needed.
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
                if needs.dockerfiles.contains(file) {
                    self.check_dockerfile(file)?;
                }
                let text = self.project.told_text(file)?;
                self.input.files.insert(file.clone(), Digest::of(text.as_bytes()));
                if needs.dockerfiles.contains(file) {
                    check_text(file, &text)?;
                    check_secrets(file, &text)?;
                }
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

    /// Checks that a Dockerfile is in the project's folder. The error points at the line of the
    /// project's `tracks.toml` that names the file, if there is such a line.
    fn check_dockerfile(&self, file: &str) -> Result<(), Failure> {
        let Err(error) = self.project.check_inside(file) else { return Ok(()) };
        let text = self.project.own_text(TRACKS).unwrap_or_default();
        let mut report = Report::new(TRACKS, &text);
        let place = document(&mut report).ok().and_then(|entries| {
            let root = Table::root(&mut report, &entries).ok()?;
            Some(root.find_text("dockerfile", file)?.span)
        });
        let Some(place) = place else { return Err(self.project.unreadable(file, &error)) };
        let message = format!("{} cannot be used: {error}", quote(file));
        let reported = report.add(&place, wrong(message, inside::NEXT));
        let result = report.finish(Err(reported));
        result.map_err(|problems| Failure::places(problems, text.to_string()))
    }

    /// Reads the project's own files that a plan needs.
    fn read_own_files(&mut self, needs: &planner::Needs) -> Result<(), Failure> {
        let own = |name: &&TrackName| !self.input.own_files.contains_key(*name);
        let tracks = needs.own_files.iter().filter(own);
        let tracks: Vec<_> =
            tracks.filter_map(|name| self.input.tracks.tracks.get_key_value(name)).collect();
        let contexts = needs.context_files.values();
        let contexts: Vec<_> =
            contexts.filter(|row| !self.input.context_files.contains_key(&row.from)).collect();
        if tracks.is_empty() && contexts.is_empty() {
            return Ok(());
        }
        let text = self.project.told_text(TRACKS)?;
        let ReadFiles { tracks, contexts, places } =
            own_files::read(&self.project.root, TRACKS, &text, &tracks, &contexts)?;
        self.input.own_files.extend(tracks);
        self.input.context_files.extend(contexts);
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
        let own = needs.own_files.iter().filter_map(|name| self.input.own_files.get(name));
        let contexts = needs.context_files.keys();
        let contexts = contexts.filter_map(|path| self.input.context_files.get(path));
        for read in own.chain(contexts) {
            let digests = read.digests.iter();
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
            let incomplete = "the git history of this project is incomplete; use a full clone";
            let why = recipe.unknown.as_deref().unwrap_or(incomplete);
            let unconfirmed = |label| Unconfirmed { label, why: why.to_owned() };
            all.extend([labels::REVISION, labels::VCS_REF].map(unconfirmed));
        }
        if claimed.url.is_some() && claimed.url != recipe.url {
            let why = "it is not the address of this project's remote `origin`".to_owned();
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

/// Checks that a Dockerfile builds on the base that the plan names, and takes nothing from outside
/// of the plan.
fn check_text(name: &str, text: &str) -> Result<(), Failure> {
    let on_base = engine::check_base(text).map_err(|error| {
        let help = "write `ARG BASE` and, as the last FROM, `FROM ${BASE}`; `base`, `track` or \
                    `packages` of the track specifies this base";
        (error.line(), error.to_string(), help)
    });
    let checked = on_base.and_then(|()| {
        engine::check_inputs(text).map_err(|error| (error.line, error.to_string(), error.help()))
    });
    let Err((line, message, help)) = checked else { return Ok(()) };
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start = lines.map(str::len).sum();
    let shown = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
    let mut report = Report::new(name, text);
    let reported = report.add(&(start..start + shown.len()), wrong(message, help));
    let result = report.finish(Err(reported));
    result.map_err(|problems| Failure::places(problems, text.to_owned()))
}

/// Refuses a Dockerfile that contains a password or token: its text is in plans and in the history
/// of images.
fn check_secrets(name: &str, text: &str) -> Result<(), Failure> {
    let mut report = Report::new(name, text);
    let mut outcome = Ok(());
    for place in secret_lines(text) {
        let what = "this line contains a password or token".to_owned();
        outcome = Err(report.add(&place, wrong(what, SECRET_HELP)));
    }
    report.finish(outcome).map_err(|problems| Failure::places(problems, text.to_owned()))
}

/// Turns an error of the planner into the failure of a command. If the labels of an image request
/// something that no build produces, the image is at fault, not the command.
fn refused(project: &Project, error: PlanError, of_image: Option<&str>) -> Failure {
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
        _ => {
            let meant = meant(project, &error);
            let failure = Failure::from(error);
            match meant {
                Some(name) => failure.first_hint(format!("did you mean `{name}`?")),
                None => failure,
            }
        }
    }
}

/// Returns the existing lock, set of a lock or Dockerfile whose name is closest to the missing one.
fn meant(project: &Project, error: &PlanError) -> Option<String> {
    const LOCKS: &str = "versions/locks";
    let closest = |wanted: &str, known: Vec<String>| {
        nearest(wanted, known.iter().map(String::as_str)).map(str::to_owned)
    };
    match error {
        PlanError::NoSuchFile { path, .. } => {
            let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
            let (stem, end) = file.rsplit_once('.').unwrap_or((file, ""));
            let known = project.names_in(folder).into_iter().filter_map(|name| {
                let (known_stem, its) = name.rsplit_once('.').unwrap_or((&name, ""));
                let is_lock = folder != LOCKS || !known_stem.starts_with("pylock.");
                (its == end && is_lock).then(|| known_stem.to_owned())
            });
            let stem = closest(stem, known.collect())?;
            let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let end = if end.is_empty() { String::new() } else { format!(".{end}") };
            Some(if folder == format!("{LOCKS}/") { stem } else { format!("{folder}{stem}{end}") })
        }
        PlanError::NoLock { lock, .. } => {
            let made = project.names_in(LOCKS).into_iter().filter_map(|name| {
                Some(name.strip_prefix("pylock.")?.strip_suffix(".toml")?.to_owned())
            });
            let sets = project.python_sets().unwrap_or_default();
            let sets = sets.into_keys().map(|name| name.to_string());
            let known: Vec<String> = made.chain(sets).collect();
            closest(lock, known).filter(|name| name != lock)
        }
        PlanError::NoSuchSet { lock, set, .. } => {
            let lock = project.parse(lock, pins::parse_package_lock).ok()?;
            closest(set, lock.sets.keys().map(ToString::to_string).collect())
        }
        _ => None,
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
        return Err(refuse(format!("there are uncommitted changes in `{files}`"))
            .hint("commit the changes, or leave out `--label-revision`"));
    }
    Ok(Revision { url: recipe.url.clone(), commit: commit.clone() })
}
