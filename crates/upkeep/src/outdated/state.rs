//! The states of pins.

use failure::Kind;
use schemars::JsonSchema;
use serde::Serialize;

/// The state of a pin, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The pin is unchanged and the newest.
    Current,
    /// `hold` in versions.toml keeps the pin at its value.
    Held,
    /// A newer release exists, or the branch moved ahead.
    Newer,
    /// Its value is not known yet.
    Unresolved,
    /// Its source could not be reached.
    Unreachable,
    /// The date in its `expires` has passed.
    Expired,
    /// Its tag or release changed.
    Moved,
    /// Its branch no longer contains the commit.
    Rewritten,
    /// The release was yanked.
    Yanked,
    /// It no longer exists.
    Vanished,
}

impl Class {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Held => "held",
            Self::Newer => "newer",
            Self::Unresolved => "unresolved",
            Self::Unreachable => "unreachable",
            Self::Expired => "expired",
            Self::Moved => "moved",
            Self::Rewritten => "rewritten",
            Self::Yanked => "yanked",
            Self::Vanished => "vanished",
        }
    }

    /// Returns the kind of failure for this state; `ReaderLeft` if it is not a failure.
    pub fn kind(self) -> Kind {
        match self {
            Self::Current | Self::Held => Kind::ReaderLeft,
            Self::Newer => Kind::Newer,
            Self::Unresolved => Kind::Unresolved,
            Self::Unreachable => Kind::Network,
            Self::Expired => Kind::Expired,
            Self::Moved => Kind::Moved,
            Self::Rewritten => Kind::Rewritten,
            Self::Yanked => Kind::Yanked,
            Self::Vanished => Kind::Vanished,
        }
    }
}

/// The state of a pin, with details.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) class: Class,
    /// A description; empty if there is nothing to report.
    pub(crate) detail: String,
    /// The current value of its name.
    pub(crate) now: Option<String>,
    /// The newest release, if it is newer than the pin.
    pub(crate) newest: Option<String>,
}

impl State {
    pub(crate) fn new(class: Class, detail: impl Into<String>) -> Self {
        Self { class, detail: detail.into(), now: None, newest: None }
    }
}
