//! Checks of `audit`.

use maitred_types::ByteSize;

use super::Checker;
use crate::forms::{Size, TimeSpan};
use crate::path::Path;
use crate::raw;
use crate::settings::AuditSettings;

/// Sizes of a file: the newest is read at every start, and any is read in one piece.
const FILE_MIN: ByteSize = ByteSize::mib(1);
const FILE_MAX: ByteSize = ByteSize::mib(1024);
/// Files that there must be room for, so that it is not the newest entries that leave.
const FILES_MIN: u64 = 4;
/// Shortest time that entries are kept.
const KEEP_MIN: TimeSpan = TimeSpan::secs(3_600);

impl Checker<'_> {
    pub(super) fn audit(&mut self, raw: Option<&raw::Audit>) -> Option<AuditSettings> {
        let raw = raw?;
        let size = raw.file_size.get();
        if !(FILE_MIN..=FILE_MAX).contains(&size) {
            self.error(
                &Path::top("audit").key("file_size"),
                format!("{} is not a size of a file of the audit", raw.file_size),
                format!("write {FILE_MIN} to {FILE_MAX}"),
            );
        }
        let least = ByteSize::new(size.get().saturating_mul(FILES_MIN));
        if let Some(most) = raw.max_size.filter(|most| most.get() < least) {
            self.error(
                &Path::top("audit").key("max_size"),
                format!("{most} has no room for {FILES_MIN} files of {}", raw.file_size),
                format!("write at least {least}, or a smaller `file_size`"),
            );
        }
        if let Some(keep) = raw.keep.filter(|keep| *keep < KEEP_MIN) {
            self.error(
                &Path::top("audit").key("keep"),
                format!("after {keep} nobody has looked at what was entered"),
                format!("write at least {KEEP_MIN}, such as `2160h`"),
            );
        }
        Some(AuditSettings {
            folder: raw.folder.as_str().to_owned(),
            on_failure: raw.on_failure,
            durable: raw.durable,
            file_size: size,
            keep: raw.keep.map(TimeSpan::get),
            max_size: raw.max_size.map(Size::get),
        })
    }
}

#[cfg(test)]
mod tests;
