//! Names, paths and other short texts.

use std::fmt;

use maitred_engines::Figure;
use maitred_tenant::{ClaimPath, KeyHash, ModelPattern};

use super::TextForm;

/// Longest name, in bytes; names become metric labels and log fields.
const NAME_LEN_MAX: usize = 256;
/// Longest path, in bytes.
const PATH_LEN_MAX: usize = 4096;

macro_rules! display_inner {
    ($($form:ident),*) => {$(
        impl fmt::Display for $form {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

display_inner!(
    ClaimText,
    HeaderName,
    MetricName,
    Name,
    FilePath,
    HttpPath,
    FigureText,
    KeyHashText,
    ModelPatternText,
    ValueText
);

/// A name that the operator chooses or that a model has: printable, without spaces, at most 256 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextForm for Name {
    const FORMAT: &'static str = "maitred-name";
    const TYPE: &'static str = "name";
    const EXAMPLE: &'static str = "qwen3-8b";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a name cannot be empty".to_owned());
        }
        if text.len() > NAME_LEN_MAX {
            return Err(format!(
                "a name has at most {NAME_LEN_MAX} bytes; this one has {}",
                text.len()
            ));
        }
        match text.chars().find(|char| char.is_whitespace() || char.is_control()) {
            Some(char) => Err(format!(
                "a name has no spaces or control characters; this one has {char:?}"
            )),
            None => Ok(Self(text.to_owned())),
        }
    }
}

/// What a header or a claim says: one line of text, at most 256 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueText(String);

impl ValueText {
    /// The text.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextForm for ValueText {
    const FORMAT: &'static str = "maitred-value";
    const TYPE: &'static str = "value";
    const EXAMPLE: &'static str = "red";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > NAME_LEN_MAX || text.trim() != text || text.chars().any(char::is_control) {
            return Err(format!(
                "a value is 1 to {NAME_LEN_MAX} bytes in one line, without blanks at its ends"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The path of a file, relative to the folder of the configuration file unless it begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(String);

impl FilePath {
    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextForm for FilePath {
    const FORMAT: &'static str = "maitred-file";
    const TYPE: &'static str = "file path";
    const EXAMPLE: &'static str = "/etc/maitred/tls.crt";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > PATH_LEN_MAX || text.chars().any(char::is_control) {
            return Err(format!(
                "a file path has 1 to {PATH_LEN_MAX} bytes and no control characters"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The path of an HTTP request: begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpPath(String);

impl HttpPath {
    /// The path.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextForm for HttpPath {
    const FORMAT: &'static str = "maitred-http-path";
    const TYPE: &'static str = "HTTP path";
    const EXAMPLE: &'static str = "/metrics";

    fn read(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            return Err("only the path; the host and port are the endpoint's".to_owned());
        }
        if !text.starts_with('/') {
            return Err(format!("a path begins with `/`; write `/{text}`"));
        }
        if text.len() > PATH_LEN_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            return Err("a path has visible ASCII characters only, and no `#`".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

/// Where a figure stands on a metrics page: `family{label=value}`, `family@label` or `sum(family)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FigureText(Figure);

impl FigureText {
    /// The figure.
    #[must_use]
    pub(crate) const fn get(&self) -> &Figure {
        &self.0
    }
}

impl TextForm for FigureText {
    const FORMAT: &'static str = "maitred-metric";
    const TYPE: &'static str = "metric";
    const EXAMPLE: &'static str = "nv_trt_llm_request_metrics{request_type=waiting}";

    fn read(text: &str) -> Result<Self, String> {
        Figure::parse(text).map(Self).map_err(|error| error.to_string())
    }
}

/// The hash of a key, as `maitred keys new` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyHashText(KeyHash);

impl KeyHashText {
    pub(crate) const fn new(hash: KeyHash) -> Self {
        Self(hash)
    }

    /// The hash.
    #[must_use]
    pub(crate) const fn get(&self) -> &KeyHash {
        &self.0
    }
}

impl TextForm for KeyHashText {
    const FORMAT: &'static str = "maitred-key-hash";
    const TYPE: &'static str = "key hash";
    const EXAMPLE: &'static str =
        "hmac-sha256:abcdefghijkl:6b6cf1ad04a8b1a2a3f2fd4e3e4f6f3f9e1f5b7f1f0e5d4c3b2a190817263544";

    fn read(text: &str) -> Result<Self, String> {
        KeyHash::parse(text).map(Self).map_err(|error| error.to_string())
    }
}

/// The name of a model, or the beginning of several followed by `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelPatternText(ModelPattern);

impl ModelPatternText {
    pub(crate) const fn new(pattern: ModelPattern) -> Self {
        Self(pattern)
    }

    /// The pattern that every model fits.
    pub(crate) fn all() -> Self {
        Self(ModelPattern::all())
    }

    /// The pattern.
    #[must_use]
    pub(crate) const fn get(&self) -> &ModelPattern {
        &self.0
    }
}

impl TextForm for ModelPatternText {
    const FORMAT: &'static str = "maitred-model-pattern";
    const TYPE: &'static str = "model pattern";
    const EXAMPLE: &'static str = "qwen3-*";

    fn read(text: &str) -> Result<Self, String> {
        ModelPattern::parse(text).map(Self).map_err(|error| error.to_string())
    }
}

/// The name of an HTTP header, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderName(String);

impl HeaderName {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextForm for HeaderName {
    const FORMAT: &'static str = "maitred-header";
    const TYPE: &'static str = "header name";
    const EXAMPLE: &'static str = "x-session-id";

    fn read(text: &str) -> Result<Self, String> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || text.len() > NAME_LEN_MAX || !text.bytes().all(is_token) {
            return Err("a header name has letters, digits and hyphens (RFC 9110, section 5.1)".to_owned());
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

/// The name of a family of metrics or of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricName(String);

impl MetricName {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextForm for MetricName {
    const FORMAT: &'static str = "maitred-metric-name";
    const TYPE: &'static str = "metric name";
    const EXAMPLE: &'static str = "vllm:lora_requests_info";

    fn read(text: &str) -> Result<Self, String> {
        let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        let starts_with_digit = text.starts_with(|char: char| char.is_ascii_digit());
        if text.is_empty() || text.len() > NAME_LEN_MAX || starts_with_digit || !text.bytes().all(is_right) {
            return Err("a metric name has letters, digits, `_` and `:`, and does not begin with a digit".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

/// The name of a claim, or the path to one inside others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimText(ClaimPath);

impl ClaimText {
    /// The claim that names users.
    pub(crate) fn subject() -> Self {
        Self(ClaimPath::subject())
    }

    /// The claim.
    #[must_use]
    pub(crate) const fn get(&self) -> &ClaimPath {
        &self.0
    }
}

impl TextForm for ClaimText {
    const FORMAT: &'static str = "maitred-claim";
    const TYPE: &'static str = "claim";
    const EXAMPLE: &'static str = "/organization/id";

    fn read(text: &str) -> Result<Self, String> {
        ClaimPath::parse(text).map(Self).map_err(|error| error.to_string())
    }
}
