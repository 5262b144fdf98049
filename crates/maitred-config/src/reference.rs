//! The schema of the file, and the reference page that is made from it.

use std::fmt::Write as _;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::diagnostic::listed;
use crate::forms::Form;
use crate::kind::{self, Kind};
use crate::raw;

/// The JSON schema (draft 2020-12) of the file, for editors and other tools.
#[must_use]
pub fn schema() -> Value {
    let mut schema = annotated_schema().clone();
    strip(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), Value::from("maitred.yaml"));
    }
    schema
}

/// The schema with the annotations that the walk uses. It is the same every time, so it is made once.
pub(crate) fn annotated_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(make_schema::<raw::File>);
    &SCHEMA
}

/// The same of a laboratory's scenario.
pub(crate) fn scenario_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(make_schema::<raw::scenario::Scenario>);
    &SCHEMA
}

fn make_schema<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>();
    RecursiveTransform(without_null).transform(&mut schema);
    schema.to_value()
}

/// An option that is not given is left out; `null` is a value forgotten.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                schema.insert(key, value);
            }
        }
    }
}

/// Takes out what only the walk understands.
fn strip(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for own in [kind::HINT, kind::SECRET] {
                object.remove(own);
            }
            object.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The reference page: every option with its type, default and meaning, in Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    page(annotated_schema(), PREFACE)
}

/// The same of the laboratory's scenarios.
#[must_use]
pub fn scenario_markdown() -> String {
    page(scenario_schema(), SCENARIO_PREFACE)
}

fn page(schema: &Value, preface: &str) -> String {
    let mut page = String::from(preface);
    let Kind::Group(top) = Kind::of(schema, schema) else {
        return page;
    };
    for (name, option) in top.options {
        let mut section = Section {
            root: schema,
            rows: Vec::new(),
            words: Vec::new(),
        };
        section.option(name, option, top.requires(name));
        _ = write!(page, "\n## `{name}`\n\n");
        page.push_str("| Option | Type | Default | Meaning |\n|---|---|---|---|\n");
        section.rows.iter().for_each(|row| page.push_str(row));
        for (paths, list) in &section.words {
            let paths = listed(paths.iter().map(String::as_str), "and");
            _ = write!(page, "\nWords of {paths}:\n\n{list}");
        }
    }
    page
}

const SCENARIO_PREFACE: &str = "\
# Scenario reference

<!-- Generated from the types of the crate maitred-config. Write it anew with:
     UPDATE_REFERENCE=1 cargo test -p maitred-config -->

A scenario says what the laboratory runs: a fleet, a workload, loads, and the policies that meet them. It is one YAML file for
`maitred lab run`; the folder `scenarios` has examples. Unknown options are refused. `[]` in a path stands for each element of
a list. \"required\" means: within the group that the option belongs to.
";

const PREFACE: &str = "\
# Configuration reference

<!-- Generated from the types of the crate maitred-config. Write it anew with:
     UPDATE_REFERENCE=1 cargo test -p maitred-config -->

The configuration is one YAML file. `maitred check -c FILE` says everything that is wrong with one, `maitred config --effective`
prints it with every default filled in, and `config.schema.json` beside this page is its JSON schema. Unknown options are
refused. `[]` in a path stands for each element of a list. \"required\" means: within the group that the option belongs to.

Durations are whole numbers with units, largest first: `200ms`, `5s`, `1m30s`. Sizes have binary units: `64KiB`, `32MiB`.
Secrets never stand in the file: it says in which environment variable (`env: NAME`) or file (`file: PATH`) they are.
";

/// One section of the page: an option at the top of the file and all below it.
struct Section<'a> {
    root: &'a Value,
    rows: Vec<String>,
    words: Vec<(Vec<String>, String)>,
}

