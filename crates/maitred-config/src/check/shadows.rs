//! Checks of `pools[].shadow`.

use super::Checker;
use super::profiles::Profiles;
use crate::diagnostic::{listed, near_miss};
use crate::path::Path;
use crate::raw;
use crate::settings::ShadowSettings;

impl Checker<'_> {
    /// Every shadow is a profile, and not the live one.
    pub(super) fn shadows(&mut self, pool: &raw::Pool, profiles: &Profiles, path: &Path) -> ShadowSettings {
        let top = path.key("shadow");
        let at = top.key("profiles");
        let names = pool.shadow.profiles.iter().enumerate();
        self.unique(
            "shadow profile",
            names.clone().map(|(index, name)| (name.as_str(), at.index(index))),
        );
        for (index, name) in names {
            let at = at.index(index);
            if *name == pool.profile {
                self.warn(
                    &at,
                    format!("`{name}` is the profile that the pool chooses by, so the two differ by chance alone"),
                    "name another profile, or none",
                );
            }
            self.is_profile(name.as_str(), profiles, &at);
        }
        let share = pool.shadow.share.fraction();
        if share <= 0.0 && !pool.shadow.profiles.is_empty() {
            self.warn(
                &top.key("share"),
                "the shadow profiles look at no ask",
                "write a share above 0%, or name no profiles",
            );
        }
        let named = pool.shadow.profiles.iter();
        ShadowSettings {
            profiles: named
                .map(|name| (name.as_str().to_owned(), profiles.get(name.as_str())))
                .collect(),
            share,
        }
    }

    /// Whether there is a profile of that name; reports it if not, unless it stands in a broken part of the file.
    pub(super) fn is_profile(&mut self, name: &str, profiles: &Profiles, at: &Path) -> bool {
        if profiles.names().contains(&name) {
            return true;
        }
        if !self.written(&["profiles", "name"]).contains(&name) {
            let guess = near_miss(name, profiles.names()).map(|name| format!("did you mean `{name}`?\n"));
            let known = listed(profiles.names(), "and");
            self.error(
                at,
                format!("there is no profile `{name}`"),
                format!("{}profiles: {known}", guess.unwrap_or_default()),
            );
        }
        false
    }
}
