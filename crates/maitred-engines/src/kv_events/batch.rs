//! One payload: a time, events, and the data-parallel rank that they are of.
//!
//! Batches and events come as arrays (the tag first, fields in their order, trailing ones left out) or as maps (the tag under
//! `type`), depending on the engine's version. Fields and kinds of event that are not known here are passed over, and counted.

use std::fmt;

use super::msgpack::{MsgpackError, Reader, Value};

/// Largest payload that is read, in bytes.
pub(super) const PAYLOAD_MAX: usize = 16 << 20;
/// Most events of one batch.
const EVENTS_MAX: usize = 65_536;
/// Most blocks of one event.
const BLOCKS_MAX: usize = 1 << 20;
/// Most token ids of one event.
const TOKENS_MAX: usize = 4 << 20;
/// Longest name that is kept, in bytes; a longer one is cut.
const NAME_MAX: usize = 256;

/// An engine's name of a block: made of its token ids and of the block before it. A name of bytes is taken by its last eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

/// Blocks that were stored, in the order of their tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlocksStored {
    /// Their names.
    pub hashes: Vec<BlockHash>,
    /// The block before the first of them; none at the beginning of a prompt.
    pub parent: Option<BlockHash>,
    /// The token ids that they hold.
    pub tokens: Vec<u32>,
    /// Tokens per block; 0 where it is not said.
    pub block_size: u32,
    /// The number of the adapter that they belong to.
    pub lora_id: Option<u64>,
    /// Its name.
    pub lora_name: Option<String>,
    /// Where they lie.
    pub place: Place,
}

/// Blocks that are there no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlocksRemoved {
    /// Their names.
    pub hashes: Vec<BlockHash>,
    /// Where they lay.
    pub place: Place,
}

/// Where blocks lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The memory, such as `GPU`; none where it is not said, which is the engine's own.
    pub medium: Option<String>,
    /// The group of layers that they belong to. A model that mixes kinds of attention has several, and stores each block once
    /// for every group.
    pub group: u32,
    /// The kind of those layers' cache, such as `full_attention`.
    pub kind: Option<String>,
}

impl Place {
    /// Whether what lies there stands for the prompt itself: in the engine's own memory, in the first group of layers.
    #[must_use]
    pub fn is_own(&self) -> bool {
        let medium = self.medium.as_deref();
        self.group == 0 && medium.is_none_or(|medium| medium.eq_ignore_ascii_case("gpu"))
    }
}

/// What happened to a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks were stored.
    Stored(BlocksStored),
    /// Blocks were removed.
    Removed(BlocksRemoved),
    /// All blocks were removed.
    Cleared,
}

/// One payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvBatch {
    /// Unix time in seconds, by the engine's clock.
    pub at: Option<f64>,
    /// What happened, in order.
    pub events: Vec<KvEvent>,
    /// The data-parallel rank that it happened to.
    pub rank: Option<u32>,
    /// Events of kinds that are not known here.
    pub passed_over: u32,
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvBatchError {
    /// It is larger than is read.
    TooLarge,
    /// It is not the form that it should be.
    Malformed(MsgpackError),
}

impl From<MsgpackError> for KvBatchError {
    fn from(error: MsgpackError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for KvBatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the payload is larger than {PAYLOAD_MAX} bytes"),
            Self::Malformed(error) => write!(f, "the payload is no batch of events: {error}"),
        }
    }
}

impl std::error::Error for KvBatchError {}

type Read<T> = Result<T, MsgpackError>;

