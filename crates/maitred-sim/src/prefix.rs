//! Prompts as chains of hashes: equal hashes mean equal tokens from the first one on.

use std::num::NonZeroU64;

/// The hash of a full KV block and of everything before it. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(NonZeroU64);

impl BlockHash {
    /// The hash `value`, for a caller that has its own chain; zero is replaced.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        match NonZeroU64::new(value) {
            Some(value) => Self(value),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// Odd constants without structure (digits of the golden ratio and of pi).
const CHAIN: u64 = 0x9e37_79b9_7f4a_7c15;
const START: u64 = 0x2435_f2a4_6b15_8a4d;

/// Both halves of a 128-bit product, folded: every input bit reaches every output bit.
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    let low = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(u64::MAX);
    let high = u64::try_from(product >> 64).unwrap_or(u64::MAX);
    low ^ high
}

/// Hashes a sequence. The value depends on all content so far and on the adapter.
///
/// Content comes token by token, or as **passages**: stretches that are known by a seed and a length only, for workloads that
/// know lengths and what is shared but no text. Equal passages in equal order have equal hashes, at every place inside them
/// too. A passage never equals the same tokens pushed one by one; a workload uses one way or the other.
///
/// Engines hash whole blocks with functions of their own; nothing outside an engine depends on which. A running hash needs
/// no buffer for the block that is not full yet, so a decode step stays free of allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixHasher {
    state: u64,
    /// Tokens of the passage that has been begun.
    passed: u32,
}

impl PrefixHasher {
    /// The hash of nothing, for the base model or for an adapter: the same tokens under another adapter share no block.
    #[must_use]
    pub fn new(adapter: Option<&str>) -> Self {
        let mut state = START;
        for byte in adapter.unwrap_or_default().bytes() {
            state = fold(state ^ (u64::from(byte) + 1), CHAIN);
        }
        Self { state, passed: 0 }
    }

    /// Appends `token`.
    pub fn push(&mut self, token: u32) {
        self.state = fold(self.closed() ^ (u64::from(token) + 1), CHAIN);
        self.passed = 0;
    }

    /// Begins the passage drawn from `seed`.
    pub fn begin(&mut self, seed: u64) {
        self.state = fold(self.closed() ^ fold(seed ^ START, CHAIN), START);
        self.passed = 0;
    }

    /// Appends the next `tokens` tokens of the passage that has been begun.
    pub const fn pass(&mut self, tokens: u32) {
        self.passed = self.passed.saturating_add(tokens);
    }

    /// The hash of what has been appended.
    #[must_use]
    pub fn hash(&self) -> BlockHash {
        BlockHash::new(self.closed())
    }

    fn closed(&self) -> u64 {
        match self.passed {
            0 => self.state,
            passed => fold(self.state ^ u64::from(passed), CHAIN),
        }
    }
}

/// What a prompt, and so its answer, is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Tokens,
    Passages,
}

/// A prompt as the engine sees it: how long it is and which blocks it fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    tokens: u32,
    hashes: Vec<BlockHash>,
    end: PrefixHasher,
    content: Content,
}

impl Prompt {
    /// Hashes `tokens` in blocks of `block_size`, for `adapter`. More than 2³² − 1 tokens are cut.
    pub fn new(tokens: impl IntoIterator<Item = u32>, block_size: u32, adapter: Option<&str>) -> Self {
        let mut prompt = Self {
            tokens: 0,
            hashes: Vec::new(),
            end: PrefixHasher::new(adapter),
            content: Content::Tokens,
        };
        for token in tokens {
            if prompt.tokens == u32::MAX {
                break;
            }
            prompt.end.push(token);
            prompt.tokens += 1;
            if prompt.tokens.is_multiple_of(block_size.max(1)) {
                prompt.hashes.push(prompt.end.hash());
            }
        }
        prompt
    }

    /// A prompt that shares nothing with another of a different `seed`; for workloads that only know lengths.
    #[must_use]
    pub fn unique(tokens: u32, block_size: u32, seed: u64) -> Self {
        let low = u32::try_from(seed & u64::from(u32::MAX)).unwrap_or_default();
        let high = u32::try_from(seed >> 32).unwrap_or_default();
        Self::new(
            (0..tokens).map(|index| index ^ if index % 2 == 0 { low } else { high }),
            block_size,
            None,
        )
    }

    /// A prompt without content yet, to be made of passages.
    #[must_use]
    pub fn of_passages(adapter: Option<&str>) -> Self {
        Self {
            tokens: 0,
            hashes: Vec::new(),
            end: PrefixHasher::new(adapter),
            content: Content::Passages,
        }
    }

    /// Appends the first `tokens` tokens of the passage drawn from `seed`. Costs as much as there are blocks. An engine whose
    /// request is of passages appends its answer in the same way, so a next turn repeats it with the request's
    /// [`output_seed`](crate::SimRequest::output_seed). More than 2³² − 1 tokens are cut.
    pub fn append(&mut self, seed: u64, tokens: u32, block_size: u32) {
        self.end.begin(seed);
        let tokens = tokens.min(u32::MAX - self.tokens);
        let mut left = tokens;
        let block_size = block_size.max(1);
        while left > 0 {
            let room = block_size - self.tokens % block_size;
            let taken = room.min(left);
            self.end.pass(taken);
            self.tokens += taken;
            left -= taken;
            if taken == room {
                self.hashes.push(self.end.hash());
            }
        }
    }

