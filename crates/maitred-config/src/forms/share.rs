//! Shares of a whole: `20%`.

use std::fmt;

use super::TextForm;

/// A share of a whole, written in percent: `20%`, `2.5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(f64);

impl Share {
    pub(crate) const fn percent(percent: u8) -> Self {
        Self(percent as f64)
    }

    /// The share as a number from 0 to 1.
    #[must_use]
    pub(crate) fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl TextForm for Share {
    const FORMAT: &'static str = "maitred-share";
    const TYPE: &'static str = "share";
    const EXAMPLE: &'static str = "20%";
    const PATTERN: Option<&'static str> = Some("^[0-9]+([.][0-9]+)?%$");

    fn read(text: &str) -> Result<Self, String> {
        let form = || "a share is a number from 0 to 100 followed by `%`, such as `20%`".to_owned();
        let number = text.strip_suffix('%').ok_or_else(form)?;
        if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(form());
        }
        let percent: f64 = number.parse().map_err(|_| form())?;
        if percent > 100.0 {
            return Err(form());
        }
        Ok(Self(percent))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}
