//! A reader of `MessagePack` for bytes from outside: nothing is copied, nothing is allocated, and no count is believed that
//! the bytes at hand cannot hold. Format: <https://github.com/msgpack/msgpack/blob/master/spec.md>.

use std::fmt;

/// Why bytes are no `MessagePack`, or not what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MsgpackError {
    /// They end too soon.
    Short,
    /// A byte that begins nothing.
    Reserved,
    /// Something else than is expected there.
    Unexpected,
    /// More of something than is read.
    TooMany,
}

impl fmt::Display for MsgpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it ends too soon",
            Self::Reserved => "a byte begins nothing",
            Self::Unexpected => "a value is of another kind than expected",
            Self::TooMany => "it holds more than is read",
        })
    }
}

impl std::error::Error for MsgpackError {}

/// One value, or the head of one that holds others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool,
    /// An integer; one below zero in two's complement.
    Int(u64),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// So many values follow.
    Array(usize),
    /// So many pairs follow.
    Map(usize),
    Extension,
}

/// Where in the bytes reading is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], MsgpackError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(MsgpackError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned number of `count` bytes, at most eight, in network order.
    fn number(&mut self, count: usize) -> Result<u64, MsgpackError> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn length(&mut self, count: usize) -> Result<usize, MsgpackError> {
        usize::try_from(self.number(count)?).map_err(|_| MsgpackError::TooMany)
    }

    /// The next value. Of an array or a map only the head is read.
    pub(super) fn next(&mut self) -> Result<Value<'a>, MsgpackError> {
        let head = *self.take(1)?.first().ok_or(MsgpackError::Short)?;
        Ok(match head {
            0x00..=0x7f => Value::Int(u64::from(head)),
            0x80..=0x8f => self.map(usize::from(head & 0x0f))?,
            0x90..=0x9f => self.array(usize::from(head & 0x0f))?,
            0xa0..=0xbf => Value::Text(self.take(usize::from(head & 0x1f))?),
            0xc0 => Value::Nil,
            0xc1 => return Err(MsgpackError::Reserved),
            0xc2 | 0xc3 => Value::Bool,
            0xc4..=0xc6 => Value::Bytes(self.sized(head - 0xc4)?),
            0xc7..=0xc9 => {
                let length = self.length(1 << (head - 0xc7))?;
                self.extension(length)?
            }
            0xca => Value::Float(f64::from(f32::from_bits(low(self.number(4)?)))),
            0xcb => Value::Float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Value::Int(self.number(1 << (head - 0xcc))?),
            0xd0..=0xd3 => Value::Int(self.signed(head - 0xd0)?),
            0xd4..=0xd8 => self.extension(1 << (head - 0xd4))?,
            0xd9..=0xdb => Value::Text(self.sized(head - 0xd9)?),
            0xdc | 0xdd => {
                let count = self.length(2 << (head - 0xdc))?;
                self.array(count)?
            }
            0xde | 0xdf => {
                let count = self.length(2 << (head - 0xde))?;
                self.map(count)?
            }
            // Small negative numbers, in two's complement.
            0xe0..=0xff => Value::Int(u64::from(head) | !0xff),
        })
    }

    fn sized(&mut self, power: u8) -> Result<&'a [u8], MsgpackError> {
        let length = self.length(1 << power)?;
        self.take(length)
    }

    fn signed(&mut self, power: u8) -> Result<u64, MsgpackError> {
        let bytes = 1_u32 << power;
        let number = self.number(1 << power)?;
        let unused = 64 - 8 * bytes;
        Ok(((number << unused).cast_signed() >> unused).cast_unsigned())
    }

    fn extension(&mut self, length: usize) -> Result<Value<'a>, MsgpackError> {
        self.take(1)?;
        self.take(length)?;
        Ok(Value::Extension)
    }

    /// Every value takes a byte at least, so a larger count is a lie.
    const fn array(&self, count: usize) -> Result<Value<'a>, MsgpackError> {
        if count > self.rest.len() {
            return Err(MsgpackError::Short);
        }
        Ok(Value::Array(count))
    }

    const fn map(&self, pairs: usize) -> Result<Value<'a>, MsgpackError> {
        if pairs > self.rest.len() / 2 {
            return Err(MsgpackError::Short);
        }
        Ok(Value::Map(pairs))
    }

    /// The next value without passing it.
    pub(super) fn next_ahead(&self) -> Result<Value<'a>, MsgpackError> {
        let mut ahead = *self;
        ahead.next()
    }

    /// Passes over the next value with all that it holds, however deep.
    pub(super) fn skip(&mut self) -> Result<(), MsgpackError> {
        // A count instead of a recursion: no depth of nesting can exhaust the stack, and the bytes bound the loop.
        let mut due = 1_usize;
        while due > 0 {
            due -= 1;
            let more = match self.next()? {
                Value::Array(count) => count,
                Value::Map(pairs) => 2 * pairs,
                Value::Nil
                | Value::Bool
                | Value::Int(_)
                | Value::Float(_)
                | Value::Text(_)
                | Value::Bytes(_)
                | Value::Extension => 0,
            };
            due = due.saturating_add(more);
        }
        Ok(())
    }

    /// The length of an array that must stand here and hold at most `max` values.
    pub(super) fn array_of(&mut self, max: usize) -> Result<usize, MsgpackError> {
        match self.next()? {
            Value::Array(count) if count <= max => Ok(count),
            Value::Array(_) => Err(MsgpackError::TooMany),
            Value::Nil
            | Value::Bool
            | Value::Int(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Map(_)
            | Value::Extension => Err(MsgpackError::Unexpected),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "four bytes were read")]
const fn low(number: u64) -> u32 {
    number as u32
}
