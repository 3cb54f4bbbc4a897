//! Computes the changes that patches make to a tree.
//!
//! Start at [`apply`]. It has two phases and writes nothing. First it computes every edit of every
//! patch in memory; then it checks post-conditions and probes on the result of all patches. It
//! returns new contents only if every verdict is good. A patch that fails is rolled back before the
//! next one is tried, so one report lists everything that is wrong.

use std::collections::BTreeMap;

use names::{GpuTarget, Sha256};

use crate::checks::{check_asserts, check_undone, run_probes};
use crate::gpu::fill;
use crate::hash::sha256;
use crate::nearest::nearest_line;
use crate::outcome::{EditOutcome, FileChange, Outcome, PatchOutcome, ProbeOutcome};
use crate::pattern::Pattern;
use crate::prepared::{Meeting, PreparedEdit};
use crate::probe::Probes;
use crate::receipt::Receipt;
use crate::spec::{IfPartial, Patch, Then};
use crate::work::{Slot, WorkTree};
use crate::{PatchSet, Position, PresentBy, Tree, TreePath, Verdict};
use names::Version;

/// The tree to patch, and what is known about it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The GPU target that the patches are for.
    pub gpu: &'a GpuTarget,
    /// The version of the tree, if known. Without it, every patch is tried.
    pub version: Option<&'a Version>,
    /// The build's environment variables, if a build is planned.
    pub build_env: Option<&'a BTreeMap<String, String>>,
    /// Whether the tree is known to be as upstream released it (a verified commit or archive).
    pub is_pristine: bool,
    /// The expected hashes of files before the first patch, if known.
    pub base: &'a BTreeMap<TreePath, Sha256>,
    /// The receipts of patches that were applied to this tree earlier, oldest first.
    pub receipts: &'a [Receipt],
}

/// A patch while it is being computed.
pub(crate) struct Running<'p> {
    pub(crate) patch: &'p Patch,
    pub(crate) edits: Vec<(PreparedEdit<'p>, EditOutcome)>,
    pub(crate) verdict: Verdict,
    pub(crate) ok: bool,
    pub(crate) probes: Vec<ProbeOutcome>,
}

/// Computes the changes that the patches of `set` make to `tree`. Writes nothing.
pub fn apply(
    set: &PatchSet,
    subject: &Subject<'_>,
    tree: &dyn Tree,
    probes: &dyn Probes,
) -> Outcome {
    let mut work = WorkTree::new(tree);
    let mut running: Vec<Running<'_>> =
        set.patches().iter().map(|patch| run_patch(patch, set, subject, &mut work)).collect();
    check_undone(&mut running, &mut work);
    for one in &mut running {
        check_asserts(one, subject, &mut work);
    }
    if running.iter().all(|one| one.ok) {
        for one in &mut running {
            run_probes(one, subject, &mut work, probes);
        }
    }
    let ok = running.iter().all(|one| one.ok);
    let changed = work.files().filter(|(_, file)| ok && file.original != file.current);
    let files = changed.map(|(path, file)| FileChange::new(path.clone(), file.clone())).collect();
    let patches = running.into_iter().map(patch_outcome).collect();
    Outcome::new(set, subject, ok, patches, files)
}

fn patch_outcome(one: Running<'_>) -> PatchOutcome {
    let is_retired = one.ok
        && matches!(
            one.verdict,
            Verdict::SatisfiedOtherwise
                | Verdict::AlreadyPresent { by: PresentBy::Upstream, condition: None }
        );
    let limits = one.patch.provenance.limits.clone();
    PatchOutcome {
        id: one.patch.id.clone(),
        sha256: one.patch.sha256(),
        ok: one.ok,
        explanation: one.verdict.explain(),
        limits: limits.filter(|_| {
            matches!(one.verdict, Verdict::Applied { .. } | Verdict::PartialUpstream { .. })
        }),
        is_retired,
        verdict: one.verdict,
        edits: one.edits.into_iter().map(|(_, outcome)| outcome).collect(),
        probes: one.probes,
    }
}

