//! Keys that are refused here before the journal says so, since the other gateways could not be told, or since a gateway with another
//! journal has revoked them. They are kept in a file beside the journal until it says so too.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use maitred_tenant::{Actor, Role};
use serde::{Deserialize, Serialize};

/// Most that are kept.
const PENDING_MAX: usize = 10_000;
/// Largest file that is read, in bytes.
const FILE_MAX: u64 = 16 << 20;

/// A revocation that the journal does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Revocation {
    /// Of the key with this public part.
    pub(super) id: String,
    pub(super) at: String,
    pub(super) by: String,
    pub(super) role: String,
}

impl Revocation {
    pub(super) fn actor(&self) -> Actor {
        let role = Role::ALL.iter().find(|role| role.name() == self.role);
        Actor {
            name: self.by.as_str().into(),
            role: role.copied().unwrap_or(Role::Viewer),
        }
    }
}

/// Those that the journal does not have, as lines of a file.
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    revocations: Vec<Revocation>,
}

impl Pending {
    /// Those beside `journal`.
    pub(super) fn open(journal: &Path) -> io::Result<Self> {
        let path = with_end(journal, ".pending");
        let mut text = String::new();
        match File::open(&path) {
            Ok(file) => drop(file.take(FILE_MAX).read_to_string(&mut text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let lines = text.lines().map(serde_json::from_str);
        let revocations = lines.collect::<Result<_, _>>()?;
        Ok(Self { path, revocations })
    }

    pub(super) fn all(&self) -> &[Revocation] {
        &self.revocations
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.revocations.iter().map(|revocation| revocation.id.as_str())
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.ids().any(|own| own == id)
    }

    /// Adds one. It is there even if the disk does not take it, but not after a restart then.
    pub(super) fn add(&mut self, revocation: Revocation) -> io::Result<()> {
        if !self.has(&revocation.id) {
            if self.revocations.len() >= PENDING_MAX {
                return Err(io::Error::other(format!("there are {PENDING_MAX} revocations already")));
            }
            self.revocations.push(revocation);
        }
        self.write()
    }

    /// The journal has it now.
    pub(super) fn settle(&mut self, id: &str) -> io::Result<()> {
        if !self.has(id) {
            return Ok(());
        }
        self.revocations.retain(|revocation| revocation.id != id);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let mut text = Vec::new();
        for revocation in &self.revocations {
            serde_json::to_writer(&mut text, revocation)?;
            text.push(b'\n');
        }
        let new = with_end(&self.path, ".new");
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        File::open(crate::remembered::folder(&self.path))?.sync_all()
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
