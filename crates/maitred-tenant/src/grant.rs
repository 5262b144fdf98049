//! What a key grants.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use maitred_types::{KeyId, TenantId, UnixMillis};

use crate::{KeyHash, OnBehalf};

/// One key as it is stored: its hash, whose it is, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyGrant {
    /// The hash of the key.
    pub hash: KeyHash,
    /// Who owns it.
    pub tenant: TenantId,
    /// On behalf of which user of the tenant it is used, if only one does.
    pub user: Option<UserId>,
    /// For whom else its holder may make calls.
    pub on_behalf: OnBehalf,
    /// Whether several may use it although nobody can say then who has made a call.
    pub is_shared: bool,
    /// Which models it may use.
    pub models: ModelGrant,
    /// The class of its calls, and the highest that they may ask for; the default class if absent.
    pub class: Option<Arc<str>>,
    /// The first instant at which it is valid; valid from the start when absent.
    pub not_before: Option<UnixMillis>,
    /// The first instant at which it is no longer valid; valid until removed when absent.
    pub expires: Option<UnixMillis>,
}

impl KeyGrant {
    /// The public part of the key.
    #[must_use]
    pub fn id(&self) -> &KeyId {
        self.hash.id()
    }

    /// Whether the key may use `model`, named as the client names it.
    #[must_use]
    pub fn may_use(&self, model: &str) -> bool {
        self.models.allows(model)
    }
}

/// A user of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(Arc<str>);

impl UserId {
    /// The user's name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for UserId {
    fn from(name: &str) -> Self {
        Self(Arc::from(name))
    }
}

impl Borrow<str> for UserId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which models may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelGrant {
    /// All that there are.
    All,
    /// Those that one of the patterns matches; none if there is no pattern.
    Listed(Vec<ModelPattern>),
}

impl ModelGrant {
    /// Whether `model` may be used.
    #[must_use]
    pub fn allows(&self, model: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(patterns) => patterns.iter().any(|pattern| pattern.matches(model)),
        }
    }
}

/// A model's name, or the start of several names followed by `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPattern {
    stem: Arc<str>,
    open: bool,
}

impl ModelPattern {
    /// Reads a pattern: a name, with at most one `*`, which must be its last character.
    ///
    /// # Errors
    /// The text is empty or has a `*` elsewhere.
    pub fn parse(text: &str) -> Result<Self, ModelPatternError> {
        if text.is_empty() {
            return Err(ModelPatternError::Empty);
        }
        let (stem, open) = text.strip_suffix('*').map_or((text, false), |stem| (stem, true));
        match stem.find('*') {
            Some(at) => Err(ModelPatternError::StarInside { at }),
            None => Ok(Self {
                stem: Arc::from(stem),
                open,
            }),
        }
    }

    /// The pattern `*`, which every model fits.
    #[must_use]
    pub fn all() -> Self {
        Self {
            stem: Arc::from(""),
            open: true,
        }
    }

    /// How closely it says which models it means: a name is closer than a beginning, and a long beginning than a short one.
    #[must_use]
    pub(crate) fn closeness(&self) -> (bool, usize) {
        (!self.open, self.stem.len())
    }

    /// The one model that fits, if it is only one.
    #[must_use]
    pub(crate) fn name(&self) -> Option<&str> {
        (!self.open).then_some(&*self.stem)
    }

    /// Whether every model fits.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.open && self.stem.is_empty()
    }

    /// Whether `model` is the name, or begins with the stem.
    #[must_use]
    pub fn matches(&self, model: &str) -> bool {
        if self.open {
            model.starts_with(&*self.stem)
        } else {
            model == &*self.stem
        }
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem, if self.open { "*" } else { "" })
    }
}

/// Why a text is no model pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPatternError {
    /// There is no text.
    Empty,
    /// A `*` stands before the end.
    StarInside {
        /// The byte at which it stands.
        at: usize,
    },
}

impl fmt::Display for ModelPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a model pattern cannot be empty; write `*` for every model",
            Self::StarInside { .. } => "`*` may only be the last character of a model pattern",
        })
    }
}

impl std::error::Error for ModelPatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_name_or_a_beginning() {
        let check = |pattern: &str, model: &str, expected: bool| {
            let parsed = ModelPattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(model), expected, "{pattern} against {model}");
            assert_eq!(parsed.to_string(), pattern);
        };
        check("qwen3-8b", "qwen3-8b", true);
        check("qwen3-8b", "qwen3-8b-lora", false);
        check("qwen3-8b", "qwen3-8", false);
        check("qwen3-8b", "Qwen3-8b", false);
        check("qwen3-*", "qwen3-8b", true);
        check("qwen3-*", "qwen3-", true);
        check("qwen3-*", "qwen3", false);
        check("*", "anything", true);
        check("*", "", true);
        assert_eq!(ModelPattern::parse("*"), Ok(ModelPattern::all()));
        assert!(ModelPattern::all().is_all() && !ModelPattern::parse("a*").unwrap().is_all());
    }

    #[test]
    fn a_star_elsewhere_is_refused_with_its_place() {
        assert_eq!(ModelPattern::parse("a*b"), Err(ModelPatternError::StarInside { at: 1 }));
        assert_eq!(ModelPattern::parse("a**"), Err(ModelPatternError::StarInside { at: 1 }));
        assert_eq!(ModelPattern::parse(""), Err(ModelPatternError::Empty));
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        assert!(ModelGrant::All.allows("m"));
        assert!(!ModelGrant::Listed(Vec::new()).allows("m"));
        let listed = ModelGrant::Listed(vec![
            ModelPattern::parse("a").unwrap(),
            ModelPattern::parse("b-*").unwrap(),
        ]);
        assert!(listed.allows("a") && listed.allows("b-1") && !listed.allows("c"));
    }
}
