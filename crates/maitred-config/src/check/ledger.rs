//! Checks of `ledger` and `prices`.

use std::sync::Arc;

use maitred_tenant::{Money, Price, Prices, Rates};
use maitred_types::{ByteSize, UnixMillis};

use super::Checker;
use crate::diagnostic::near_miss;
use crate::forms::{AmountText, Moment};
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

    pub(super) fn prices(&mut self, raw: &[raw::Price]) -> Arc<Prices> {
        let top = Path::top("prices");
        let models = self.written(&["pools", "models", "name"]);
        for (index, price) in raw.iter().enumerate() {
            let path = top.index(index);
            self.price_models(price, &models, &path);
            let is_same = |other: &&raw::Price| other.model.get() == price.model.get() && from(other) == from(price);
            let earlier = raw.get(..index).unwrap_or_default();
            if let Some(first) = earlier.iter().position(|other| is_same(&other)) {
                let line = self.tree.locate(&self.walked.original(&top.index(first))).line;
                self.error(
                    &path,
                    format!("the price in line {line} is for the same models from the same date on"),
                    "leave one of them out, or let the later one begin later with `from`",
                );
            }
        }
        let prices = Prices::new(raw.iter().map(price));
        let is_unpriced = |model: &&str| !raw.iter().any(|price| price.model.get().matches(model));
        if let (false, Some(model)) = (raw.is_empty(), models.iter().copied().find(|model| is_unpriced(model))) {
            self.warn(
                &top,
                format!("no price is for the model `{model}`, so its calls cost nothing"),
                "add a price for it, or one for `*`",
            );
        }
        Arc::new(prices)
    }

    /// A pattern that no model fits prices nothing; most likely it is mistyped.
    fn price_models(&mut self, price: &raw::Price, models: &[&str], path: &Path) {
        if models.iter().any(|model| price.model.get().matches(model)) {
            return;
        }
        let text = price.model.to_string();
        let help = match near_miss(&text, models.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "name a model of one of `pools`, as clients name it".to_owned(),
        };
        self.error(
            &path.key("model"),
            format!("no pool serves a model that fits `{text}`, so this prices nothing"),
            help,
        );
    }
}

fn from(price: &raw::Price) -> UnixMillis {
    price.from.map_or(UnixMillis::new(0), Moment::get)
}

fn price(raw: &raw::Price) -> Price {
    let rates = Rates {
        input: raw.input.billionths(),
        cached_input: raw.cached_input.unwrap_or(raw.input).billionths(),
        output: raw.output.billionths(),
    };
    let [input, cached, output] = [rates.input, rates.cached_input, rates.output].map(Money);
    let since = raw.from.map_or_else(|| "always".to_owned(), |from| from.to_string());
    Price {
        models: raw.model.get().clone(),
        from: from(raw),
        rates,
        per: raw.per,
        version: format!("{}@{since} {input}/{cached}/{output} per {}", raw.model, raw.per).into(),
    }
}

/// An amount that limits; none if it is not written.
pub(super) fn billionths(amount: Option<AmountText>) -> Option<u64> {
    amount.map(AmountText::billionths)
}

#[cfg(test)]
mod tests;
