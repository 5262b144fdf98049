//! Texts of calls, of tenants that want them kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use maitred_config::TextSettings;
use maitred_store::texts::{Terms, Texts};
use maitred_types::TenantId;

use crate::runtime::Runtime;

impl Runtime {
    /// From now on the text of calls goes to `texts`, of those tenants that want it. Only the first one counts.
    pub fn keep_texts(&self, texts: Texts) {
        self.texts.get_or_init(|| Arc::new(texts));
        self.set_text_terms(&self.snapshot().settings().texts);
    }

    /// Where texts go, if they may go anywhere.
    #[must_use]
    pub fn texts(&self) -> Option<&Arc<Texts>> {
        self.texts.get()
    }

    /// Follows who wants what.
    pub(crate) fn set_text_terms(&self, wanted: &BTreeMap<TenantId, TextSettings>) {
        let Some(texts) = self.texts() else { return };
        let terms = wanted.iter().map(|(tenant, settings)| {
            let terms = Terms {
                keep: settings.keep,
                max_size: settings.max_size.get(),
            };
            (tenant.as_str().to_owned(), terms)
        });
        texts.set_terms(terms.collect());
    }
}
