//! The project's own files, read once and in order.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED_FOLDERS: &[&str] = &["target", ".git", "node_modules", "corpus", "artifacts"];
/// Endings of the files whose text the rules read. Other files are known by path only.
const READ_ENDINGS: &[&str] = &[
    ".rs",
    ".md",
    ".toml",
    ".yaml",
    ".yml",
    ".sh",
    "LICENSE",
    "Makefile",
    "Cargo.lock",
    "/run",
];

/// One file of the project.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the project's root, with `/` between parts.
    pub path: String,
    /// Empty when the file is of a kind whose text no rule reads.
    pub text: String,
}

impl File {
    /// Whether this is Rust source.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether this is a page of prose.
    #[must_use]
    pub fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// Whether the whole file is test code: `tests.rs`, or anything under a `tests` folder.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.is_rust() && self.path.split('/').any(|part| matches!(part, "tests" | "tests.rs"))
    }

    /// Where line `index` (from 0) is, as a person writes it.
    #[must_use]
    pub fn line(&self, index: usize) -> String {
        format!("{}:{}", self.path, index + 1)
    }
}

/// Files sorted by path.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the project under `root`.
    ///
    /// # Errors
    ///
    /// When a folder or a file cannot be read.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name();
                if !entry.file_type()?.is_dir() {
                    files.extend(read_file(root, &entry.path())?);
                } else if !SKIPPED_FOLDERS.iter().any(|skipped| *skipped == name) {
                    folders.push(entry.path());
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// A tree of made-up files, for tests of the rules.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<File> = files
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }

    /// The file at `path`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&File> {
        let index = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(index)
    }

    /// Whether `path` is a file or a folder with files in it.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.get(path).is_some() || self.files.iter().any(|file| file.path.starts_with(&folder))
    }

    /// The Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The pages of prose.
    pub fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_markdown())
    }
}

/// The file at `path`; nothing when its name is not UTF-8.
fn read_file(root: &Path, path: &Path) -> anyhow::Result<Option<File>> {
    let Some(relative) = relative(root, path) else {
        return Ok(None);
    };
    let is_read = READ_ENDINGS.iter().any(|ending| relative.ends_with(ending));
    let text = if is_read {
        fs::read_to_string(path)?
    } else {
        String::new()
    };
    Ok(Some(File { path: relative, text }))
}

fn relative(root: &Path, path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.strip_prefix(root).ok()?.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
}

/// Where the project lies: the folder above this crate.
#[must_use]
pub fn project_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}
