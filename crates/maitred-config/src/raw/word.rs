//! Words of closed sets that other crates own, so that a set is listed once.

use std::borrow::Cow;

use maitred_engines::{Engine, InferencePath};
use maitred_sched::{Filter, Picker, Scorer, SpeedPrior, StalenessPolicy};
use maitred_tenant::{Algorithm, Role};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// A closed set whose members have names.
pub(crate) trait ClosedSet: Copy + 'static {
    /// What one member is called in a sentence.
    const MEMBER: &'static str;

    /// Every member, in the order of the reference.
    fn all() -> &'static [Self];

    /// The member's word.
    fn word(self) -> &'static str;

    /// What the member does, in a line.
    fn about(self) -> &'static str;
}

/// A member of a closed set, written as its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word<T>(pub(crate) T);

impl<T: ClosedSet> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

impl<'de, T: ClosedSet> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let member = T::all().iter().find(|member| member.word() == word);
        member
            .map(|member| Self(*member))
            .ok_or_else(|| D::Error::custom(format!("`{word}` is no {}", T::MEMBER)))
    }
}

impl<T: ClosedSet> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        T::MEMBER.replace(' ', "_").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let choice = |member: &T| json!({ "type": "string", "const": member.word(), "description": member.about() });
        json_schema!({ "oneOf": T::all().iter().map(choice).collect::<Vec<Value>>() })
    }
}

impl ClosedSet for Algorithm {
    const MEMBER: &'static str = "signature algorithm";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        Algorithm::about(self)
    }
}

impl ClosedSet for Role {
    const MEMBER: &'static str = "role";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        Role::about(self)
    }
}

impl ClosedSet for Engine {
    const MEMBER: &'static str = "engine";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        self.about()
    }
}

impl ClosedSet for InferencePath {
    const MEMBER: &'static str = "way to make a model run";

    fn all() -> &'static [Self] {
        &[Self::Completions, Self::Chat, Self::Embeddings]
    }

    fn word(self) -> &'static str {
        match self {
            Self::Completions => "completions",
            Self::Chat => "chat",
            Self::Embeddings => "embeddings",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Completions => "One token by `/v1/completions`, which needs no chat template.",
            Self::Chat => "One token by `/v1/chat/completions`.",
            Self::Embeddings => "One embedding by `/v1/embeddings`, for models that generate nothing.",
        }
    }
}

impl ClosedSet for StalenessPolicy {
    const MEMBER: &'static str = "staleness policy";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        match self {
            Self::Saturated => "It counts as full, so nothing is dispatched blind.",
            Self::Ignore => "Its signals are left out and it is judged by this gateway's own calls alone.",
            Self::Trust => {
                "What its signals say of others counts less and less with their age; this gateway's own calls count as ever."
            }
        }
    }
}

impl ClosedSet for SpeedPrior {
    const MEMBER: &'static str = "speed prior";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        self.doc()
    }
}

impl ClosedSet for Filter {
    const MEMBER: &'static str = "filter";

    fn all() -> &'static [Self] {
        Self::OPTIONAL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        self.doc()
    }
}

impl ClosedSet for Scorer {
    const MEMBER: &'static str = "scorer";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        self.doc()
    }
}

impl ClosedSet for Picker {
    const MEMBER: &'static str = "picker";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.name()
    }

    fn about(self) -> &'static str {
        self.doc()
    }
}
