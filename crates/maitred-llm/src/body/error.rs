//! Why a body is refused.

use std::fmt;

use maitred_types::FaultKind;

use super::MAX_DEPTH;

/// Why a body is refused. Each says at which byte, and what would have been right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The bytes are not UTF-8.
    Utf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// The grammar of JSON is broken, or the body is not an object.
    Syntax {
        /// Offset at which reading stopped.
        at: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// Arrays and objects are nested deeper than [`MAX_DEPTH`].
    TooDeep {
        /// Offset of the brace or bracket that goes too deep.
        at: usize,
    },
    /// A member has a value it cannot have.
    Field {
        /// Its name.
        field: &'static str,
        /// Offset of its value.
        at: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// A member that the gateway must read as the endpoint does occurs twice.
    Duplicate {
        /// Its name.
        field: &'static str,
        /// Offset of the second occurrence.
        at: usize,
    },
    /// There is no `model`, or it is empty.
    MissingModel,
}

impl BodyError {
    /// What went wrong, for the table of faults.
    #[must_use]
    pub const fn fault(&self) -> FaultKind {
        match self {
            Self::Utf8 { .. } => FaultKind::InvalidUtf8,
            Self::Syntax { .. } | Self::TooDeep { .. } => FaultKind::InvalidJson,
            Self::Field { .. } | Self::Duplicate { .. } => FaultKind::InvalidField,
            Self::MissingModel => FaultKind::MissingModel,
        }
    }

    /// The member at fault, for `param` of an error body.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::Field { field, .. } | Self::Duplicate { field, .. } => Some(field),
            Self::MissingModel => Some("model"),
            Self::Utf8 { .. } | Self::Syntax { .. } | Self::TooDeep { .. } => None,
        }
    }

    /// Offset of the byte at fault; zero when something is missing.
    #[must_use]
    pub const fn at(&self) -> usize {
        match self {
            Self::Utf8 { at }
            | Self::Syntax { at, .. }
            | Self::TooDeep { at }
            | Self::Field { at, .. }
            | Self::Duplicate { at, .. } => *at,
            Self::MissingModel => 0,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8 { at } => write!(f, "the body is not UTF-8: bad byte at offset {at}"),
            Self::Syntax { at, expected } => {
                write!(f, "the body is not valid JSON: expected {expected} at offset {at}")
            }
            Self::TooDeep { at } => {
                write!(f, "the body is nested deeper than {MAX_DEPTH} levels at offset {at}")
            }
            Self::Field { field, at, expected } => write!(f, "`{field}` must be {expected} (offset {at})"),
            Self::Duplicate { field, at } => write!(f, "`{field}` occurs twice (second time at offset {at})"),
            Self::MissingModel => f.write_str("`model` is missing or empty"),
        }
    }
}

impl std::error::Error for BodyError {}
