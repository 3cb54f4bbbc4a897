//! What the verdicts on many versions say about a patch as a whole.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Verdict;
use names::Version;

/// From when on a patch is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Retirement {
    /// From this version on, upstream has it.
    Since {
        /// The first such version of those looked at.
        #[schemars(with = "String")]
        version: Version,
    },
    /// The newest version looked at still needs it, or cannot be told.
    NotYet,
    /// No version looked at needs it.
    Never,
}

/// Says from which of the versions on a patch can be retired.
pub fn retirement<'v>(
    verdicts: impl IntoIterator<Item = (&'v Version, &'v Verdict)>,
) -> Retirement {
    let mut verdicts: Vec<_> = verdicts.into_iter().collect();
    verdicts.sort_by(|a, b| a.0.cmp(b.0));
    let is_needed = |verdict: &Verdict| match verdict {
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
