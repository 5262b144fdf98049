//! Counts that must not be mistaken for one another.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// A number of tokens. Arithmetic saturates: a hostile figure from outside cannot wrap round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenCount(u32);

impl TokenCount {
    /// No tokens.
    pub const ZERO: Self = Self(0);

    /// A count of `tokens`.
    #[must_use]
    pub const fn new(tokens: u32) -> Self {
        Self(tokens)
    }

    /// A count from a figure of unknown size; what does not fit is the largest count.
    #[must_use]
    pub fn saturating_from(tokens: u64) -> Self {
        Self(u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// This count less `other`, but not below zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for TokenCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for TokenCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for TokenCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for TokenCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// `bytes` bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `mib` mebibytes.
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The bare number as a length of something in memory; what does not fit is the largest length.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    /// In the largest binary unit that divides it: `32MiB`, `1KiB`, `1000B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units
            .iter()
            .find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit))
        {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_the_largest_unit_that_divides_them() {
        let check = |bytes: u64, printed: &str| assert_eq!(ByteSize::new(bytes).to_string(), printed);
        check(0, "0B");
        check(1000, "1000B");
        check(1024, "1KiB");
        check(32 << 20, "32MiB");
        check(3 << 30, "3GiB");
    }

    #[test]
    fn tokens_saturate() {
        assert_eq!(
            TokenCount::saturating_from(u64::MAX) + TokenCount::new(1),
            TokenCount::new(u32::MAX)
        );
        assert_eq!(TokenCount::new(1).saturating_sub(TokenCount::new(2)), TokenCount::ZERO);
    }
}
