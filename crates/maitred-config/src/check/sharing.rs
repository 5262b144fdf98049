//! Checks of `sharing`.

use std::time::Duration;

use maitred_tenant::WithoutStore;

use super::Checker;
use crate::path::Path;
use crate::raw;
use crate::settings::SharingSettings;

/// How a server's address may begin.
const SCHEMES: [&str; 3] = ["redis://", "rediss://", "redis+unix://"];
/// How often a gateway may speak: the most and the least.
const PERIODS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl Checker<'_> {
    pub(super) fn sharing(&mut self, sharing: Option<&raw::Sharing>) -> Option<SharingSettings> {
        let sharing = sharing?;
        let top = Path::top("sharing");
        let period = sharing.period.get();
        if period < PERIODS.0 || period > PERIODS.1 {
            self.error(
                &top.key("period"),
                format!("a gateway cannot speak every {}", sharing.period),
                "say from `10ms` to `1s`: others take a gateway for gone that is silent for three seconds",
            );
        }
        let path = top.key("redis");
        let url = self.secret(&sharing.redis, &path)?;
        if !SCHEMES.iter().any(|scheme| url.expose().starts_with(scheme)) {
            // The address may hold a password, so it is not shown.
            self.error(
                &path,
                format!("{} holds no address of a server", sharing.redis),
                "it begins with `redis://`, `rediss://` or `redis+unix://`",
            );
        }
        Some(SharingSettings {
            url,
            group: sharing.group.as_str().to_owned(),
            period,
            gateways: u64::from(sharing.quotas.gateways),
            without_store: match sharing.quotas.without_store {
                raw::WithoutStore::LocalShare => WithoutStore::LocalShare,
                raw::WithoutStore::Refuse => WithoutStore::Refuse,
            },
        })
    }
}

#[cfg(test)]
mod tests;
