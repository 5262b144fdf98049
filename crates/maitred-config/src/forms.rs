//! Values that are written as text with a form of their own: durations, sizes, shares, addresses, names.
//!
//! Each form has one parser. The schema names it in `format`, the walk over the file runs it and points at what it refuses,
//! and decoding runs it again to make the value.

mod address;
mod amount;
mod duration;
mod hours;
mod moment;
mod names;
mod share;
mod size;
mod url;

use std::fmt::Display;

pub(crate) use address::{HostName, HostPort, Socket};
pub(crate) use amount::AmountText;
pub(crate) use duration::TimeSpan;
pub(crate) use hours::{HoursText, OffsetText};
pub(crate) use moment::Moment;
pub use moment::moment;
pub(crate) use names::{
    ClaimText, FigureText, HeaderName, HttpPath, KeyHashText, MetricName, ModelPatternText, ValueText,
};
pub use names::{FilePath, Name};
pub(crate) use share::Share;
pub(crate) use size::Size;
pub use url::{BaseUrl, WebUrl};

/// A value with a textual form.
pub(crate) trait TextForm: Sized + Display {
    /// The word in the schema's `format`.
    const FORMAT: &'static str;
    /// What the reference calls the type.
    const TYPE: &'static str;
    /// A text that is right.
    const EXAMPLE: &'static str;
    /// A regular expression that right texts match, for editors; they know nothing of the form itself.
    const PATTERN: Option<&'static str> = None;

    /// Reads the text.
    fn read(text: &str) -> Result<Self, String>;
}

/// Gives the forms their serde and schema faces and makes the table that the walk uses.
macro_rules! text_forms {
    ($($form:ty),* $(,)?) => {
        $(
            impl serde::Serialize for $form {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }

            impl<'de> serde::Deserialize<'de> for $form {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                    <Self as TextForm>::read(&text).map_err(serde::de::Error::custom)
                }
            }

            impl schemars::JsonSchema for $form {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    <Self as TextForm>::FORMAT.into()
                }

                fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    let mut schema = schemars::json_schema!({
                        "type": "string",
                        "format": <Self as TextForm>::FORMAT,
                        "examples": [<Self as TextForm>::EXAMPLE],
                    });
                    if let Some(pattern) = <Self as TextForm>::PATTERN {
                        schema.insert("pattern".to_owned(), pattern.into());
                    }
                    schema
                }

                fn inline_schema() -> bool {
                    true
                }
            }
        )*

        const FORMS: &[Form] = &[$(Form {
            format: <$form as TextForm>::FORMAT,
            kind: <$form as TextForm>::TYPE,
            example: <$form as TextForm>::EXAMPLE,
            refuse: |text| <$form as TextForm>::read(text).err(),
        },)*];
    };
}

text_forms!(
    TimeSpan,
    Size,
    Share,
    Socket,
    HostPort,
    Moment,
    Name,
    FilePath,
    HttpPath,
    KeyHashText,
    ModelPatternText,
    FigureText,
    HeaderName,
    HostName,
    MetricName,
    AmountText,
    ClaimText,
    WebUrl,
    HoursText,
    OffsetText,
    ValueText,
    BaseUrl,
);

/// One form, as the walk and the reference see it.
pub(crate) struct Form {
    format: &'static str,
    /// What the reference calls the type.
    pub(crate) kind: &'static str,
    /// A text that is right.
    pub(crate) example: &'static str,
    /// Why a text is refused, if it is.
    pub(crate) refuse: fn(&str) -> Option<String>,
}

impl Form {
    /// The form that a schema's `format` names.
    pub(crate) fn named(format: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.format == format)
    }
}

#[cfg(test)]
mod tests;
