//! The walk over a file's tree beside the schema: finds every structural mistake, each with its place.
//!
//! What is left when the mistakes are taken away comes out as JSON, so that the options which are right can still be checked
//! for sense and one run shows everything.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::diagnostic::{Region, listed, near_miss};
use crate::forms::Form;
use crate::kind::{self, Kind};
use crate::path::{Path, Step};
use crate::tree::{Entry, Node, Shape, shortened};

/// A mistake.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) path: Path,
    pub(crate) region: Region,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// As in [`crate::Diagnostic`].
    pub(crate) blank_from: Option<usize>,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The file without what is wrong; nothing when not even that is whole.
    pub(crate) rest: Option<Value>,
    /// Everything that is wrong, in the order of the file.
    pub(crate) findings: Vec<Finding>,
    /// For each list that lost elements: the places of those that are left.
    kept: BTreeMap<String, Vec<usize>>,
}

impl Walked {
    /// The path in the file that belongs to a path in the rest.
    pub(crate) fn original(&self, path: &Path) -> Path {
        path.steps().iter().fold(Path::default(), |above, step| match step {
            Step::Key(name) => above.key(name),
            Step::Index(index) => {
                let kept = self.kept.get(&above.to_string());
                above.index(kept.and_then(|kept| kept.get(*index)).copied().unwrap_or(*index))
            }
        })
    }
}

/// Walks over `root` beside `schema`.
pub(crate) fn walk(schema: &Value, root: &Node) -> Walked {
    let mut walker = Walker {
        schema,
        walked: Walked::default(),
    };
    let spot = Spot {
        path: Path::default(),
        region: root.locate(&Path::default()),
        need: Need::Required,
    };
    let rest = walker.value(schema, root, &spot);
    walker.walked.rest = rest;
    walker.walked
}

/// Where the walk stands, and where to point.
struct Spot {
    path: Path,
    region: Region,
    need: Need,
}

/// Whether the group that an option belongs to can do without it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

struct Walker<'a> {
    schema: &'a Value,
    walked: Walked,
}

impl<'a> Walker<'a> {
    /// The part of `node` that fits `schema`.
    fn value(&mut self, schema: &'a Value, node: &Node, spot: &Spot) -> Option<Value> {
        let kind = Kind::of(self.schema, schema);
        if matches!(node.shape, Shape::Null) {
            let found = match spot.path.steps().last() {
                Some(Step::Key(name)) => format!("`{name}` has no value"),
                _ => "there is no value here".to_owned(),
            };
            let help = match spot.need {
                Need::Required => format!("expected {}", kind.phrase()),
                Need::Optional => format!("expected {}; without this line the default holds", kind.phrase()),
            };
            self.report(schema, spot, found, Some(help));
            return None;
        }
        match (&kind, &node.shape) {
            (Kind::Group(group), Shape::Map(entries)) => self.group(group, entries, spot),
            (Kind::List { items, min }, Shape::List(nodes)) => self.list((*items, *min), nodes, spot),
            (Kind::Text(form), Shape::Text(text)) => self.text(schema, *form, text, spot),
            (Kind::Flag, Shape::Bool(flag)) => Some(Value::from(*flag)),
            (Kind::Count(range), Shape::Integer(number)) if range.holds(*number) => Some(Value::from(*number)),
            (Kind::Number(range), Shape::Integer(_) | Shape::Float(_)) if range.holds(float(&node.shape)) => {
                Some(Value::from(float(&node.shape)))
            }
            (Kind::Words(words), Shape::Text(text)) => self.word(schema, words, text, spot),
            (Kind::Tagged(choices), Shape::Map(entries)) => self.tagged(schema, choices, entries, spot),
            _ => self.wrong_type(schema, &kind, node, spot),
        }
    }