    /// A prompt of passages whose hashes are known: `tokens` tokens, `hashes` of their full blocks, and the hasher at their end.
    #[must_use]
    pub(crate) fn from_parts(tokens: u32, hashes: &[u64], end: PrefixHasher) -> Self {
        Self {
            tokens,
            hashes: hashes.iter().map(|hash| BlockHash::new(*hash)).collect(),
            end,
            content: Content::Passages,
        }
    }

    /// The hasher after its last token.
    pub(crate) const fn end(&self) -> PrefixHasher {
        self.end
    }

    /// Its length in tokens.
    #[must_use]
    pub const fn tokens(&self) -> u32 {
        self.tokens
    }

    /// The hashes of its full blocks.
    #[must_use]
    pub fn hashes(&self) -> &[BlockHash] {
        &self.hashes
    }

    /// The hash of the whole prompt, its last, partial block included.
    #[must_use]
    pub fn hash(&self) -> BlockHash {
        self.end.hash()
    }

    pub(crate) fn into_parts(self) -> (u32, Vec<BlockHash>, PrefixHasher, Content) {
        (self.tokens, self.hashes, self.end, self.content)
    }
}

/// The `index`th token (from 0) of the answer drawn from `seed`: four bytes of text, a space and three letters, read as a
/// little-endian number. A prompt that repeats the answer four bytes at a time therefore repeats its tokens.
#[must_use]
pub fn output_token(seed: u64, index: u32) -> u32 {
    const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
    const VOWELS: &[u8; 4] = b"aeio";
    let bits = fold(seed ^ CHAIN, u64::from(index).wrapping_mul(START) | 1);
    let pick = |shift: u32, mask: u64| usize::try_from((bits >> shift) & mask).unwrap_or_default();
    let first = CONSONANTS[pick(8, 15)];
    let vowel = VOWELS[pick(20, 3)];
    let last = CONSONANTS[pick(32, 15)];
    u32::from_le_bytes([b' ', first, vowel, last])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_match_exactly_as_far_as_tokens_do() {
        let tokens: Vec<u32> = (0..100).collect();
        let mut other = tokens.clone();
        other[40] = 7;
        let (left, right) = (Prompt::new(tokens.clone(), 16, None), Prompt::new(other, 16, None));
        assert_eq!((left.tokens(), left.hashes().len()), (100, 6));
        let same = left
            .hashes()
            .iter()
            .zip(right.hashes())
            .filter(|(left, right)| left == right)
            .count();
        assert_eq!(
            same, 2,
            "token 40 lies in the third block, and every later block depends on it"
        );
        let adapted = Prompt::new(tokens, 16, Some("lora-a"));
        assert!(
            left.hashes()
                .iter()
                .zip(adapted.hashes())
                .all(|(left, right)| left != right)
        );
    }

    #[test]
    fn unique_prompts_share_nothing() {
        let (left, right) = (Prompt::unique(64, 16, 1), Prompt::unique(64, 16, 2));
        assert!(
            left.hashes()
                .iter()
                .zip(right.hashes())
                .all(|(left, right)| left != right)
        );
    }

    #[test]
    fn passages_match_as_far_as_they_are_the_same() {
        let prompt = |passages: &[(u64, u32)]| {
            let mut prompt = Prompt::of_passages(None);
            for (seed, tokens) in passages {
                prompt.append(*seed, *tokens, 16);
            }
            prompt
        };
        let same = |left: &Prompt, right: &Prompt| {
            let pairs = left.hashes().iter().zip(right.hashes());
            pairs.take_while(|(left, right)| left == right).count()
        };
        let long = prompt(&[(1, 40), (2, 60)]);
        assert_eq!((long.tokens(), long.hashes().len()), (100, 6));
        assert_eq!(
            same(&long, &prompt(&[(1, 40), (2, 20)])),
            3,
            "a shorter passage is a part of a longer one"
        );
        assert_eq!(
            same(&long, &prompt(&[(1, 40), (3, 60)])),
            2,
            "the third block holds tokens of another passage"
        );
        assert_eq!(
            same(&long, &prompt(&[(1, 41), (2, 60)])),
            2,
            "the same passage later is another text"
        );
        assert_eq!(same(&long, &prompt(&[(2, 40), (1, 60)])), 0);
    }

    #[test]
    fn answers_are_words_of_four_bytes() {
        for index in 0..1000 {
            let bytes = output_token(9, index).to_le_bytes();
            assert_eq!(bytes[0], b' ');
            assert!(bytes[1..].iter().all(u8::is_ascii_lowercase));
        }
        let text = |seed| (0..8).map(|index| output_token(seed, index)).collect::<Vec<_>>();
        assert_ne!(text(1), text(2));
        assert_eq!(text(1), text(1));
    }
}
