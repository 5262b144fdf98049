//! Checks of `answers`.

use std::collections::{BTreeMap, BTreeSet};

use maitred_route::Routing;
use maitred_types::{ModelName, TenantId};

use super::{Checker, access};
use crate::diagnostic::near_miss;
use crate::forms::Name;
use crate::path::Path;
use crate::raw;
use crate::settings::{AnswerSettings, KeptModelSettings};

impl Checker<'_> {
    pub(super) fn answers(&mut self, file: &raw::File, routing: &Routing) -> Option<AnswerSettings> {
        let answers = file.answers.as_ref()?;
        let top = Path::top("answers");
        if answers.largest.get() > answers.size.get() {
            self.error(
                &top.key("largest"),
                format!("an answer of {} has no room in {}", answers.largest, answers.size),
                "raise `size`, or keep smaller answers only",
            );
        }
        let models = answers.models.iter().enumerate();
        self.unique(
            "model",
            models
                .clone()
                .map(|(index, kept)| (kept.model.as_str(), top.key("models").index(index).key("model"))),
        );
        let names: BTreeSet<&str> = routing.names().map(ModelName::as_str).collect();
        for (index, kept) in models {
            let path = top.key("models").index(index);
            self.positive(kept.keep, &path.key("keep"));
            self.is_asked_for(&kept.model, &names, &path.key("model"));
        }
        self.keep_for(file, &answers.tenants, &top.key("tenants"));
        let rules = answers.models.iter().map(|kept| {
            let settings = KeptModelSettings {
                keep: kept.keep.get(),
                calls: kept.calls,
            };
            (ModelName::from(kept.model.as_str()), settings)
        });
        Some(AnswerSettings {
            models: rules.collect::<BTreeMap<_, _>>(),
            tenants: answers
                .tenants
                .iter()
                .map(|tenant| TenantId::from(tenant.as_str()))
                .collect(),
            size: answers.size.get(),
            largest: answers.largest.get(),
        })
    }

    /// Answers of a name that nobody can ask for are kept in vain; most likely it is mistyped.
    fn is_asked_for(&mut self, model: &Name, names: &BTreeSet<&str>, path: &Path) {
        let is_unsure = self.is_broken(&Path::top("pools")) || self.is_broken(&Path::top("routes"));
        if is_unsure || names.contains(model.as_str()) {
            return;
        }
        let help = match near_miss(model.as_str(), names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name a model of `pools` or a route".to_owned(),
        };
        self.error(path, format!("there is no model `{model}` to ask for"), help);
    }

    fn keep_for(&mut self, file: &raw::File, tenants: &[Name], path: &Path) {
        let each = || tenants.iter().enumerate();
        self.unique(
            "tenant",
            each().map(|(index, tenant)| (tenant.as_str(), path.index(index))),
        );
        let Some(known) = access::tenants(file) else { return };
        for (index, tenant) in each().filter(|(_, tenant)| !known.contains(&tenant.as_str())) {
            let help = match near_miss(tenant.as_str(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a tenant of `auth`".to_owned(),
            };
            self.error(
                &path.index(index),
                format!("nobody is of the tenant `{tenant}`, so nothing is kept for it"),
                help,
            );
        }
    }
}