    fn group(&mut self, group: &kind::Group<'a>, entries: &[Entry], spot: &Spot) -> Option<Value> {
        let mut rest = Map::new();
        let mut whole = true;
        for (index, entry) in entries.iter().enumerate() {
            let below = Spot {
                path: spot.path.key(&entry.key),
                region: entry.place(),
                need: if group.requires(&entry.key) {
                    Need::Required
                } else {
                    Need::Optional
                },
            };
            let Some(schema) = group.options.get(&entry.key) else {
                self.unknown_option(group, entry, &spot.path);
                continue;
            };
            if let Some(first) = entries.iter().take(index).find(|first| first.key == entry.key) {
                let message = format!(
                    "`{}` is given twice; first in line {}",
                    entry.key, first.key_region.line
                );
                let at_key = Spot {
                    region: entry.key_region,
                    ..below
                };
                self.report(
                    schema,
                    &at_key,
                    message,
                    Some("each option may be given once".to_owned()),
                );
                continue;
            }
            match self.value(schema, &entry.value, &below) {
                Some(value) => _ = rest.insert(entry.key.clone(), value),
                None => whole &= below.need == Need::Optional,
            }
        }
        for (name, schema) in group.missing(entries) {
            whole = false;
            self.missing(group, (name, schema), entries, spot);
        }
        whole.then_some(Value::Object(rest))
    }

    /// Reports that `name` is missing, unless a mistyped option has been reported that was meant to be it.
    fn missing(
        &mut self,
        group: &kind::Group<'a>,
        (name, schema): (&'a str, &'a Value),
        entries: &[Entry],
        spot: &Spot,
    ) {
        let is_mistyped =
            |entry: &Entry| !group.options.contains_key(&entry.key) && group.guess(&entry.key) == Some(name);
        if entries.iter().any(is_mistyped) {
            return;
        }
        let below = Spot {
            path: spot.path.key(name),
            region: spot.region,
            need: Need::Required,
        };
        let message = format!("`{name}` is missing{}", inside(&spot.path));
        let help = self.expectation(schema);
        self.report(schema, &below, message, Some(help));
    }

    fn unknown_option(&mut self, group: &kind::Group<'a>, entry: &Entry, path: &Path) {
        let names = group.options.keys().map(String::as_str);
        let guess = group.guess(&entry.key).map(|name| format!("did you mean `{name}`?\n"));
        let help = format!("{}allowed here: {}", guess.unwrap_or_default(), listed(names, "and"));
        self.walked.findings.push(Finding {
            path: path.key(&entry.key),
            region: entry.key_region,
            message: format!("unknown option `{}`{}", shortened(&entry.key), inside(path)),
            help: Some(help),
            // A key that spans lines is as wide as can be.
            blank_from: Some(
                entry
                    .key_region
                    .column
                    .saturating_add(entry.key_region.width)
                    .saturating_add(1),
            ),
        });
    }

    fn list(&mut self, (items, min): (&'a Value, u64), nodes: &[Node], spot: &Spot) -> Option<Value> {
        if u64::try_from(nodes.len()).is_ok_and(|count| count < min) {
            self.report(
                items,
                spot,
                format!("this list is empty; it needs at least {min} element"),
                None,
            );
            return None;
        }
        let mut rest = Vec::new();
        let mut kept = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let path = spot.path.index(index);
            let region = node.locate(&Path::default());
            let need = Need::Required;
            if let Some(value) = self.value(items, node, &Spot { path, region, need }) {
                rest.push(value);
                kept.push(index);
            }
        }
        if kept.len() < nodes.len() {
            self.walked.kept.insert(spot.path.to_string(), kept);
        }
        Some(Value::Array(rest))
    }

    fn text(&mut self, schema: &'a Value, form: Option<&Form>, text: &str, spot: &Spot) -> Option<Value> {
        let refused = form.and_then(|form| (form.refuse)(text).map(|reason| (form, reason)));
        let Some((form, reason)) = refused else {
            return Some(Value::from(text));
        };
        let message = match kind::is_secret(schema) {
            true => format!("this is not {}", kind::with_article(form.kind)),
            false => format!("`{}` is not {}", shortened(text), kind::with_article(form.kind)),
        };
        self.report(schema, spot, message, Some(reason));
        None
    }

