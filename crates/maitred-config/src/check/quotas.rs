//! Checks of `quotas` and `tasks`.

use std::collections::BTreeSet;
use std::time::Duration;

use maitred_tenant::{Dimensions, Limit, LimitMatch, Measure, UserId};
use maitred_types::{KeyId, TenantId};

use super::ledger::billionths;
use super::{Checker, access};
use crate::diagnostic::near_miss;
use crate::forms::{ModelPatternText, Name};
use crate::path::Path;
use crate::raw::{self, Dimension};
use crate::settings::QuotaSettings;

/// What the limit is called that `tasks.tokens` makes.
const TASKS: &str = "tasks";
/// The largest amount that the store of shared quota counts exactly: nine million units of money, and far more of all else.
const SHARED_AMOUNT_MAX: u64 = 9_000_000_000_000_000;

impl Checker<'_> {
    pub(super) fn quotas(&mut self, file: &raw::File) -> QuotaSettings {
        let top = Path::top("quotas");
        let names = file.quotas.iter().enumerate();
        self.unique(
            "quota name",
            names.map(|(index, quota)| (quota.name.as_str(), top.index(index).key("name"))),
        );
        let (mut limits, mut paths) = (Vec::new(), Vec::new());
        for (index, quota) in file.quotas.iter().enumerate() {
            let path = top.index(index);
            self.quota_owners(quota, file, &path);
            self.quota_measures(quota, &path);
            self.quota_money(quota, &file.prices, &path);
            self.quota_shared(quota, file.sharing.is_some(), &path);
            for limit in limits_of(quota) {
                self.overlap(&limit, &limits, &path);
                paths.push(path.key(key_of(limit.measure)));
                limits.push(limit);
            }
        }
        for (limit, path) in limits.iter().zip(&paths) {
            self.shadowed(limit, &limits, path);
        }
        limits.push(Limit {
            name: TASKS.to_owned(),
            only: LimitMatch::default(),
            per: Dimensions::TASK,
            measure: Measure::TokensPerTask,
            amount: file.tasks.tokens,
            is_default: true,
        });
        QuotaSettings {
            limits,
            task_header: file.tasks.header.as_str().to_owned(),
        }
    }

    /// A limit on somebody or something that does not exist limits nothing; most likely it is mistyped.
    fn quota_owners(&mut self, quota: &raw::Quota, file: &raw::File, path: &Path) {
        let keys: Vec<&str> = file.auth.keys.iter().map(|key| key.hash.get().id().as_str()).collect();
        if file.admin.changes.is_none() {
            self.owner("key", quota.key.as_ref(), &keys, path);
        }
        if let Some(tenants) = access::tenants(file) {
            self.owner("tenant", quota.tenant.as_ref(), &tenants, path);
        }
        if let Some(users) = access::users(file) {
            self.owner("user", quota.user.as_ref(), &users, path);
        }
        let models = self.written_models();
        if let Some(pattern) = &quota.model
            && !models.iter().any(|model| pattern.get().matches(model))
        {
            let help = match near_miss(&pattern.to_string(), models.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "name a model of one of `pools` or `providers`, as clients name it".to_owned(),
            };
            self.error(
                &path.key("model"),
                format!("no pool serves a model that fits `{pattern}`, so this limits nothing"),
                help,
            );
        }
    }

    fn owner(&mut self, what: &str, named: Option<&Name>, known: &[&str], path: &Path) {
        let Some(name) = named.map(Name::as_str).filter(|name| !known.contains(name)) else {
            return;
        };
        let help = match near_miss(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("name a {what} of one of `auth.keys`"),
        };
        self.error(
            &path.key(what),
            format!("no key is of the {what} `{name}`, so this limits nothing"),
            help,
        );
    }

    fn quota_measures(&mut self, quota: &raw::Quota, path: &Path) {
        if limits_of(quota).is_empty() {
            self.error(
                path,
                format!("the quota `{}` limits nothing", quota.name),
                "add one or more of `calls_per_second`, `concurrent_calls`, `tokens_per_minute`, `tokens_per_day`, `tokens_per_task` and `money_per_month`",
            );
        }
        if quota.burst.is_some() && quota.calls_per_second.is_none() {
            self.error(
                &path.key("burst"),
                "a burst needs a rate",
                "add `calls_per_second`, or leave `burst` out",
            );
        }
        let mut seen = BTreeSet::new();
        for (index, dimension) in quota.per.iter().enumerate() {
            if !seen.insert(dimension.0) {
                self.error(
                    &path.key("per").index(index),
                    "this stands here twice",
                    "leave one of them out",
                );
            }
        }
        if quota
            .tokens_per_minute
            .zip(quota.tokens_per_day)
            .is_some_and(|(minute, day)| minute > day)
        {
            self.warn(
                &path.key("tokens_per_minute"),
                "a minute may use more than a whole day, so this never limits anything",
                "`tokens_per_day` is larger than `tokens_per_minute`",
            );
        }
    }

    /// Without prices nothing costs anything, and the limit never says a word.
    fn quota_money(&mut self, quota: &raw::Quota, prices: &[raw::Price], path: &Path) {
        if quota.money_per_month.is_some() && prices.is_empty() {
            self.error(
                &path.key("money_per_month"),
                "there are no prices, so this limits nothing",
                "add `prices`, with what the models of `pools` cost",
            );
        }
    }

    /// The store of shared quota counts exactly up to a bound.
    fn quota_shared(&mut self, quota: &raw::Quota, is_shared: bool, path: &Path) {
        let is_too_much = |limit: &Limit| limit.amount > SHARED_AMOUNT_MAX;
        if is_shared && limits_of(quota).iter().any(is_too_much) {
            self.error(
                &path.key("money_per_month"),
                "with `sharing` this is more money than can be counted exactly",
                "say at most `9000000`, or split the quota by `per`",
            );
        }
    }

    /// A limit that another one, which is for more calls and allows no more, always comes before.
    fn shadowed(&mut self, limit: &Limit, all: &[Limit], path: &Path) {
        if limit.measure == Measure::TokensPerTask {
            return;
        }
        if let Some(wide) = all.iter().find(|wide| is_shadowed(limit, wide)) {
            self.warn(
                path,
                format!(
                    "the quota `{}` is for the same calls and more, and allows no more, so this never limits anything",
                    wide.name
                ),
                "allow less here, or leave it out: all limits that are for a call must have room for it",
            );
        }
    }

    /// Two limits on the same thing, counted alike: the larger one never says anything.
    fn overlap(&mut self, limit: &Limit, before: &[Limit], path: &Path) {
        let is_same = |other: &&Limit| {
            other.only == limit.only
                && other.per == limit.per
                && other.measure.name() == limit.measure.name()
                && other.name != limit.name
        };
        if let Some(other) = before.iter().find(is_same) {
            self.warn(
                &path.key(key_of(limit.measure)),
                format!(
                    "the quota `{}` limits the same, so only the smaller amount counts",
                    other.name
                ),
                "leave one of them out, or tell them apart by `tenant`, `model` or `per`",
            );
        }
    }
}