impl KvBatch {
    /// Reads a payload.
    ///
    /// # Errors
    /// When it is too large or no batch of events. Whatever is not known but well-formed is passed over.
    pub fn read(payload: &[u8]) -> Result<Self, KvBatchError> {
        if payload.len() > PAYLOAD_MAX {
            return Err(KvBatchError::TooLarge);
        }
        let mut reader = Reader::new(payload);
        let mut batch = Self::default();
        fields(&mut reader, &["ts", "events", "data_parallel_rank"], |field, reader| {
            match field {
                "ts" => batch.at = float(reader)?,
                "events" => batch.read_events(reader)?,
                "data_parallel_rank" => batch.rank = integer(reader)?.and_then(|rank| u32::try_from(rank).ok()),
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        if !reader.is_at_end() {
            return Err(MsgpackError::TooMany.into());
        }
        Ok(batch)
    }

    fn read_events(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        for _ in 0..reader.array_of(EVENTS_MAX)? {
            match event(reader)? {
                Some(event) => self.events.push(event),
                None => self.passed_over += 1,
            }
        }
        Ok(())
    }
}

/// The fields of `BlockStored` where it is an array, after its tag.
const STORED: &[&str] = &[
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
];
/// The fields of `BlockRemoved` where it is an array, after its tag.
const REMOVED: &[&str] = &["block_hashes", "medium", "group_idx"];

/// One event; nothing when its kind is not known.
fn event(reader: &mut Reader<'_>) -> Read<Option<KvEvent>> {
    let tag = tag(*reader)?;
    match tag {
        b"BlockStored" => {
            let mut stored = BlocksStored::default();
            tagged(reader, STORED, |field, reader| stored.field(field, reader))?;
            Ok(Some(KvEvent::Stored(stored)))
        }
        b"BlockRemoved" => {
            let mut removed = BlocksRemoved::default();
            tagged(reader, REMOVED, |field, reader| match field {
                "block_hashes" => hashes(reader).map(|hashes| removed.hashes = hashes),
                _ => removed.place.field(field, reader),
            })?;
            Ok(Some(KvEvent::Removed(removed)))
        }
        b"AllBlocksCleared" => {
            reader.skip()?;
            Ok(Some(KvEvent::Cleared))
        }
        _ => {
            reader.skip()?;
            Ok(None)
        }
    }
}

/// The tag of the event that `reader` stands before. The reader is a copy, so nothing is consumed.
fn tag(mut reader: Reader<'_>) -> Read<&[u8]> {
    match reader.next()? {
        Value::Array(1..) => text(reader.next()?),
        Value::Map(pairs) => {
            for _ in 0..pairs {
                if text(reader.next()?)? == b"type" {
                    return text(reader.next()?);
                }
                reader.skip()?;
            }
            Err(MsgpackError::Unexpected)
        }
        _ => Err(MsgpackError::Unexpected),
    }
}

fn text(value: Value<'_>) -> Read<&[u8]> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(MsgpackError::Unexpected),
    }
}

/// Goes through the fields of an event, whose tag stands first or under `type`.
fn tagged<'a>(
    reader: &mut Reader<'a>,
    names: &[&'static str],
    mut read: impl FnMut(&str, &mut Reader<'a>) -> Read<()>,
) -> Read<()> {
    if let Value::Array(count) = reader.next_ahead()? {
        reader.next()?;
        reader.skip()?;
        return in_order(reader, count.saturating_sub(1), names, read);
    }
    fields(reader, names, |field, reader| match field {
        "type" => reader.skip(),
        _ => read(field, reader),
    })
}

/// Goes through the fields of an array, by their places, or of a map, by their names.
fn fields<'a>(
    reader: &mut Reader<'a>,
    names: &[&'static str],
    mut read: impl FnMut(&str, &mut Reader<'a>) -> Read<()>,
) -> Read<()> {
    match reader.next()? {
        Value::Array(count) => in_order(reader, count, names, read),
        Value::Map(pairs) => {
            for _ in 0..pairs {
                let name = text(reader.next()?)?;
                read(std::str::from_utf8(name).unwrap_or_default(), reader)?;
            }
            Ok(())
        }
        _ => Err(MsgpackError::Unexpected),
    }
}

fn in_order<'a>(
    reader: &mut Reader<'a>,
    count: usize,
    names: &[&'static str],
    mut read: impl FnMut(&str, &mut Reader<'a>) -> Read<()>,
) -> Read<()> {
    for at in 0..count {
        match names.get(at) {
            Some(name) => read(name, reader)?,
            // A field of a later version.
            None => reader.skip()?,
        }
    }
    Ok(())
}

impl BlocksStored {
    fn field(&mut self, field: &str, reader: &mut Reader<'_>) -> Read<()> {
        match field {
            "block_hashes" => self.hashes = hashes(reader)?,
            "parent_block_hash" => self.parent = hash(reader)?,
            "token_ids" => self.tokens = tokens(reader)?,
            "block_size" => self.block_size = integer(reader)?.and_then(|size| u32::try_from(size).ok()).unwrap_or(0),
            "lora_id" => self.lora_id = integer(reader)?,
            "lora_name" => self.lora_name = name(reader)?,
            _ => self.place.field(field, reader)?,
        }
        Ok(())
    }
}

impl Place {
    fn field(&mut self, field: &str, reader: &mut Reader<'_>) -> Read<()> {
        match field {
            "medium" => self.medium = name(reader)?,
            "group_idx" => self.group = integer(reader)?.map_or(0, |group| u32::try_from(group).unwrap_or(u32::MAX)),
            "kv_cache_spec_kind" => self.kind = name(reader)?,
            _ => reader.skip()?,
        }
        Ok(())
    }
}

fn hashes(reader: &mut Reader<'_>) -> Read<Vec<BlockHash>> {
    let count = reader.array_of(BLOCKS_MAX)?;
    let mut hashes = Vec::with_capacity(count);
    for _ in 0..count {
        hashes.push(hash(reader)?.ok_or(MsgpackError::Unexpected)?);
    }
    Ok(hashes)
}

fn hash(reader: &mut Reader<'_>) -> Read<Option<BlockHash>> {
    match reader.next()? {
        Value::Int(number) => Ok(Some(BlockHash(number))),
        Value::Bytes(bytes) => {
            let last = bytes.len().saturating_sub(8);
            let last = bytes.get(last..).unwrap_or_default();
            let number = last.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte));
            Ok(Some(BlockHash(number)))
        }
        Value::Nil => Ok(None),
        _ => Err(MsgpackError::Unexpected),
    }
}

/// Token ids. SGLang gives pairs of ids instead where it drafts; the first of each is kept.
fn tokens(reader: &mut Reader<'_>) -> Read<Vec<u32>> {
    let count = reader.array_of(TOKENS_MAX)?;
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        let token = match reader.next()? {
            Value::Int(token) => token,
            Value::Array(others @ 1..) => {
                let first = integer(reader)?.ok_or(MsgpackError::Unexpected)?;
                for _ in 1..others {
                    reader.skip()?;
                }
                first
            }
            _ => return Err(MsgpackError::Unexpected),
        };
        tokens.push(u32::try_from(token).unwrap_or(u32::MAX));
    }
    Ok(tokens)
}

fn integer(reader: &mut Reader<'_>) -> Read<Option<u64>> {
    match reader.next()? {
        Value::Int(number) => Ok(Some(number)),
        Value::Nil => Ok(None),
        _ => Err(MsgpackError::Unexpected),
    }
}

fn float(reader: &mut Reader<'_>) -> Read<Option<f64>> {
    match reader.next()? {
        Value::Float(number) => Ok(Some(number)),
        #[expect(clippy::cast_precision_loss, reason = "a time in seconds")]
        Value::Int(number) => Ok(Some(number as f64)),
        Value::Nil => Ok(None),
        _ => Err(MsgpackError::Unexpected),
    }
}

fn name(reader: &mut Reader<'_>) -> Read<Option<String>> {
    match reader.next()? {
        Value::Text(text) => {
            let kept = text.get(..NAME_MAX).unwrap_or(text);
            Ok(Some(String::from_utf8_lossy(kept).into_owned()))
        }
        Value::Nil => Ok(None),
        _ => Err(MsgpackError::Unexpected),
    }
}
