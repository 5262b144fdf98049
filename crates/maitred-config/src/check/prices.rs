//! Checks of `prices`.

use std::sync::Arc;

use maitred_tenant::{Charge, Money, Price, Prices, Rates};
use maitred_types::{PoolName, UnixMillis};

use super::Checker;
use crate::diagnostic::near_miss;
use crate::forms::{ModelPatternText, Moment, Name};
use crate::path::Path;
use crate::raw;

/// Tokens that rates are for if nothing is written.
const MILLION: u64 = 1_000_000;

impl Checker<'_> {
    pub(super) fn prices(&mut self, file: &raw::File) -> Arc<Prices> {
        let raw = file.prices.as_slice();
        let top = Path::top("prices");
        let found = self.diagnostics.len();
        for (index, price) in raw.iter().enumerate() {
            let path = top.index(index);
            self.price_subject(price, &path);
            let is_same = |other: &raw::Price| {
                (&other.model, &other.pool, from(other)) == (&price.model, &price.pool, from(price))
            };
            let earlier = raw.get(..index).unwrap_or_default();
            if let Some(first) = earlier.iter().position(is_same) {
                let line = self.tree.locate(&self.walked.original(&top.index(first))).line;
                let what = if price.pool.is_some() { "pool" } else { "models" };
                self.error(
                    &path,
                    format!("the price in line {line} is for the same {what} from the same date on"),
                    "leave one of them out, or let the later one begin later with `from`",
                );
            }
        }
        // What a mistyped price leaves without one is not another mistake.
        if !raw.is_empty() && self.diagnostics.len() == found {
            self.unpriced(file, &top);
        }
        Arc::new(Prices::new(raw.iter().filter_map(price)))
    }

    /// A price is for models or for a pool, and has the amounts of the one and none of the other.
    fn price_subject(&mut self, price: &raw::Price, path: &Path) {
        let of_tokens = [
            ("input", price.input.is_some()),
            ("output", price.output.is_some()),
            ("cached_input", price.cached_input.is_some()),
            ("per", price.per.is_some()),
        ];
        let of_hours = [
            ("per_gpu_hour", price.per_gpu_hour.is_some()),
            ("gpus", price.gpus.is_some()),
        ];
        match (&price.model, &price.pool) {
            (Some(model), None) => {
                self.price_models(model, path);
                self.price_amounts("model", (&of_tokens, 2), &of_hours, path);
            }
            (None, Some(pool)) => {
                self.price_pool(pool, path);
                self.price_amounts("pool", (&of_hours, 1), &of_tokens, path);
            }
            (Some(_), Some(_)) => self.error(
                path,
                "the price is for models and for a pool",
                "leave `model` out for a price of the pool's hours, or `pool` for one of tokens",
            ),
            (None, None) => self.error(
                path,
                "the price does not say for what it is",
                "add `model` for a price of tokens, or `pool` for one of its hours",
            ),
        }
    }

    /// The first `needed` of a price's own amounts must be written, and no foreign one.
    fn price_amounts(
        &mut self,
        subject: &str,
        (own, needed): (&[(&str, bool)], usize),
        foreign: &[(&str, bool)],
        path: &Path,
    ) {
        if let Some((name, _)) = own.iter().take(needed).find(|(_, is_written)| !is_written) {
            let message = format!("`{name}` is missing in this price");
            self.error(
                path,
                message,
                format!("a price with `{subject}` needs it; add `{name}: \"0.15\"`"),
            );
        }
        for (name, _) in foreign.iter().filter(|(_, is_written)| *is_written) {
            let message = format!("`{name}` says nothing in a price with `{subject}`");
            self.error(&path.key(name), message, "leave it out");
        }
    }

    /// A pattern that no model fits prices nothing; most likely it is mistyped.
    fn price_models(&mut self, pattern: &ModelPatternText, path: &Path) {
        let models = self.written_models();
        if models.iter().any(|model| pattern.get().matches(model)) {
            return;
        }
        let text = pattern.to_string();
        let help = match near_miss(&text, models.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "name a model of one of `pools` or `providers`, as clients name it".to_owned(),
        };
        self.error(
            &path.key("model"),
            format!("no pool serves a model that fits `{text}`, so this prices nothing"),
            help,
        );
    }

    fn price_pool(&mut self, pool: &Name, path: &Path) {
        let pools = self.written(&["pools", "name"]);
        if pools.contains(&pool.as_str()) {
            return;
        }
        let help = match near_miss(pool.as_str(), pools) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "name one of `pools`".to_owned(),
        };
        let message = format!("there is no pool `{pool}`, so this prices nothing");
        self.error(&path.key("pool"), message, help);
    }

    /// Where something has a price, what has none is most likely forgotten.
    fn unpriced(&mut self, file: &raw::File, top: &Path) {
        let fits = |price: &raw::Price, source: &Name, model: &str| {
            let by_model = price.model.as_ref().is_some_and(|models| models.get().matches(model));
            by_model
                || price
                    .pool
                    .as_ref()
                    .is_some_and(|priced| priced.as_str() == source.as_str())
        };
        let models = file
            .sources()
            .flat_map(|(name, models)| models.iter().map(move |model| (name, model.name.as_str())));
        let mut unpriced = models.filter(|(name, model)| !file.prices.iter().any(|price| fits(price, name, model)));
        if let Some((_, model)) = unpriced.next() {
            self.warn(
                top,
                format!("no price is for the model `{model}`, so its calls cost nothing"),
                "add a price for it, or one for `*`",
            );
        }
    }
}

fn from(price: &raw::Price) -> UnixMillis {
    price.from.map_or(UnixMillis::new(0), Moment::get)
}

/// The price; `None` if it lacks something, which has been reported.
fn price(raw: &raw::Price) -> Option<Price> {
    let since = raw.from.map_or_else(|| "always".to_owned(), |from| from.to_string());
    let (charge, version) = if let Some(pool) = &raw.pool {
        let (gpu, gpus) = (raw.per_gpu_hour?.billionths(), raw.gpus.unwrap_or(1));
        let charge = Charge::Hours {
            pool: PoolName::from(pool.as_str()),
            per_hour: gpu.saturating_mul(u64::from(gpus)),
        };
        (
            charge,
            format!("pool {pool}@{since} {gpus} x {} per GPU hour", Money(gpu)),
        )
    } else {
        let rates = Rates {
            input: raw.input?.billionths(),
            cached_input: raw.cached_input.or(raw.input)?.billionths(),
            output: raw.output?.billionths(),
        };
        let [input, cached, output] = [rates.input, rates.cached_input, rates.output].map(Money);
        let (models, per) = (raw.model.as_ref()?, raw.per.unwrap_or(MILLION));
        let version = format!("{models}@{since} {input}/{cached}/{output} per {per}");
        let models = models.get().clone();
        (Charge::Tokens { models, rates, per }, version)
    };
    Some(Price {
        from: from(raw),
        charge,
        version: version.into(),
    })
}

#[cfg(test)]
mod tests;
