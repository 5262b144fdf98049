//! A folder for one test.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary folder, removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
}

impl Folder {
    /// Makes an empty one.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("maitred-test-").tempdir();
        Self {
            folder: folder.expect("a temporary folder"),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file and says where it is. An existing file is replaced in one step, as editors and deployments do it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let fresh = self.path().join(format!(".{name}.new"));
        fs::write(&fresh, text).expect("writing into the test's folder");
        fs::rename(&fresh, &path).expect("renaming within the test's folder");
        path
    }

    /// What the file `name` holds.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).expect("a file of the test's folder")
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}