    fn word(&mut self, schema: &'a Value, words: &[&'a str], text: &str, spot: &Spot) -> Option<Value> {
        if words.contains(&text) {
            return Some(Value::from(text));
        }
        let guess = near_miss(text, words.iter().copied()).map(|word| format!("did you mean `{word}`?\n"));
        let help = format!(
            "{}allowed: {}",
            guess.unwrap_or_default(),
            listed(words.iter().copied(), "and")
        );
        let message = match spot.path.steps().last() {
            Some(Step::Key(name)) => format!("`{name}` cannot be `{}`", shortened(text)),
            _ => format!("this cannot be `{}`", shortened(text)),
        };
        self.report(schema, spot, message, Some(help));
        None
    }

    fn tagged(
        &mut self,
        schema: &'a Value,
        choices: &[kind::Choice<'a>],
        entries: &[Entry],
        spot: &Spot,
    ) -> Option<Value> {
        let tags = || listed(choices.iter().map(|choice| choice.tag), "or");
        let [entry] = entries else {
            let message = format!("exactly one of {} is needed{}", tags(), inside(&spot.path));
            self.report(schema, spot, message, None);
            return None;
        };
        let Some(choice) = choices.iter().find(|choice| choice.tag == entry.key) else {
            let message = format!("unknown option `{}`{}", shortened(&entry.key), inside(&spot.path));
            self.report(schema, spot, message, Some(format!("allowed here: {}", tags())));
            return None;
        };
        let below = Spot {
            path: spot.path.key(choice.tag),
            region: entry.place(),
            need: Need::Required,
        };
        let value = self.value(choice.schema, &entry.value, &below)?;
        Some(Value::Object(Map::from_iter([(choice.tag.to_owned(), value)])))
    }

    fn wrong_type(&mut self, schema: &'a Value, kind: &Kind<'a>, node: &Node, spot: &Spot) -> Option<Value> {
        let found = match kind::is_secret(schema) || kind.holds_secret() {
            true => "something else, not shown here since it may be a secret".to_owned(),
            false => node.describe(),
        };
        let help = match (kind, &node.shape) {
            (Kind::Text(Some(form)), Shape::Integer(number)) => (form.refuse)(&number.to_string()),
            (Kind::Text(Some(form)), Shape::Float(number)) => (form.refuse)(&number.to_string()),
            (Kind::List { .. }, _) => Some("put `- ` before each element, each on a line of its own".to_owned()),
            (Kind::Tagged(_), _) if kind.holds_secret() => {
                Some("a secret never stands in this file, only where to find it".to_owned())
            }
            _ => None,
        };
        let quotes = match (kind, &node.shape) {
            (Kind::Text(_), Shape::Integer(_) | Shape::Float(_) | Shape::Bool(_)) if help.is_none() => {
                Some("put it into quotes if it is meant as text".to_owned())
            }
            _ => None,
        };
        self.report(
            schema,
            spot,
            format!("expected {}, found {found}", kind.phrase()),
            help.or(quotes),
        );
        None
    }

    /// What an option should hold, for one that is missing.
    fn expectation(&self, schema: &'a Value) -> String {
        let kind = Kind::of(self.schema, schema);
        match schema.get("description").and_then(Value::as_str) {
            Some(text) => format!("expected {}\n{}", kind.phrase(), kind::first_sentence(text)),
            None => format!("expected {}", kind.phrase()),
        }
    }

    fn report(&mut self, schema: &'a Value, spot: &Spot, message: String, help: Option<String>) {
        let hint = schema.get(kind::HINT).and_then(Value::as_str).map(str::to_owned);
        let help = match (help, hint) {
            (Some(help), Some(hint)) => Some(format!("{help}\n{hint}")),
            (help, hint) => help.or(hint),
        };
        let secret = kind::is_secret(schema) || Kind::of(self.schema, schema).holds_secret();
        self.walked.findings.push(Finding {
            path: spot.path.clone(),
            region: spot.region,
            message,
            help,
            blank_from: secret.then_some(spot.region.column),
        });
    }
}

fn float(shape: &Shape) -> f64 {
    match shape {
        #[expect(clippy::cast_precision_loss, reason = "options with fractions are small")]
        Shape::Integer(number) => *number as f64,
        Shape::Float(number) => *number,
        Shape::Null | Shape::Bool(_) | Shape::Text(_) | Shape::List(_) | Shape::Map(_) => f64::NAN,
    }
}

fn inside(path: &Path) -> String {
    match path.steps() {
        [] => String::new(),
        _ => format!(" in `{path}`"),
    }
}

#[cfg(test)]
mod tests;