impl<'a> Section<'a> {
    fn option(&mut self, path: &str, schema: &'a Value, required: bool) {
        let kind = Kind::of(self.root, schema);
        let default = match (required, schema.get("default")) {
            (true, _) => "required".to_owned(),
            (false, Some(default)) => default_text(&kind, default),
            (false, None) => "—".to_owned(),
        };
        let meaning = schema.get("description").and_then(Value::as_str);
        let meaning = meaning.or_else(|| {
            kind::resolve(self.root, schema)
                .get("description")
                .and_then(Value::as_str)
        });
        let row = format!(
            "| `{path}` | {} | {default} | {} |\n",
            type_text(self.root, &kind),
            cell(meaning.unwrap_or_default())
        );
        self.rows.push(row);
        self.words(path, schema);
        self.below(path, &kind);
    }

    fn below(&mut self, path: &str, kind: &Kind<'a>) {
        match kind {
            Kind::Group(group) => {
                for (name, option) in group.options {
                    self.option(&format!("{path}.{name}"), option, group.requires(name));
                }
            }
            Kind::List { items, .. } => {
                let inner = Kind::of(self.root, items);
                self.below(&format!("{path}[]"), &inner);
            }
            Kind::Tagged(choices) => {
                for choice in choices {
                    let kind = type_text(self.root, &Kind::of(self.root, choice.schema));
                    let row = format!("| `{path}.{}` | {kind} | — | {} |\n", choice.tag, cell(choice.meaning));
                    self.rows.push(row);
                    let inner = Kind::of(self.root, choice.schema);
                    self.below(&format!("{path}.{}", choice.tag), &inner);
                }
            }
            Kind::Text(_) | Kind::Flag | Kind::Count(_) | Kind::Number(_) | Kind::Words(_) | Kind::Other => {}
        }
    }

    /// The meanings of an option's words, as a list below the table.
    fn words(&mut self, path: &str, schema: &'a Value) {
        let choices = kind::resolve(self.root, schema).get("oneOf").and_then(Value::as_array);
        let meanings = choices.into_iter().flatten().filter_map(|choice| {
            let word = choice.get("const")?.as_str()?;
            let meaning = choice.get("description")?.as_str()?;
            Some(format!("- `{word}`: {}\n", cell(meaning)))
        });
        let list: String = meanings.collect();
        if list.is_empty() {
            return;
        }
        match self.words.iter_mut().find(|(_, known)| *known == list) {
            Some((paths, _)) => paths.push(path.to_owned()),
            None => self.words.push((vec![path.to_owned()], list)),
        }
    }
}

fn type_text(root: &Value, kind: &Kind<'_>) -> String {
    match kind {
        Kind::Group(_) => "group".to_owned(),
        Kind::List { items, .. } => match Kind::of(root, items) {
            Kind::Group(_) => "list of groups".to_owned(),
            inner => format!("list of {}s", type_text(root, &inner)),
        },
        Kind::Text(Some(Form { kind, .. })) => (*kind).to_owned(),
        Kind::Tagged(_) if kind.holds_secret() => "reference".to_owned(),
        Kind::Tagged(choices) => {
            let tags: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.tag)).collect();
            format!("one of {}", tags.join(", "))
        }
        Kind::Words(words) => words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", "),
        Kind::Text(None) | Kind::Flag | Kind::Count(_) | Kind::Number(_) | Kind::Other => {
            kind.phrase().trim_start_matches("a ").to_owned()
        }
    }
}

fn default_text(kind: &Kind<'_>, default: &Value) -> String {
    match (kind, default) {
        (Kind::Group(_), _) => "below".to_owned(),
        (_, Value::Array(items)) if items.is_empty() => "empty".to_owned(),
        (_, Value::Array(items)) if items.iter().any(Value::is_object) => "one, as below".to_owned(),
        (_, Value::Array(items)) => {
            let items: Vec<_> = items.iter().map(|item| default_text(&Kind::Other, item)).collect();
            items.join(", ")
        }
        (_, Value::String(text)) => format!("`{text}`"),
        (_, other) => format!("`{other}`"),
    }
}

/// Text for the cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[cfg(test)]
mod tests;
