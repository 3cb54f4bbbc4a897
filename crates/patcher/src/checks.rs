//! The second phase: checks the result of all patches together.

use crate::engine::{Running, Subject};
use crate::outcome::{EditOutcome, ProbeOutcome};
use crate::prepared::{Meeting, check_condition};
use crate::probe::{ProbeRun, Probes, judge_probe, probe_job, too_old};
use crate::spec::Probe;
use crate::work::{Slot, WorkTree};
use crate::{TreePath, Verdict};

/// Finds patches whose changes were undone by a later patch.
pub(crate) fn check_undone(running: &mut [Running<'_>], work: &mut WorkTree<'_>) {
    for one in running.iter_mut().filter(|one| one.ok) {
        for (edit, outcome) in &one.edits {
            let is_done = matches!(
                outcome.verdict,
                Verdict::Applied { .. }
                    | Verdict::AlreadyPresent { .. }
                    | Verdict::PartialUpstream { .. }
            );
            let Some(path) = outcome.file.as_ref().filter(|_| is_done) else { continue };
            let Slot::File(file) = work.slot(path) else { continue };
            if edit.meet(&file.current) != Meeting::Present {
                let with = file.patches.iter().rev().find(|id| **id != one.patch.id).cloned();
                let reason = format!("a later patch undoes its change in `{path}`");
                one.verdict = Verdict::Conflict { with, reason };
                one.ok = false;
                break;
            }
        }
    }
}

/// Checks the post-conditions on the result of all patches.
pub(crate) fn check_asserts(one: &mut Running<'_>, subject: &Subject<'_>, work: &mut WorkTree<'_>) {
    if !one.ok || matches!(one.verdict, Verdict::NotApplicable { .. }) {
        return;
    }
    let is_own = |path: &TreePath| one.patch.edits.iter().any(|edit| edit.files.contains(path));
    // If upstream solved the problem in another way, or the file lacks the code, the patch changed
    // nothing that could be checked.
    let is_settled = |path: &TreePath| {
        one.edits.iter().any(|(_, edit)| {
            let is_checked = !matches!(
                edit.verdict,
                Verdict::SatisfiedOtherwise | Verdict::NotApplicable { .. }
            );
            edit.file.as_ref() == Some(path) && is_checked
        })
    };
    for assert in &one.patch.asserts {
        let foreign = assert.files.iter().all(|path| !is_own(path));
        let mut meant = assert.files.iter().filter(|path| foreign || is_settled(path));
        let result = match meant.find(|path| work.current(path).is_some()) {
            Some(path) => {
                let bytes = work.current(path).unwrap_or_default();
                check_condition(&assert.condition, subject.gpu, bytes)
                    .map_err(|reason| (path, reason))
            }
            None if foreign => Err((&assert.files[0], "the file does not exist".to_owned())),
            None => Ok(()),
        };
        if let Err((path, reason)) = result {
            one.verdict = Verdict::PostConditionFailed { file: path.clone(), reason };
            one.ok = false;
            return;
        }
    }
}

pub(crate) fn run_probes(
    one: &mut Running<'_>,
    subject: &Subject<'_>,
    work: &mut WorkTree<'_>,
    probes: &dyn Probes,
) {
    if matches!(one.verdict, Verdict::NotApplicable { .. }) {
        return;
    }
    let settled: Vec<TreePath> =
        one.edits.iter().filter_map(|(_, edit)| edit.file.clone()).collect();
    let settled = settled.iter().collect();
    let is_needless = |path: &TreePath| {
        let mut of_path = one.edits.iter().filter(|(edit, _)| edit.edit.files.contains(path));
        let is_free =
            |outcome: &EditOutcome| matches!(outcome.verdict, Verdict::NotApplicable { .. });
        of_path.clone().count() > 0 && of_path.all(|(_, outcome)| is_free(outcome))
    };
    // An edit that has nothing to do in this tree leaves nothing to check.
    let is_meant = |probe: &&Probe| !probe.files.iter().all(is_needless);
    for probe in one.patch.probes.iter().filter(is_meant) {
        let read = |path: &TreePath| work.current(path).map(<[u8]>::to_vec);
        let job = probe_job(&one.patch.id, probe, subject.gpu, &settled, read);
        let result =
            match job.map_or_else(|reason| ProbeRun::NotRun { reason }, |job| probes.run(&job)) {
                ProbeRun::NotRun { reason } => {
                    one.probes.push(ProbeOutcome::skipped(&probe.name, &reason));
                    continue;
                }
                ProbeRun::Stopped { reason } => Err(reason),
                ProbeRun::Ended { success: false, stderr, .. } if too_old(&stderr).is_some() => {
                    let reason = too_old(&stderr).unwrap_or_default();
                    one.probes.push(ProbeOutcome::skipped(&probe.name, &reason));
                    continue;
                }
                ProbeRun::Ended { success, stdout, stderr } => {
                    judge_probe(probe, subject.gpu, success, &stdout, &stderr)
                }
            };
        one.probes.push(ProbeOutcome::ran(&probe.name, &result));
        if let Err(reason) = result {
            one.verdict = Verdict::ProbeFailed { probe: probe.name.clone(), reason };
            one.ok = false;
            return;
        }
    }
}
