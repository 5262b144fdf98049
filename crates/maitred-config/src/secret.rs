//! A secret that was read from where the configuration says.

use std::fmt;

/// A secret. It is printed nowhere: `Debug` blanks it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, to be handed to what needs it and to nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_blanks_it() {
        assert_eq!(format!("{:?}", Secret::new("hunter2".to_owned())), "Secret(..)");
    }
}
