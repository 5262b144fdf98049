//! Checks of `pools[].prefix`.

use std::time::Duration;

use maitred_sched::PrefixOptions;

use super::Checker;
use crate::path::Path;
use crate::raw;
use crate::settings::PrefixFile;

/// Least memory that is worth having.
const BYTES_MIN: u64 = 1 << 20;
/// How often the file may be written: each time the disk gets all that is remembered.
const EVERY_MIN: Duration = Duration::from_secs(1);

impl Checker<'_> {
    /// Two pools that write the same file would each undo what the other wrote.
    pub(super) fn prefix_files(&mut self, pools: &[raw::Pool]) {
        let top = Path::top("pools");
        let files = pools.iter().enumerate().filter_map(|(index, pool)| {
            let file = pool.prefix.snapshot.as_ref()?;
            let path = top.index(index).key("prefix").key("snapshot").key("path");
            Some((file.path.as_str(), path))
        });
        self.unique("snapshot file", files.collect::<Vec<_>>());
    }

    pub(super) fn prefix_file(&mut self, prefix: &raw::Prefix, path: &Path) -> Option<PrefixFile> {
        self.at_least(prefix.max_bytes, BYTES_MIN, &path.key("max_bytes"));
        let file = prefix.snapshot.as_ref()?;
        if file.every.get() < EVERY_MIN {
            self.error(
                &path.key("snapshot").key("every"),
                format!(
                    "{} is too short: each time all that is remembered is written",
                    file.every
                ),
                "write at least `1s`",
            );
        }
        Some(PrefixFile {
            path: file.path.as_str().to_owned(),
            every: file.every.get(),
        })
    }
}

pub(super) fn options(prefix: &raw::Prefix) -> PrefixOptions {
    PrefixOptions {
        max_bytes: usize::try_from(prefix.max_bytes.get().get()).unwrap_or(usize::MAX),
        ..PrefixOptions::default()
    }
}
