//! Checks of `ledger`.

use maitred_types::ByteSize;

use super::Checker;
use crate::forms::AmountText;
use crate::path::Path;
use crate::raw;
use crate::settings::{LedgerSettings, LedgerStore};

/// Smallest spool: a few of the files that it consists of.
const SPOOL_MIN: ByteSize = ByteSize::mib(64);

impl Checker<'_> {
    pub(super) fn ledger(&mut self, raw: Option<&raw::Ledger>) -> Option<LedgerSettings> {
        let raw = raw?;
        let path = Path::top("ledger");
        let store = match (&raw.sqlite, &raw.postgres) {
            (Some(file), None) => Some(LedgerStore::Sqlite(file.as_str().to_owned())),
            (None, Some(at)) => self.secret(at, &path.key("postgres")).map(LedgerStore::Postgres),
            (Some(_), Some(_)) => {
                self.error(
                    &path.key("postgres"),
                    "the ledger has two databases, `sqlite` and `postgres`",
                    "leave one of them out",
                );
                None
            }
            (None, None) => {
                self.error(
                    &path,
                    "the ledger has no database",
                    "add `sqlite: ledger.db`, or `postgres: { env: NAME }` for several gateways",
                );
                None
            }
        };
        if raw.sqlite.is_none() && raw.postgres.is_some() && raw.spool.is_none() {
            self.error(
                &path,
                "with `postgres` the ledger needs a folder for its spool",
                "add `spool: FOLDER`, on a disk that outlives the gateway",
            );
        }
        if raw.spool_max.get() < SPOOL_MIN {
            let message = format!("{} is too small to be useful", raw.spool_max);
            self.error(&path.key("spool_max"), message, format!("write at least {SPOOL_MIN}"));
        }
        self.positive(raw.wait, &path.key("wait"));
        Some(LedgerSettings {
            store: store?,
            spool: raw.spool.as_ref().map(|spool| spool.as_str().to_owned()),
            spool_max: raw.spool_max.get(),
            policy: raw.policy,
            wait: raw.wait.get(),
            durable: raw.durable,
            keep_months: raw.keep_months,
        })
    }
}

/// An amount that limits; none if it is not written.
pub(super) fn billionths(amount: Option<AmountText>) -> Option<u64> {
    amount.map(AmountText::billionths)
}

#[cfg(test)]
mod tests;
