//! Checks of `classes`, `tenants` and `pools[].waiting`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use maitred_sched::{ClassOptions, WaitingOptions};
use maitred_types::TenantId;

use super::{Checker, access};
use crate::diagnostic::{listed, near_miss};
use crate::forms::{Name, TimeSpan};
use crate::path::Path;
use crate::raw;
use crate::settings::ClassSettings;

impl Checker<'_> {
    /// The classes, highest first, and what callers have to do with them.
    pub(super) fn classes(&mut self, file: &raw::File) -> ClassSettings {
        let top = Path::top("classes");
        let classes = || file.classes.iter().enumerate();
        self.unique(
            "class name",
            classes().map(|(index, class)| (class.name.as_str(), top.index(index).key("name"))),
        );
        self.unique(
            "priority",
            classes().map(|(index, class)| (class.priority, top.index(index).key("priority"))),
        );
        for (index, class) in classes() {
            if let Some(wait) = class.max_wait {
                self.positive(wait, &top.index(index).key("max_wait"));
            }
        }
        let names: Vec<&str> = file.classes.iter().map(|class| class.name.as_str()).collect();
        self.class_name(&file.default_class, &names, &Path::top("default_class"));
        let keys = Path::top("auth").key("keys");
        for (index, key) in file.auth.keys.iter().enumerate() {
            if let Some(class) = &key.class {
                self.class_name(class, &names, &keys.index(index).key("class"));
            }
        }
        let mut sorted: Vec<&raw::Class> = file.classes.iter().collect();
        sorted.sort_by_key(|class| Reverse(class.priority));
        let default = sorted.iter().position(|class| class.name == file.default_class);
        ClassSettings {
            classes: sorted.into_iter().map(class).collect(),
            default: default.unwrap_or_default(),
            weights: self.weights(file),
        }
    }

    fn class_name(&mut self, name: &Name, known: &[&str], path: &Path) {
        if known.contains(&name.as_str()) || self.is_broken(&Path::top("classes")) {
            return;
        }
        let guess = near_miss(name.as_str(), known.iter().copied());
        let guess = guess
            .map(|near| format!("did you mean `{near}`?\n"))
            .unwrap_or_default();
        self.error(
            path,
            format!("there is no class `{name}`"),
            format!("{guess}classes: {}", listed(known.iter().copied(), "and")),
        );
    }

    /// A weight of somebody who does not exist weighs nothing; most likely the name is mistyped.
    fn weights(&mut self, file: &raw::File) -> BTreeMap<TenantId, u32> {
        let top = Path::top("tenants");
        let tenants = || file.tenants.iter().enumerate();
        self.unique(
            "tenant",
            tenants().map(|(index, tenant)| (tenant.name.as_str(), top.index(index).key("name"))),
        );
        let known = access::tenants(file);
        for (index, tenant) in tenants() {
            let Some(known) = &known else { break };
            if known.contains(&tenant.name.as_str()) {
                continue;
            }
            let help = match near_miss(tenant.name.as_str(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a tenant of one of `auth.keys`".to_owned(),
            };
            self.error(
                &top.index(index).key("name"),
                format!("no key is of the tenant `{}`", tenant.name),
                help,
            );
        }
        let weights = file.tenants.iter();
        weights
            .map(|tenant| (TenantId::from(tenant.name.as_str()), tenant.weight))
            .collect()
    }

    /// How the pool lets calls wait.
    pub(super) fn waiting(&mut self, waiting: &raw::Waiting, classes: &ClassSettings, path: &Path) -> WaitingOptions {
        self.positive(waiting.max_wait, &path.key("max_wait"));
        let times = [
            ("prefill_time", waiting.prefill_time),
            ("token_time", waiting.token_time),
        ];
        for (key, time) in times {
            if let Some(time) = time {
                self.positive(time, &path.key(key));
            }
        }
        if waiting.kv_cache.fraction() <= 0.0 {
            self.error(
                &path.key("kv_cache"),
                "no endpoint would ever have room",
                "write a share such as `80%`",
            );
        }
        WaitingOptions {
            calls: waiting.calls,
            bytes: waiting.bytes.get().get(),
            max_wait: waiting.max_wait.get(),
            prefill_tokens: waiting.prefill_tokens,
            prefill_time: waiting.prefill_time.map(TimeSpan::get),
            token_time: waiting.token_time.map(TimeSpan::get),
            queued: waiting.queue,
            kv_used: waiting.kv_cache.fraction(),
            headroom: waiting.headroom.fraction(),
            size_age: waiting.size_age.get(),
            class_age: waiting.class_age.get(),
            classes: classes.classes.clone(),
            default_class: classes.default,
        }
    }
}

fn class(class: &raw::Class) -> ClassOptions {
    ClassOptions {
        name: Arc::from(class.name.as_str()),
        sheddable: class.sheddable,
        max_wait: class.max_wait.map(TimeSpan::get),
    }
}
