//! Why a gateway does not start with its journal of changes.

use std::path::PathBuf;

use maitred_store::LogError;
use maitred_store::chain::ChainError;

/// Why changes cannot be kept.
#[derive(Debug)]
pub enum KeepError {
    /// The journal is of no use.
    Journal(ChainError),
    /// A line of the journal has a change that this maitred does not know.
    Newer(PathBuf, serde_json::Error),
    /// The server's address has not the form of one.
    Server(LogError),
    /// The gateways of the group have made other changes than this one.
    Differs {
        /// This one's.
        journal: PathBuf,
        /// A version that is another there.
        version: u64,
    },
    /// The journal ends before what the audit says was in force.
    Cut {
        /// The journal.
        journal: PathBuf,
        /// Its newest version.
        head: u64,
        /// The newest version in the audit.
        audited: u64,
    },
}

impl std::fmt::Display for KeepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "the journal of changes: {error}"),
            Self::Newer(path, error) => write!(
                f,
                "{} has a change that this maitred does not know: {error}",
                path.display()
            ),
            Self::Server(error) => error.fmt(f),
            Self::Differs { journal, version } => write!(
                f,
                "{} does not belong to the changes that the gateways of this group share: version {version} is another. A gateway joins a \
                 group without changes of its own: look which keys it has revoked, move the journal and the audit's folder aside, start \
                 it, and revoke them again",
                journal.display()
            ),
            Self::Cut { journal, head, audited } => write!(
                f,
                "{} ends with version {head}, but version {audited} was in force by the audit: changes are missing, revocations perhaps. \
                 Put the journal back from a copy; to go on without them, move the audit's folder aside",
                journal.display()
            ),
        }
    }
}

impl std::error::Error for KeepError {}