/// Whether a patch applies to a version of a source for a GPU target. No file is read to decide
/// this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The patch is applied.
    Apply,
    /// The patch is tried, and must change nothing: upstream includes the change in this version.
    ExpectUpstream {
        /// Why upstream includes it.
        because: String,
    },
    /// The patch is not for this version or GPU target.
    NotApplicable {
        /// Why.
        because: String,
    },
    /// The patch breaks this version.
    Refuse {
        /// Why.
        because: String,
    },
    /// Another applied patch conflicts with this one.
    Conflict {
        /// The other patch.
        with: String,
    },
}

/// A patch of a set, and whether it applies.
#[derive(Debug, Clone)]
pub struct Selected<'p> {
    /// The patch.
    pub patch: &'p Patch,
    /// Whether it applies.
    pub selection: Selection,
}

impl PatchSet {
    /// Returns for each patch, in order, whether it applies to a source of `version` for `gpu`.
    /// [`apply`] uses the same rule.
    pub fn select(&self, gpu: &GpuTarget, version: Option<&Version>) -> Vec<Selected<'_>> {
        let select = |patch| {
            let selection = match selection(patch, gpu, version) {
                used @ (Selection::Apply | Selection::ExpectUpstream { .. }) => {
                    match rival(patch, self, gpu, version) {
                        Some(rival) => Selection::Conflict { with: rival.id.clone() },
                        None => used,
                    }
                }
                other => other,
            };
            Selected { patch, selection }
        };
        self.patches().iter().map(select).collect()
    }
}

/// Returns whether a patch is for a version and GPU target. Ignores other patches.
fn selection(patch: &Patch, gpu: &GpuTarget, version: Option<&Version>) -> Selection {
    let applies = &patch.applies;
    if !is_for(patch, gpu) {
        return Selection::NotApplicable { because: format!("it is not for `{gpu}`") };
    }
    let Some(version) = version else { return Selection::Apply };
    let (outside, side) = match applies.versions.position(version) {
        Position::Inside => return Selection::Apply,
        Position::Below => (&applies.below, "below"),
        Position::Above => (&applies.above, "above"),
    };
    // The parser requires a rule for each side on which a range is bounded.
    let Some(outside) = outside else { return Selection::Apply };
    let because = || format!("{version} is {side} `{}`: {}", applies.versions, outside.because);
    match outside.then {
        Then::ExpectSatisfied => Selection::ExpectUpstream { because: outside.because.clone() },
        Then::Skip | Then::LeaveAlone => Selection::NotApplicable { because: because() },
        Then::Refuse => Selection::Refuse { because: because() },
    }
}

/// Returns whether a patch is for a GPU target.
fn is_for(patch: &Patch, gpu: &GpuTarget) -> bool {
    patch.applies.gpus.as_ref().is_none_or(|gpus| {
        let whole = format!("^(?:{})$", fill(gpus, gpu));
        Pattern::new(&whole).is_ok_and(|pattern| pattern.is_in(gpu.as_str().as_bytes()))
    })
}

/// Returns an applied patch that conflicts with `patch`.
fn rival<'p>(
    patch: &Patch,
    set: &'p PatchSet,
    gpu: &GpuTarget,
    version: Option<&Version>,
) -> Option<&'p Patch> {
    set.patches().iter().find(|other| {
        let is_named = patch.relations.conflicts.contains(&other.id)
            || other.relations.conflicts.contains(&patch.id);
        let is_used = || {
            matches!(
                selection(other, gpu, version),
                Selection::Apply | Selection::ExpectUpstream { .. }
            )
        };
        is_named && is_used()
    })
}

