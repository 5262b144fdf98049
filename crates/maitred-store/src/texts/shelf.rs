//! One tenant's folder: a file for each hour, named by it, so that age is seen without opening anything.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use maitred_types::UnixMillis;

use super::{Terms, TextOptions, folder_of};

const HOUR_MS: u64 = 3_600_000;
/// How a file's name ends.
const SUFFIX: &str = ".jsonl";
/// Of the size of all files, one takes this part at most.
const PARTS: u64 = 8;

/// What there is of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The folder's name, which is the tenant's, but for characters that a file cannot have.
    pub folder: String,
    /// Its files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Who has texts in `folder`, and how much.
///
/// # Errors
/// The folder cannot be read.
pub fn kept(folder: &Path) -> io::Result<Vec<Kept>> {
    let mut all = Vec::new();
    for item in entries(folder)? {
        let files = list(&item.path())?;
        all.push(Kept {
            folder: item.file_name().to_string_lossy().into_owned(),
            files: files.len(),
            bytes: files.iter().map(|file| file.bytes).sum(),
        });
    }
    all.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(all)
}

/// Removes every text of a tenant, whichever gateway wrote it. One that runs begins new files. Says how many bytes that were.
///
/// # Errors
/// Something cannot be removed.
pub fn forget(folder: &Path, tenant: &str) -> io::Result<u64> {
    let folder = folder_of(folder, tenant);
    let files = list(&folder)?;
    for file in &files {
        remove(&file.path)?;
    }
    match fs::remove_dir(&folder) {
        // A gateway has just begun another one, of a call after this command.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(files.iter().map(|file| file.bytes).sum())
}

/// A tenant's folder, as one gateway writes it.
#[derive(Debug)]
pub(super) struct Shelf {
    folder: PathBuf,
    start: u64,
    open: Option<Open>,
    files: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    hour: u64,
    length: u64,
}

impl Open {
    /// Whether it is still the file of that name: it is not after everything was forgotten.
    fn is_there(&self) -> io::Result<bool> {
        let own = self.file.metadata()?.ino();
        match fs::metadata(&self.path) {
            Ok(there) => Ok(there.ino() == own),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Shelf {
    pub(super) fn new(options: &TextOptions, tenant: &str) -> Self {
        Self {
            folder: folder_of(&options.folder, tenant),
            start: options.start,
            open: None,
            files: 0,
        }
    }

    /// Appends a line, and makes room for it.
    pub(super) fn put(&mut self, line: &[u8], terms: &Terms, now: UnixMillis) -> io::Result<()> {
        let hour = now.get() / HOUR_MS;
        let part = terms.max_size / PARTS;
        let goes_on = match &self.open {
            Some(open) => open.hour == hour && open.length + line.len() as u64 <= part && open.is_there()?,
            None => false,
        };
        if !goes_on {
            self.open = None;
            self.open = Some(self.create(hour)?);
            self.tidy(terms, now)?;
        }
        if let Some(open) = &mut self.open {
            open.file.write_all(line)?;
            open.length += line.len() as u64;
        }
        Ok(())
    }

    fn create(&mut self, hour: u64) -> io::Result<Open> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        self.files += 1;
        let name = format!("{hour:012}-{:016x}-{:06}{SUFFIX}", self.start, self.files);
        let path = self.folder.join(name);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Open {
            file,
            path,
            hour,
            length: 0,
        })
    }

    /// Removes files that are over their time, and the oldest ones until there is room for another.
    pub(super) fn tidy(&self, terms: &Terms, now: UnixMillis) -> io::Result<()> {
        let files = list(&self.folder)?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let keep = u64::try_from(terms.keep.as_millis()).unwrap_or(u64::MAX);
        let most = terms.max_size - terms.max_size / PARTS;
        for file in files {
            let ended = (file.hour + 1).saturating_mul(HOUR_MS);
            if ended.saturating_add(keep) > now.get() && bytes <= most {
                break;
            }
            remove(&file.path)?;
            bytes -= file.bytes;
        }
        Ok(())
    }
}

struct Listed {
    path: PathBuf,
    hour: u64,
    bytes: u64,
}

/// The files of a tenant, oldest first. None where there is no folder.
fn list(folder: &Path) -> io::Result<Vec<Listed>> {
    let mut files = Vec::new();
    for item in entries(folder)? {
        let name = item.file_name();
        let hour = name
            .to_str()
            .and_then(|name| name.strip_suffix(SUFFIX)?.split('-').next()?.parse().ok());
        if let Some(hour) = hour {
            let bytes = match item.metadata() {
                Ok(metadata) => metadata.len(),
                // Another gateway has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let path = item.path();
            files.push(Listed { path, hour, bytes });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(items) => items.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
