//! Text and tokens, by rules instead of a vocabulary.
//!
//! A token is four bytes of text; each message is cut up on its own, and its last token may be shorter. Answers consist of
//! words of four bytes, so an answer that comes back in the next prompt has the tokens it was generated with, and the prefix
//! cache finds it. The chat template costs what the common ones cost: a start token, three tokens before and one after each
//! message, three before the answer.

use maitred_sim::output_token;

const BYTES_PER_TOKEN: usize = 4;

/// Template tokens lie above every token that text of valid UTF-8 can give.
const BEGIN: u32 = 0xffff_ff00;
const OPEN: u32 = 0xffff_ff01;
const AFTER_ROLE: u32 = 0xffff_ff02;
const CLOSE: u32 = 0xffff_ff03;
const ROLES: u32 = 0xfffe_0000;

/// The tokens of `text`.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = u32> {
    text.as_bytes().chunks(BYTES_PER_TOKEN).map(|chunk| {
        let mut bytes = [0; BYTES_PER_TOKEN];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(bytes)
    })
}

/// Collects a prompt.
#[derive(Debug, Default)]
pub(super) struct PromptTokens(Vec<u32>);

impl PromptTokens {
    /// A prompt with a chat template.
    pub(super) fn chat() -> Self {
        Self(vec![BEGIN])
    }

    /// A prompt of bare tokens.
    pub(super) fn raw(tokens: Vec<u32>) -> Self {
        Self(tokens)
    }

    /// A prompt of bare text.
    pub(super) fn text(text: &str) -> Self {
        Self(tokens(text).collect())
    }

    /// Begins a message of `role`.
    pub(super) fn open(&mut self, role: &str) {
        let role = role
            .bytes()
            .fold(0_u32, |sum, byte| (sum * 31 + u32::from(byte)) & 0xffff);
        self.0.extend([OPEN, ROLES | role, AFTER_ROLE]);
    }

    /// Adds text to the message.
    pub(super) fn push(&mut self, text: &str) {
        self.0.extend(tokens(text));
    }

    /// Ends the message.
    pub(super) fn close(&mut self) {
        self.0.push(CLOSE);
    }

    /// The tokens.
    pub(super) fn finish(self) -> Vec<u32> {
        self.0
    }
}

/// The `index`th word of the answer drawn from `seed`.
pub(super) fn word(seed: u64, index: u32) -> [u8; BYTES_PER_TOKEN] {
    output_token(seed, index).to_le_bytes()
}

/// A number of 64 bits from bytes; FNV-1a with a final mix, so that near inputs give far outputs.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(sum, 0)
}

/// A number from two.
pub(super) fn mix(left: u64, right: u64) -> u64 {
    let mut value = left ^ right.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_with_the_tokens_it_was_generated_with() {
        let text: String = (0..10)
            .map(|index| String::from_utf8(word(7, index).to_vec()).unwrap())
            .collect();
        let generated: Vec<u32> = (0..10).map(|index| output_token(7, index)).collect();
        assert_eq!(tokens(&text).collect::<Vec<_>>(), generated);

        let mut first = PromptTokens::chat();
        first.open("user");
        first.push("hello");
        first.close();
        first.open("assistant");
        let mut first = first.finish();
        assert_eq!(first.len(), 1 + 3 + 2 + 1 + 3);
        first.extend(generated);
        let mut second = PromptTokens::chat();
        for (role, content) in [("user", "hello"), ("assistant", text.as_str()), ("user", "more")] {
            second.open(role);
            second.push(content);
            second.close();
        }
        assert!(second.finish().starts_with(&first));
    }
}
