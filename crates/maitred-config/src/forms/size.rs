//! Sizes: `32MiB`, `64KiB`.

use std::fmt;

use maitred_types::ByteSize;

use super::TextForm;

/// A number of bytes, written with a binary unit: `64KiB`, `32MiB`, `1GiB`, `512B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(ByteSize);

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Size {
    pub(crate) const fn new(bytes: ByteSize) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub(crate) const fn get(self) -> ByteSize {
        self.0
    }
}

impl TextForm for Size {
    const FORMAT: &'static str = "maitred-size";
    const TYPE: &'static str = "size";
    const EXAMPLE: &'static str = "32MiB";
    const PATTERN: Option<&'static str> = Some("^[0-9]+(B|KiB|MiB|GiB)$");

    fn read(text: &str) -> Result<Self, String> {
        let form = || "a size is a whole number with the unit `B`, `KiB`, `MiB` or `GiB`, such as `32MiB`".to_owned();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(form)?;
        let number: u64 = number.parse().map_err(|_| form())?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| match unit {
            "" => format!("`{number}` has no unit; write `{number}B`, `{number}KiB` or `{number}MiB`"),
            "kB" | "KB" | "K" | "k" => format!("units are binary; write `{number}KiB`"),
            "MB" | "M" => format!("units are binary; write `{number}MiB`"),
            "GB" | "G" => format!("units are binary; write `{number}GiB`"),
            _ => form(),
        })?;
        let bytes = number.checked_mul(*factor).ok_or("a size is less than 16 EiB")?;
        Ok(Self(ByteSize::new(bytes)))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
