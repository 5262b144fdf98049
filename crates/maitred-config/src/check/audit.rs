//! Checks of `audit`.

use maitred_types::ByteSize;

use super::Checker;
use crate::path::Path;
use crate::raw;
use crate::settings::AuditSettings;

/// Sizes of a file: the newest is read at every start, and any is read in one piece.
const FILE_MIN: ByteSize = ByteSize::mib(1);
const FILE_MAX: ByteSize = ByteSize::mib(1024);

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
        Some(AuditSettings {
            folder: raw.folder.as_str().to_owned(),
            on_failure: raw.on_failure,
            durable: raw.durable,
            file_size: size,
        })
    }
}
