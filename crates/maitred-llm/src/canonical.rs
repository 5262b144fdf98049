//! The one way to write a call, by which two calls that ask for the same can be told to be the same.
//!
//! Members of objects are sorted, what need not be written is left out, strings and numbers have one spelling. What is left out
//! beyond that says who asks or how the call is to be billed, never what is asked for. Where two readers could understand a body
//! differently (a key that occurs twice, a whole number that not every reader can hold) there is no such form: it is better
//! to take two equal calls for different ones than the other way round.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{BodyView, CallKind};

/// Members that change nothing of the answer. `model` is among them, since the answer depends on the model that a call is sent to.
const WITHOUT_EFFECT: [&str; 6] = [
    "model",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
    "metadata",
];

/// Largest whole number that all readers hold exactly: the largest up to which a double has every one (2^53).
const EXACT: u64 = 1 << 53;

/// A call in its one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    text: Vec<u8>,
    is_deterministic: bool,
}

impl Canonical {
    /// The one form of a call; `None` if there is none, if the call is to leave something behind at the endpoint (`store`), or if
    /// its kind is not one whose answer depends on its body alone.
    #[must_use]
    pub fn of(kind: CallKind, view: &BodyView) -> Option<Self> {
        match kind {
            CallKind::Chat | CallKind::Completions | CallKind::Embeddings | CallKind::Messages => {}
            CallKind::Models | CallKind::CountTokens | CallKind::Responses | CallKind::Other => return None,
        }
        let Ok(Tree::Object(mut members)) = serde_json::from_slice(view.body()) else {
            return None;
        };
        if members.get("store").is_some_and(|store| *store == Tree::Bool(true)) {
            return None;
        }
        for name in WITHOUT_EFFECT {
            members.remove(name);
        }
        // Without a temperature an endpoint takes its own default, which is seldom 0.
        let is_greedy = matches!(members.get("temperature"), Some(Tree::Float(zero)) if *zero == 0.0);
        Some(Self {
            text: serde_json::to_vec(&members).ok()?,
            is_deterministic: kind == CallKind::Embeddings || is_greedy,
        })
    }

    /// Its bytes. Two calls of one kind with the same bytes ask for the same.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether a model that is asked twice should answer the same: it makes vectors, or always takes the likeliest token.
    #[must_use]
    pub const fn is_deterministic(&self) -> bool {
        self.is_deterministic
    }
}

/// A value of JSON. Every number is a double, as it is for the readers that know no other.
#[derive(Clone, Debug, PartialEq)]
enum Tree<'a> {
    Null,
    Bool(bool),
    Float(f64),
    Text(Cow<'a, str>),
    Array(Vec<Self>),
    Object(BTreeMap<Cow<'a, str>, Self>),
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value),
            // Zero has one spelling.
            Self::Float(value) => to.serialize_f64(value + 0.0),
            Self::Text(value) => to.serialize_str(value),
            Self::Array(values) => to.collect_seq(values),
            Self::Object(members) => to.collect_map(members),
        }
    }
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reading)
    }
}

/// A key, which lies in the body if it is spelled without escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Tree<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value with one meaning")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        if value > EXACT {
            return Err(E::custom("a number that not every reader holds"));
        }
        // Exact, as was just seen.
        self.visit_f64(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        let size: Tree<'_> = self.visit_u64(value.unsigned_abs())?;
        Ok(match size {
            Tree::Float(size) if value < 0 => Tree::Float(-size),
            other => other,
        })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        // A whole number too large for the integers comes as a double.
        if value.abs() > EXACT as f64 {
            return Err(E::custom("a number that not every reader holds"));
        }
        Ok(Tree::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Tree::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Tree::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Tree::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(Key(name)) = access.next_key()? {
            if members.insert(name, access.next_value()?).is_some() {
                return Err(A::Error::custom("a key that occurs twice"));
            }
        }
        Ok(Tree::Object(members))
    }
}

#[cfg(test)]
mod tests;
