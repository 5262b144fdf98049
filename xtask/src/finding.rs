//! What a rule reports.

use std::fmt;

/// One breach of a rule: where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file (with a line, where one is meant) or the crate.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

impl Finding {
    /// A breach at `place`.
    #[must_use]
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
