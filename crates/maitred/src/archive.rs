//! The archive of decision records, as `maitred serve` opens and closes it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use maitred_config::ArchiveSettings;
use maitred_obs::ArchiveMeters;
use maitred_runtime::Runtime;
use maitred_store::archive::{Archive, ArchiveOptions, Finished};
use maitred_store::audit::Audit;

use crate::config_file::beside;
use crate::ledger::{now, start};

/// How long the disk may take for the last records.
const LAST: Duration = Duration::from_secs(5);

/// Opens the archive that decision records go to. The audit, if there is one, says of each of its files how it ends.
pub(crate) fn open(
    config: &Path,
    settings: &ArchiveSettings,
    meters: ArchiveMeters,
    audit: Option<Arc<Audit>>,
) -> anyhow::Result<Archive> {
    let folder = beside(config, &settings.folder);
    let options = ArchiveOptions {
        folder: folder.clone(),
        keep: settings.keep,
        max_bytes: settings.max_size.get(),
        start: start()?,
        now,
    };
    let finished: Finished = Box::new(move |file, head| {
        if let Some(audit) = &audit {
            audit.enter_archived(file, head);
        }
    });
    Archive::open(options, meters, finished)
        .with_context(|| format!("decision records cannot be archived in {}", folder.display()))
}

/// Writes the last records. All calls are over by now.
pub(crate) async fn close(runtime: &Arc<Runtime>) {
    let runtime = Arc::clone(runtime);
    let closed = tokio::task::spawn_blocking(move || {
        let archive = runtime.decisions().archive();
        archive.is_none_or(|archive| archive.close(LAST))
    });
    if !closed.await.unwrap_or(false) {
        tracing::warn!("the last decision records could not be archived in time");
    }
}