fn run_patch<'p>(
    patch: &'p Patch,
    set: &PatchSet,
    subject: &Subject<'_>,
    work: &mut WorkTree<'_>,
) -> Running<'p> {
    let finished = |verdict: Verdict, ok: bool| Running {
        patch,
        edits: Vec::new(),
        verdict,
        ok,
        probes: Vec::new(),
    };
    let selection = selection(patch, subject.gpu, subject.version);
    let expected_upstream = match selection {
        Selection::NotApplicable { because } => {
            match contradiction(patch, &because, subject, work) {
                // The version of a tree between two releases does not say which changes it has. For
                // a pinned tree, a plan is made from the version alone, and must be true.
                Some(_) if !subject.is_pristine && is_between_releases(subject) => None,
                Some(verdict) => return finished(verdict, false),
                None => return finished(Verdict::NotApplicable { because }, true),
            }
        }
        Selection::Refuse { because } => {
            return finished(Verdict::NotApplicable { because }, false);
        }
        Selection::ExpectUpstream { because } => Some(because),
        Selection::Apply | Selection::Conflict { .. } => None,
    };
    if let Some(conflict) = conflict(patch, set, subject) {
        return finished(conflict, false);
    }
    work.begin();
    let mut edits = Vec::new();
    for edit in &patch.edits {
        match PreparedEdit::new(edit, subject.gpu, subject.version) {
            Ok(prepared) => {
                let outcome = run_edit(&patch.id, &prepared, subject, work);
                edits.push((prepared, outcome));
            }
            Err(reason) => {
                work.roll_back();
                let file = edit.files[0].clone();
                return finished(Verdict::PostConditionFailed { file, reason }, false);
            }
        }
    }
    let (mut verdict, mut ok) = summary(patch, &edits);
    if let Some(because) = expected_upstream
        && let Some((_, changed)) = edits.iter().find(|(_, edit)| {
            matches!(edit.verdict, Verdict::Applied { .. } | Verdict::PartialUpstream { .. })
        })
        && ok
    {
        let file = changed.file.clone().unwrap_or_else(|| patch.edits[0].files[0].clone());
        let reason = format!("this version should include it ({because}), but does not");
        (verdict, ok) = (Verdict::PostConditionFailed { file, reason }, false);
    }
    if !ok {
        work.roll_back();
    }
    Running { patch, edits, verdict, ok, probes: Vec::new() }
}

fn is_between_releases(subject: &Subject<'_>) -> bool {
    subject.version.is_some_and(Version::is_pre_release)
}

/// Returns a verdict if the tree contains text that the patch edits, although the patch skips this
/// version for lack of such text.
fn contradiction(
    patch: &Patch,
    because: &str,
    subject: &Subject<'_>,
    work: &mut WorkTree<'_>,
) -> Option<Verdict> {
    let outside = match patch.applies.versions.position(subject.version?) {
        Position::Inside => return None,
        Position::Below => patch.applies.below.as_ref()?,
        Position::Above => patch.applies.above.as_ref()?,
    };
    let is_for_gpu = is_for(patch, subject.gpu);
    if outside.then != Then::Skip || !is_for_gpu {
        return None;
    }
    for edit in &patch.edits {
        let prepared = PreparedEdit::new(edit, subject.gpu, None).ok()?;
        for path in &edit.files {
            let line = work.current(path).and_then(|bytes| prepared.line_of_subject(bytes));
            if let Some(line) = line {
                let reason = format!(
                    "line {line}: the tree has this text, but the patch expects this version not to have it ({because}); is the version right?"
                );
                return Some(Verdict::PostConditionFailed { file: path.clone(), reason });
            }
        }
    }
    None
}

/// Returns the reason to refuse the patch, if one is known before any file is read.
fn conflict(patch: &Patch, set: &PatchSet, subject: &Subject<'_>) -> Option<Verdict> {
    if let Some(rival) = rival(patch, set, subject.gpu, subject.version) {
        let reason = "the two patches conflict; select one".to_owned();
        return Some(Verdict::Conflict { with: Some(rival.id.clone()), reason });
    }
    let build_env = subject.build_env?;
    let (key, wanted) =
        patch.relations.build_env.iter().find(|(key, value)| build_env.get(*key) != Some(value))?;
    let found =
        build_env.get(key).map_or_else(|| "is not set".to_owned(), |found| format!("is `{found}`"));
    let reason = format!(
        "the build's `{key}` {found}, but must be `{wanted}`; otherwise the patch breaks the build"
    );
    Some(Verdict::Conflict { with: None, reason })
}

