//! What a schema asks for, in the few kinds that the configuration uses.

use std::fmt::Display;

use serde_json::{Map, Value};

use crate::diagnostic::{listed, near_miss};
use crate::forms::Form;
use crate::tree::Entry;

/// Schema extension: a sentence added to every message about the option.
pub(crate) const HINT: &str = "x-hint";
/// Schema extension: the option may hold a secret by mistake, so messages do not repeat what it holds.
pub(crate) const SECRET: &str = "x-secret";

/// What an option holds.
pub(crate) enum Kind<'a> {
    /// A group of named options.
    Group(Group<'a>),
    /// A list of `items`, at least `min` of them.
    List { items: &'a Value, min: u64 },
    /// Text, perhaps of a form.
    Text(Option<&'static Form>),
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count(Range<i64>),
    /// A number.
    Number(Range<f64>),
    /// One of these words.
    Words(Vec<&'a str>),
    /// A group with exactly one of these options.
    Tagged(Vec<Choice<'a>>),
    /// Something the configuration does not use.
    Other,
}

/// One of the options of which a group has exactly one.
pub(crate) struct Choice<'a> {
    /// The option's name.
    pub(crate) tag: &'a str,
    /// What it holds.
    pub(crate) schema: &'a Value,
    /// What it means.
    pub(crate) meaning: &'a str,
}

impl<'a> Choice<'a> {
    fn of(schema: &'a Value) -> Option<Self> {
        let (tag, inner) = Group::of(schema)?.options.iter().next()?;
        Some(Self {
            tag,
            schema: inner,
            meaning: schema.get("description").and_then(Value::as_str).unwrap_or_default(),
        })
    }

    /// `env: NAME`
    fn phrase(&self) -> String {
        let form = self.schema.get("format").and_then(Value::as_str).and_then(Form::named);
        let word = form.and_then(|form| form.kind.rsplit(' ').next()).unwrap_or(self.tag);
        format!("`{}: {}`", self.tag, word.to_uppercase())
    }
}

/// A group of named options.
pub(crate) struct Group<'a> {
    /// The options and their schemas, in the order of the reference.
    pub(crate) options: &'a Map<String, Value>,
    required: Vec<&'a str>,
}

impl<'a> Group<'a> {
    fn of(schema: &'a Value) -> Option<Self> {
        let options = schema.get("properties")?.as_object()?;
        let required = schema.get("required").and_then(Value::as_array);
        Some(Self {
            options,
            required: required.into_iter().flatten().filter_map(Value::as_str).collect(),
        })
    }

    /// Whether the group cannot do without `name`.
    pub(crate) fn requires(&self, name: &str) -> bool {
        self.required.contains(&name)
    }

    /// The option that the unknown `name` was probably meant to be.
    pub(crate) fn guess(&self, name: &str) -> Option<&'a str> {
        near_miss(name, self.options.keys().map(String::as_str))
    }

    /// The required options that `entries` lacks.
    pub(crate) fn missing(&self, entries: &[Entry]) -> Vec<(&'a str, &'a Value)> {
        let lacks = |name: &&str| !entries.iter().any(|entry| entry.key == **name);
        let with_schema = |name: &'a str| self.options.get(name).map(|schema| (name, schema));
        self.required
            .iter()
            .copied()
            .filter(lacks)
            .filter_map(with_schema)
            .collect()
    }
}

impl<'a> Kind<'a> {
    /// What `schema`, a part of `root`, asks for.
    pub(crate) fn of(root: &'a Value, schema: &'a Value) -> Self {
        let schema = resolve(root, schema);
        if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
            return Self::of_choices(choices);
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return Self::Words(words.iter().filter_map(Value::as_str).collect());
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Group::of(schema).map_or(Self::Other, Self::Group),
            Some("array") => schema.get("items").map_or(Self::Other, |items| Self::List {
                items,
                min: schema.get("minItems").and_then(Value::as_u64).unwrap_or(0),
            }),
            Some("string") => Self::Text(schema.get("format").and_then(Value::as_str).and_then(Form::named)),
            Some("boolean") => Self::Flag,
            Some("integer") => Self::Count(Range::of(schema, Value::as_i64)),
            Some("number") => Self::Number(Range::of(schema, Value::as_f64)),
            _ => Self::Other,
        }
    }

    fn of_choices(choices: &'a [Value]) -> Self {
        let words: Vec<&str> = choices
            .iter()
            .filter_map(|choice| choice.get("const").and_then(Value::as_str))
            .collect();
        if !words.is_empty() {
            return Self::Words(words);
        }
        Self::Tagged(choices.iter().filter_map(Choice::of).collect())
    }

    /// What to call it in a sentence after "expected".
    pub(crate) fn phrase(&self) -> String {
        match self {
            Self::Group(group) => {
                let names = group.options.keys().map(String::as_str);
                format!("a group of options ({})", listed(names, "and"))
            }
            Self::List { .. } => "a list".to_owned(),
            Self::Text(Some(form)) => format!("{} such as `{}`", with_article(form.kind), form.example),
            Self::Text(None) => "text".to_owned(),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Count(range) => range.phrase("a whole number"),
            Self::Number(range) => range.phrase("a number"),
            Self::Words(words) => listed(words.iter().copied(), "or"),
            Self::Tagged(choices) => choices.iter().map(Choice::phrase).collect::<Vec<_>>().join(" or "),
            Self::Other => "something else".to_owned(),
        }
    }

    /// Whether this is a reference to a secret, in whose place the secret itself may have been written.
    pub(crate) fn holds_secret(&self) -> bool {
        matches!(self, Self::Tagged(choices) if choices.iter().any(|choice| is_secret(choice.schema)))
    }
}

/// `kind` with the article that English wants.
pub(crate) fn with_article(kind: &str) -> String {
    let sounds_like_a_vowel = kind.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']) || kind.starts_with("HTTP");
    format!("{} {kind}", if sounds_like_a_vowel { "an" } else { "a" })
}

/// The numbers from `min` to `max`, both included.
pub(crate) struct Range<T> {
    min: Option<T>,
    max: Option<T>,
}

impl<T: Copy + PartialOrd + Display> Range<T> {
    fn of(schema: &Value, read: fn(&Value) -> Option<T>) -> Self {
        let bound = |name| schema.get(name).and_then(read);
        Self {
            min: bound("minimum"),
            max: bound("maximum"),
        }
    }

    pub(crate) fn holds(&self, number: T) -> bool {
        self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
    }

    fn phrase(&self, kind: &str) -> String {
        match (&self.min, &self.max) {
            (Some(min), Some(max)) if min == max => format!("the number {min}"),
            (Some(min), Some(max)) => format!("{kind} from {min} to {max}"),
            (Some(min), None) => format!("{kind} of at least {min}"),
            (None, Some(max)) => format!("{kind} of at most {max}"),
            (None, None) => kind.to_owned(),
        }
    }
}

/// What `schema` refers to.
pub(crate) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = |schema: &'a Value| {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        root.pointer(pointer)
    };
    let mut schema = schema;
    while let Some(next) = target(schema) {
        schema = next;
    }
    schema
}

/// Whether messages must not repeat what the option holds.
pub(crate) fn is_secret(schema: &Value) -> bool {
    schema.get(SECRET).and_then(Value::as_bool).unwrap_or(false)
}

/// The first sentence of a description.
pub(crate) fn first_sentence(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.split_once(". ") {
        Some((first, _)) => first.to_owned(),
        None => flat.trim_end_matches('.').to_owned(),
    }
}
