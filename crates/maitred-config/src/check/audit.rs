//! Checks of `audit`.

use std::collections::BTreeMap;

use maitred_types::{ByteSize, TenantId};

use super::{Checker, access};
use crate::diagnostic::near_miss;
use crate::forms::{Size, TimeSpan};
use crate::path::Path;
use crate::raw;
use crate::settings::{AuditSettings, TextSettings};

/// Sizes of a file: the newest is read at every start, and any is read in one piece.
const FILE_MIN: ByteSize = ByteSize::mib(1);
const FILE_MAX: ByteSize = ByteSize::mib(1024);
/// Files that there must be room for, so that it is not the newest entries that leave.
const FILES_MIN: u64 = 4;
/// Shortest time that entries are kept.
const KEEP_MIN: TimeSpan = TimeSpan::secs(3_600);

/// Sizes of what is kept of a call's question or answer.
const CALL_MIN: ByteSize = ByteSize::new(1 << 10);
const CALL_MAX: ByteSize = ByteSize::mib(4);
/// Calls that there must be room for at least.
const CALLS_MIN: u64 = 64;

impl Checker<'_> {
    /// The tenants whose texts are kept. It is a setting of its own, so that who wants no more has nothing kept from the next reload on.
    pub(super) fn texts(&mut self, file: &raw::File) -> BTreeMap<TenantId, TextSettings> {
        let mut all = BTreeMap::new();
        let (top, texts) = match &file.audit {
            Some(audit) => (Path::top("audit").key("text"), audit.text.as_slice()),
            None => return all,
        };
        let places = texts.iter().enumerate();
        self.unique(
            "tenant",
            places.map(|(index, text)| (text.tenant.as_str(), top.index(index).key("tenant"))),
        );
        let known = access::tenants(file);
        for (index, text) in texts.iter().enumerate() {
            let path = top.index(index);
            let name = text.tenant.as_str();
            if let Some(known) = known.as_ref().filter(|known| !known.contains(&name)) {
                let near = near_miss(name, known.iter().copied());
                self.error(
                    &path.key("tenant"),
                    format!("nobody can call as the tenant `{name}`, so nothing is kept"),
                    near.map_or_else(
                        || "name the tenant of a key".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    ),
                );
            }
            self.text(text, &path);
            let settings = TextSettings {
                keep: text.keep.get(),
                max_size: text.max_size.get(),
                max_call: text.max_call.get(),
            };
            all.insert(TenantId::from(text.tenant.as_str()), settings);
        }
        all
    }

    fn text(&mut self, text: &raw::AuditText, path: &Path) {
        if text.keep < KEEP_MIN {
            let message = format!("after {} nobody has looked at what was kept", text.keep);
            self.error(
                &path.key("keep"),
                message,
                format!("write at least {KEEP_MIN}, such as `720h`"),
            );
        }
        let call = text.max_call.get();
        if !(CALL_MIN..=CALL_MAX).contains(&call) {
            let message = format!("{} is not a size of a call's text", text.max_call);
            self.error(
                &path.key("max_call"),
                message,
                format!("write {CALL_MIN} to {CALL_MAX}"),
            );
        }
        let least = ByteSize::new(call.get().saturating_mul(CALLS_MIN));
        if text.max_size.get() < least {
            let message = format!(
                "{} has no room for {CALLS_MIN} calls of {}",
                text.max_size, text.max_call
            );
            self.error(
                &path.key("max_size"),
                message,
                format!("write at least {least}, or a smaller `max_call`"),
            );
        }
    }

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