/// Whether `narrow` never says anything because of `wide`: whatever counts for it counts for that too, which allows no more.
fn is_shadowed(narrow: &Limit, wide: &Limit) -> bool {
    fn covers<T: PartialEq>(wide: Option<&T>, narrow: Option<&T>) -> bool {
        wide.is_none() || wide == narrow
    }
    let (one, all) = (&narrow.only, &wide.only);
    let is_wider = covers(all.tenant.as_ref(), one.tenant.as_ref())
        && covers(all.user.as_ref(), one.user.as_ref())
        && covers(all.key.as_ref(), one.key.as_ref())
        && covers(all.model.as_ref(), one.model.as_ref());
    // What the narrow one is for alone needs no counter of its own. A key has one tenant; users and tasks are a tenant's own.
    let mut counted = narrow.per;
    let of_tenant = one.tenant.is_some()
        || one.key.is_some()
        || [Dimensions::KEY, Dimensions::USER, Dimensions::TASK]
            .iter()
            .any(|per| counted.has(*per));
    let fixed = [
        (of_tenant, Dimensions::TENANT),
        (one.key.is_some(), Dimensions::KEY),
        (one.user.is_some() && one.tenant.is_some(), Dimensions::USER),
    ];
    for (_, dimension) in fixed.iter().filter(|(is_fixed, _)| *is_fixed) {
        counted = counted.and(*dimension);
    }
    let allows_no_more = match (narrow.measure, wide.measure) {
        (Measure::Calls { burst, .. }, Measure::Calls { burst: wide_burst, .. }) => {
            wide.amount <= narrow.amount && wide_burst <= burst
        }
        (one, all) => one == all && wide.amount <= narrow.amount,
    };
    let is_other = one != all || narrow.per != wide.per;
    narrow.name != wide.name && is_other && is_wider && counted.has(wide.per) && allows_no_more
}

/// The key of the file that a measure comes from.
const fn key_of(measure: Measure) -> &'static str {
    match measure {
        Measure::Calls { .. } => "calls_per_second",
        other => other.name(),
    }
}

pub(crate) fn limits_of(quota: &raw::Quota) -> Vec<Limit> {
    let calls = quota.calls_per_second.map(|amount| {
        let burst = quota.burst.unwrap_or_else(|| u32::try_from(amount).unwrap_or(u32::MAX));
        let period = Duration::from_secs(1);
        (Measure::Calls { period, burst }, amount)
    });
    let of = |measure: Measure, amount: Option<u64>| amount.map(|amount| (measure, amount));
    let all = [
        calls,
        of(Measure::ConcurrentCalls, quota.concurrent_calls),
        of(Measure::TokensPerMinute, quota.tokens_per_minute),
        of(Measure::TokensPerDay, quota.tokens_per_day),
        of(Measure::TokensPerTask, quota.tokens_per_task),
        of(Measure::MoneyPerMonth, billionths(quota.money_per_month)),
    ];
    let limits = all.into_iter().flatten().map(|(measure, amount)| Limit {
        name: quota.name.as_str().to_owned(),
        only: LimitMatch {
            tenant: quota.tenant.as_ref().map(|tenant| TenantId::from(tenant.as_str())),
            user: quota.user.as_ref().map(|user| UserId::from(user.as_str())),
            key: quota.key.as_ref().map(|key| KeyId::from(key.as_str())),
            model: quota.model.as_ref().map(ModelPatternText::get).cloned(),
        },
        per: quota
            .per
            .iter()
            .fold(Dimensions::NONE, |per, dimension| per.and(dimensions(dimension.0))),
        measure,
        amount,
        is_default: false,
    });
    limits.collect()
}

const fn dimensions(dimension: Dimension) -> Dimensions {
    match dimension {
        Dimension::Tenant => Dimensions::TENANT,
        Dimension::User => Dimensions::USER,
        Dimension::Key => Dimensions::KEY,
        Dimension::Model => Dimensions::MODEL,
        Dimension::Task => Dimensions::TASK,
    }
}