fn run_edit(
    patch: &str,
    edit: &PreparedEdit<'_>,
    subject: &Subject<'_>,
    work: &mut WorkTree<'_>,
) -> EditOutcome {
    let mut existing = Vec::new();
    let mut unfit = None;
    for path in &edit.edit.files {
        let bytes = match work.slot(path) {
            Slot::Absent => continue,
            Slot::Unreadable(reason) => {
                let verdict = Verdict::Unreadable { file: path.clone(), reason: reason.clone() };
                return EditOutcome { file: Some(path.clone()), verdict };
            }
            Slot::File(file) => {
                if let Some(dirty) = dirty(path, &file.original, subject) {
                    return EditOutcome { file: Some(path.clone()), verdict: dirty };
                }
                file.current.clone()
            }
        };
        existing.push(path.clone());
        match edit.meet(&bytes) {
            Meeting::Missing => {}
            // The edit may apply to a file that is named later, because upstream moves code between
            // files.
            Meeting::Miscounted { found, lines } => {
                let expected = edit.counts.iter().copied().collect();
                let verdict = Verdict::Ambiguous { file: path.clone(), found, expected, lines };
                unfit = unfit.or(Some(EditOutcome { file: Some(path.clone()), verdict }));
            }
            meeting => {
                let verdict = settle(patch, edit, path, meeting, subject, work);
                return EditOutcome { file: Some(path.clone()), verdict };
            }
        }
    }
    if let Some(unfit) = unfit {
        return unfit;
    }
    let texts: Vec<Vec<u8>> =
        existing.iter().filter_map(|path| work.current(path).map(<[u8]>::to_vec)).collect();
    let is_needless = edit.is_needless(subject.version, texts.iter().map(Vec::as_slice));
    let verdict = match existing.first() {
        first if is_needless => {
            let names = |paths: &[TreePath]| {
                paths.iter().map(TreePath::as_str).collect::<Vec<_>>().join(" or ")
            };
            Verdict::NotApplicable {
                because: match first {
                    None => format!("the tree has no {}", names(&edit.edit.files)),
                    Some(_) => format!("{} has no such code", names(&existing)),
                },
            }
        }
        first => {
            let bytes = first.and_then(|path| work.current(path)).unwrap_or_default();
            let nearest = nearest_line(&edit.anchor_source, bytes);
            Verdict::AnchorMissing { files: existing.clone(), nearest }
        }
    };
    EditOutcome { file: existing.first().cloned(), verdict }
}

/// Makes an edit in memory, based on how it matched the file.
fn settle(
    patch: &str,
    edit: &PreparedEdit<'_>,
    path: &TreePath,
    meeting: Meeting,
    subject: &Subject<'_>,
    work: &mut WorkTree<'_>,
) -> Verdict {
    let failed = |reason: String| Verdict::PostConditionFailed { file: path.clone(), reason };
    match meeting {
        Meeting::Present => {
            let (original, condition) = match work.slot(path) {
                Slot::File(file) => (sha256(&file.original), edit.condition(path, &file.current)),
                Slot::Absent | Slot::Unreadable(_) => {
                    return failed("the file no longer exists".to_owned());
                }
            };
            Verdict::AlreadyPresent { by: present_by(path, &original, subject), condition }
        }
        Meeting::Satisfied => Verdict::SatisfiedOtherwise,
        Meeting::Unfit(reason) => failed(reason),
        Meeting::Change { splices, present } => {
            work.change(patch, path, &splices);
            let bytes = work.current(path).unwrap_or_default();
            if bytes.len() > crate::tree::MAX_FILE_BYTES {
                return failed("the file would become too large".to_owned());
            }
            match (edit.meet(bytes), present) {
                (Meeting::Present, 0) => Verdict::Applied { count: splices.len() },
                (Meeting::Present, present) => {
                    Verdict::PartialUpstream { missing: splices.len(), present }
                }
                _ => failed("a second run would not recognise this edit's own change".to_owned()),
            }
        }
        Meeting::Missing | Meeting::Miscounted { .. } => {
            failed("the anchor no longer matches".to_owned())
        }
    }
}

