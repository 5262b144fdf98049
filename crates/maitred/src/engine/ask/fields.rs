//! The fields of a body, with the complaints that pydantic would have about them.

use serde_json::{Map, Value};

use crate::engine::problem::{Complaint, Problem};

/// An object's fields. Complaints are gathered, so that all can be said at once.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    complaints: Vec<Complaint>,
}

impl<'a> Fields<'a> {
    /// The fields of `value`.
    pub(super) fn new(value: &'a Value) -> Result<Self, Problem> {
        let Value::Object(object) = value else {
            let message = "Input should be a valid dictionary or object to extract fields from";
            return Err(Problem::Invalid(vec![Complaint::new(
                "model_attributes_type",
                None,
                message,
                value,
            )]));
        };
        Ok(Self {
            object,
            complaints: Vec::new(),
        })
    }

    /// Ends the reading.
    pub(super) fn finish(&mut self) -> Result<(), Problem> {
        let complaints = std::mem::take(&mut self.complaints);
        if complaints.is_empty() {
            Ok(())
        } else {
            Err(Problem::Invalid(complaints))
        }
    }

    /// The field `name`, unless it is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Complains that `name` is missing.
    pub(super) fn require(&mut self, name: &'static str) {
        let whole = Value::Object(self.object.clone());
        self.complaints
            .push(Complaint::new("missing", Some(name), "Field required", &whole));
    }

    fn complain(&mut self, kind: &'static str, name: &'static str, message: &'static str) {
        let input = self.object.get(name).unwrap_or(&Value::Null);
        self.complaints.push(Complaint::new(kind, Some(name), message, input));
    }

    /// A list that must be there.
    pub(super) fn list(&mut self, name: &'static str) -> Option<&'a Vec<Value>> {
        match self.get(name) {
            None => self.require(name),
            Some(Value::Array(list)) => return Some(list),
            Some(_) => self.complain("list_type", name, "Input should be a valid list"),
        }
        None
    }

    /// An object that may be there.
    pub(super) fn object(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.get(name).and_then(Value::as_object)
    }

    /// A whole number that may be there; numbers in strings count, as they do for pydantic.
    pub(super) fn count(&mut self, name: &'static str) -> Option<u32> {
        let value = self.get(name)?;
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_i64().map(|_| 0)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match (number, value) {
            (Some(number), _) => return Some(u32::try_from(number).unwrap_or(u32::MAX)),
            (None, Value::String(_)) => {
                let message = "Input should be a valid integer, unable to parse string as an integer";
                self.complain("int_parsing", name, message);
            }
            (None, _) => self.complain("int_type", name, "Input should be a valid integer"),
        }
        None
    }

    /// A number that may be there.
    pub(super) fn number(&mut self, name: &'static str) -> Option<f64> {
        let value = self.get(name)?;
        let number = value
            .as_f64()
            .or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
        if number.is_none() {
            self.complain("float_type", name, "Input should be a valid number");
        }
        number
    }

    /// A truth value that may be there.
    pub(super) fn flag(&mut self, name: &'static str) -> Option<bool> {
        let value = self.get(name)?;
        if value.as_bool().is_none() {
            self.complain("bool_type", name, "Input should be a valid boolean");
        }
        value.as_bool()
    }

    /// A text that may be there.
    pub(super) fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let value = self.get(name)?;
        if value.as_str().is_none() {
            self.complain("string_type", name, "Input should be a valid string");
        }
        value.as_str()
    }

    /// A text or a list of texts that may be there.
    pub(super) fn texts(&mut self, name: &'static str) -> Vec<String> {
        let texts = match self.get(name) {
            Some(Value::String(text)) => vec![text.clone()],
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        texts.into_iter().filter(|text| !text.is_empty()).collect()
    }
}
