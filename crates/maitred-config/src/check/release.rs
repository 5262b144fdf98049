//! Checks of `pools[].release`.

use maitred_route::release::Release;
use maitred_types::PoolName;

use super::Checker;
use crate::forms::Name;
use crate::path::Path;
use crate::raw;
use crate::settings::EngineSettings;

impl Checker<'_> {
    /// What is named must be told by every engine of the pool; an endpoint that cannot tell it would never get a call.
    pub(super) fn release(&mut self, pool: &raw::Pool, engines: &[&EngineSettings], path: &Path) -> Option<Release> {
        let said = pool.release.as_ref()?;
        let top = path.key("release");
        if let Some(silent) = engines.iter().find(|known| known.engine.identity_pages().is_empty()) {
            self.error(
                &top,
                format!(
                    "{} does not tell what it runs, so nothing can be compared",
                    silent.engine
                ),
                "leave `release` out, or keep such endpoints in a pool of their own",
            );
        }
        if said.quantization.is_some() {
            let silent = engines.iter().find(|known| !known.engine.tells_quantization());
            if let Some(silent) = silent.filter(|known| !known.engine.identity_pages().is_empty()) {
                self.error(
                    &top.key("quantization"),
                    format!("{} does not tell how its weights are quantised", silent.engine),
                    "leave `quantization` out; where it is part of the weights' name, `weights` says it",
                );
            }
        }
        let text = |name: &Name| name.as_str().to_owned();
        Some(Release {
            name: text(&said.name),
            pool: PoolName::from(pool.name.as_str()),
            weights: text(&said.weights),
            engine: said.engine.as_ref().map(text),
            quantization: said.quantization.as_ref().map(text),
            chat_template: None,
            route: None,
        })
    }
}

#[cfg(test)]
mod tests;
