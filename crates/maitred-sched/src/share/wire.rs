//! Messages as bytes: a version, then counted lists of fixed-size numbers, least byte first.

use std::fmt;

use maitred_types::PromptChain;

use super::{SHARED_BLOCKS_MAX, SHARED_LOADS_MAX, SHARED_PROMPTS_MAX, ShareMessage, SharedLoad, SharedPrompt};
use crate::pace::Work;

/// The form's version.
const VERSION: u8 = 1;
/// More seconds' worth of tokens than any queue has; what is larger is a mistake.
const WORK_MAX: f64 = 1e15;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// They are of another version.
    Version {
        /// Which.
        found: u8,
    },
    /// They end too early.
    Short,
    /// They go on after the end.
    Long,
    /// They say more than one message may.
    TooMany,
    /// A figure that cannot be.
    Figure,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { found } => write!(f, "the message is of version {found}, and this gateway reads {VERSION}"),
            Self::Short => f.write_str("the message ends too early"),
            Self::Long => f.write_str("the message goes on after its end"),
            Self::TooMany => f.write_str("the message says more than one may"),
            Self::Figure => f.write_str("the message has a figure that cannot be"),
        }
    }
}

impl std::error::Error for ShareError {}

pub(super) fn write(message: &ShareMessage) -> Vec<u8> {
    let (loads, prompts) = (
        message.loads.iter().take(SHARED_LOADS_MAX),
        message.prompts.iter().take(SHARED_PROMPTS_MAX),
    );
    let mut bytes = vec![VERSION];
    bytes.extend(count(loads.len()).to_le_bytes());
    for load in loads {
        bytes.extend(load.endpoint.to_le_bytes());
        bytes.extend(load.work.tokens.to_le_bytes());
        bytes.extend(load.work.attention.to_le_bytes());
        bytes.extend(load.sequences.to_le_bytes());
    }
    bytes.extend(count(prompts.len()).to_le_bytes());
    for prompt in prompts {
        bytes.extend(prompt.endpoint.to_le_bytes());
        bytes.extend(prompt.chain.tokens_per_block().to_le_bytes());
        bytes.extend(count(prompt.chain.blocks()).to_le_bytes());
        for hash in prompt.chain.hashes() {
            bytes.extend(hash.to_le_bytes());
        }
    }
    bytes
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

pub(super) fn read(bytes: &[u8]) -> Result<ShareMessage, ShareError> {
    let mut cursor = Cursor { rest: bytes };
    let [found] = cursor.take()?;
    if found != VERSION {
        return Err(ShareError::Version { found });
    }
    let loads = cursor.count(SHARED_LOADS_MAX)?;
    let loads = (0..loads).map(|_| cursor.load()).collect::<Result<_, _>>()?;
    let prompts = cursor.count(SHARED_PROMPTS_MAX)?;
    let mut blocks_left = SHARED_BLOCKS_MAX;
    let prompts = (0..prompts)
        .map(|_| cursor.prompt(&mut blocks_left))
        .collect::<Result<_, _>>()?;
    if !cursor.rest.is_empty() {
        return Err(ShareError::Long);
    }
    Ok(ShareMessage { loads, prompts })
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ShareError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ShareError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A count of things to come. Nothing is set aside for more of them than there are bytes.
    fn count(&mut self, most: usize) -> Result<usize, ShareError> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        if count > most {
            return Err(ShareError::TooMany);
        }
        if count > self.rest.len() {
            return Err(ShareError::Short);
        }
        Ok(count)
    }

    fn work(&mut self) -> Result<f64, ShareError> {
        let work = f64::from_le_bytes(self.take()?);
        (0.0..=WORK_MAX)
            .contains(&work)
            .then_some(work)
            .ok_or(ShareError::Figure)
    }

    fn load(&mut self) -> Result<SharedLoad, ShareError> {
        Ok(SharedLoad {
            endpoint: u64::from_le_bytes(self.take()?),
            work: Work {
                tokens: self.work()?,
                attention: self.work()?,
            },
            sequences: u32::from_le_bytes(self.take()?),
        })
    }

    fn prompt(&mut self, blocks_left: &mut usize) -> Result<SharedPrompt, ShareError> {
        let endpoint = u64::from_le_bytes(self.take()?);
        let tokens_per_block = f32::from_le_bytes(self.take()?);
        if !(tokens_per_block > 0.0 && tokens_per_block.is_finite()) {
            return Err(ShareError::Figure);
        }
        let blocks = self.count(*blocks_left)?;
        *blocks_left -= blocks;
        let hashes = (0..blocks).map(|_| self.take().map(u64::from_le_bytes));
        let hashes = hashes.collect::<Result<Vec<u64>, _>>()?;
        Ok(SharedPrompt {
            endpoint,
            chain: PromptChain::new(hashes, tokens_per_block),
        })
    }
}