/// Returns a verdict if someone else changed a file.
fn dirty(path: &TreePath, bytes: &[u8], subject: &Subject<'_>) -> Option<Verdict> {
    // A receipt for another version does not describe the files of this one.
    let version = subject.version.map(ToString::to_string);
    let is_of_this = |receipt: &&Receipt| {
        receipt.version.is_none() || version.is_none() || receipt.version == version
    };
    let mut receipts = subject.receipts.iter().rev().filter(is_of_this);
    let receipt = receipts.find_map(|receipt| receipt.file(path));
    let base = subject.base.get(path);
    if receipt.is_none() && base.is_none() {
        return None;
    }
    let found = sha256(bytes);
    let is_known = base == Some(&found)
        || receipt.is_some_and(|receipt| receipt.after == found || receipt.before == found);
    let expected = receipt.map(|receipt| &receipt.after).or(base)?.clone();
    (!is_known).then(|| Verdict::BaseDirty { file: path.clone(), expected, found })
}

fn present_by(path: &TreePath, found: &Sha256, subject: &Subject<'_>) -> PresentBy {
    let is_ours = subject
        .receipts
        .iter()
        .filter_map(|receipt| receipt.file(path))
        .any(|file| file.after == *found);
    match () {
        () if is_ours => PresentBy::Ours,
        () if subject.is_pristine || subject.base.get(path) == Some(found) => PresentBy::Upstream,
        () => PresentBy::Unknown,
    }
}

/// Combines the verdicts of the edits into one.
fn summary(patch: &Patch, edits: &[(PreparedEdit<'_>, EditOutcome)]) -> (Verdict, bool) {
    let verdicts = || edits.iter().map(|(_, edit)| &edit.verdict);
    if let Some(failure) = verdicts().find(|verdict| verdict.is_failure()) {
        return (failure.clone(), false);
    }
    let mut missing = 0;
    let mut present = 0;
    let mut ours = 0;
    let mut by = None;
    let mut under = None;
    let mut is_satisfied = false;
    let mut absent = None;
    for verdict in verdicts() {
        match verdict {
            Verdict::Applied { count } => missing += count,
            Verdict::PartialUpstream { missing: more, present: there } => {
                missing += more;
                present += there;
            }
            // If an earlier run was killed between two files, its change does not count as
            // upstream's.
            Verdict::AlreadyPresent { by: PresentBy::Ours, .. } => ours += 1,
            Verdict::AlreadyPresent { by: who, condition } => {
                present += 1;
                by = by.or(Some(*who));
                under = under.or_else(|| condition.clone());
            }
            Verdict::SatisfiedOtherwise => {
                present += 1;
                is_satisfied = true;
            }
            other => absent = absent.or(Some(other.clone())),
        }
    }
    match (missing, present, absent) {
        (0, 0, Some(absent)) if ours == 0 => (absent, true),
        (0, _, _) if is_satisfied => (Verdict::SatisfiedOtherwise, true),
        (0, 0, _) => (Verdict::AlreadyPresent { by: PresentBy::Ours, condition: None }, true),
        (0, ..) => {
            let by = by.unwrap_or(PresentBy::Unknown);
            (Verdict::AlreadyPresent { by, condition: under }, true)
        }
        (count, 0, _) => (Verdict::Applied { count }, true),
        (missing, present, _) => (
            Verdict::PartialUpstream { missing, present },
            patch.applies.if_partial == IfPartial::Apply,
        ),
    }
}
