//! Amounts of money: `0.15`.

use std::fmt;

use maitred_tenant::Money;

use super::TextForm;

/// An amount of money: a decimal in text, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AmountText(Money);

impl AmountText {
    /// The amount, in billionths of the currency's unit.
    #[must_use]
    pub(crate) const fn billionths(self) -> u64 {
        self.0.0
    }
}

impl TextForm for AmountText {
    const FORMAT: &'static str = "maitred-amount";
    const TYPE: &'static str = "amount";
    const EXAMPLE: &'static str = "0.15";
    const PATTERN: Option<&'static str> = Some("^[0-9]+([.][0-9]{1,9})?$");

    fn read(text: &str) -> Result<Self, String> {
        Money::parse(text).map(Self).ok_or_else(|| {
            "an amount of money is a decimal in quotes with at most nine digits after the point, such as `\"0.15\"`"
                .to_owned()
        })
    }
}

impl fmt::Display for AmountText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
