//! Determines from the verdicts on many versions whether a patch can be retired.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Verdict;
use names::Version;

/// Whether a patch can be retired, and since which version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Retirement {
    /// Upstream includes the change from this version on.
    Since {
        /// The first such version among the examined ones.
        #[schemars(with = "String")]
        version: Version,
    },
    /// The newest examined version still needs the patch, or its verdict is inconclusive.
    NotYet,
    /// No examined version needs the patch.
    Never,
}

/// Returns whether a patch can be retired, and since which version.
pub fn retirement<'v>(
    verdicts: impl IntoIterator<Item = (&'v Version, &'v Verdict)>,
) -> Retirement {
    let mut verdicts: Vec<_> = verdicts.into_iter().collect();
    verdicts.sort_by(|a, b| a.0.cmp(b.0));
    let is_needed = |verdict: &Verdict| match verdict {
        // Whether it is needed depends on the build.
        Verdict::AlreadyPresent { condition: Some(_), .. } => true,
        Verdict::AlreadyPresent { .. }
        | Verdict::SatisfiedOtherwise
        | Verdict::NotApplicable { .. } => false,
        Verdict::Applied { .. } | Verdict::PartialUpstream { .. } => true,
        failure => failure.is_failure(),
    };
    match verdicts.iter().rposition(|(_, verdict)| is_needed(verdict)) {
        None => Retirement::Never,
        Some(last) => match verdicts.get(last + 1) {
            Some((version, _)) => Retirement::Since { version: (*version).clone() },
            None => Retirement::NotYet,
        },
    }
}
