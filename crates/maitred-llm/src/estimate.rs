//! Guessing token counts before anyone has counted, and learning from those who have.

use maitred_types::{TokenCount, Usage, UsageSource};

use crate::{BodyView, Span};

/// Bytes of prompt per token before anything is learned. English text and source code lie between 3.5 and 4.5 with the
/// vocabularies in use.
pub const BYTES_PER_TOKEN: usize = 4;

/// Tokens that one piece of encoded media (an image, a sound, a file) counts for: its bytes say nothing about its tokens, and
/// vision models of today make some hundred to two thousand of an image.
pub const MEDIA_TOKENS: usize = 1024;

/// How large a prompt is, as far as can be seen without a tokenizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptSize {
    /// Bytes of text.
    pub text: usize,
    /// Pieces of encoded media.
    pub media: usize,
    /// Token ids that are given as such.
    pub ids: usize,
}

impl PromptSize {
    /// How many tokens it will have, roughly; ids are counted exactly.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, not below zero, and a float cast saturates"
    )]
    pub fn tokens(self, ratio: TokenRatio) -> TokenCount {
        let words = (self.text as f32 / ratio.bytes_per_token()).ceil() as u64;
        let others = (self.ids + self.media * MEDIA_TOKENS) as u64;
        TokenCount::saturating_from(words.saturating_add(others))
    }
}

/// How many bytes of prompt make a token of one model, learned from the prompts that its endpoints have counted.
///
/// It is the quotient of two sums in which an old call counts less with every new one, so a long prompt tells more than a short one
/// whose tokens are mostly the template's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRatio {
    bytes: f32,
    tokens: f32,
}

impl TokenRatio {
    /// The least and the most a token can have. Every byte is a token of its own to some models; words longer than this are rare.
    const BOUNDS: (f32, f32) = (0.5, 32.0);
    /// Tokens that the first guess weighs, as if they had been counted.
    const PRIOR_TOKENS: f32 = 2048.0;
    /// What is left of earlier calls after one more: the last hundred or so count.
    const KEEP: f32 = 0.99;
    /// The most tokens one call can weigh, so that none outweighs all others for long.
    const MOST: f32 = 8192.0;

    /// Learns from a prompt whose tokens the endpoint has counted. Media and ids tell nothing of text, and what is estimated
    /// tells nothing at all.
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than six digits")]
    pub fn learn(&mut self, size: PromptSize, usage: &Usage) {
        let tokens = usage.input.get() as f32;
        if size.media > 0 || size.ids > 0 || size.text == 0 || tokens < 1.0 || usage.source != UsageSource::Reported {
            return;
        }
        let (least, most) = Self::BOUNDS;
        let ratio = (size.text as f32 / tokens).clamp(least, most);
        let weight = tokens.min(Self::MOST);
        self.bytes = self.bytes * Self::KEEP + ratio * weight;
        self.tokens = self.tokens * Self::KEEP + weight;
    }

    /// Bytes of prompt per token; between one half and 32.
    #[must_use]
    pub fn bytes_per_token(self) -> f32 {
        let (least, most) = Self::BOUNDS;
        (self.bytes / self.tokens).clamp(least, most)
    }
}

impl Default for TokenRatio {
    /// Nothing learned: four bytes a token.
    #[expect(clippy::cast_precision_loss, reason = "the number is four")]
    fn default() -> Self {
        Self {
            bytes: Self::PRIOR_TOKENS * BYTES_PER_TOKEN as f32,
            tokens: Self::PRIOR_TOKENS,
        }
    }
}

/// How many prompt tokens a call will have, roughly, before anything is learned of its model. JSON's quotes and braces count as
/// text.
#[must_use]
pub fn estimate_tokens(view: &BodyView) -> TokenCount {
    prompt_size(view).tokens(TokenRatio::default())
}

/// How large a call's prompt is, JSON's quotes and braces included.
#[must_use]
pub fn prompt_size(view: &BodyView) -> PromptSize {
    let texts = [
        view.messages(),
        view.prompt(),
        view.input(),
        view.tools(),
        view.system(),
    ];
    let mut size = PromptSize::default();
    for span in texts.into_iter().flatten() {
        match token_ids(view, span) {
            Some(count) => size.ids += count,
            None => size.text += span.len(),
        }
    }
    let media = view.media();
    size.text = size.text.saturating_sub(media.bytes);
    size.media = media.count;
    size
}

/// How many numbers there are in an array of numbers or of arrays of numbers, which is how ids are given; `None` for text.
fn token_ids(view: &BodyView, span: Span) -> Option<usize> {
    let raw = view.raw(span);
    let mut front = raw.iter().filter(|byte| !byte.is_ascii_whitespace());
    if front.next() != Some(&b'[') || !front.find(|&&byte| byte != b'[')?.is_ascii_digit() {
        return None;
    }
    let starts = raw
        .windows(2)
        .filter(|pair| !pair[0].is_ascii_digit() && pair[1].is_ascii_digit());
    Some(starts.count())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::scan;

    fn check(body: &str, tokens: u32) {
        let view = scan(&Bytes::copy_from_slice(body.as_bytes())).unwrap();
        assert_eq!(estimate_tokens(&view), TokenCount::new(tokens), "{body:.200}");
    }

    #[test]
    fn text_counts_by_its_bytes() {
        check(r#"{"model":"m"}"#, 0);
        check(r#"{"prompt":""}"#, 1);
        check(r#"{"prompt":"12345678901234"}"#, 4);
        check(r#"{"messages":[{"role":"user","content":"hi"}]}"#, 8);
        check(r#"{"system":"123456","messages":["12"],"tools":[{}]}"#, 5);
        check(r#"{"temperature":0.25,"messages":[]}"#, 1);
    }

    #[test]
    fn token_ids_count_one_each() {
        check(r#"{"prompt":[1,22, 333]}"#, 3);
        check(r#"{"prompt":[[1,2],[3]]}"#, 3);
        check(r#"{"input":[[ 1 ]]}"#, 1);
        check(r#"{"input":[]}"#, 1);
        check(r#"{"input":["1234","5678"]}"#, 4);
    }

    #[test]
    fn an_encoded_image_is_not_text() {
        let image = format!("data:image/png;base64,{}", "iVBORw0KGgo".repeat(100_000));
        let body = format!(r#"{{"messages":[{{"image_url":{{"url":"{image}"}}}}]}}"#);
        let view = scan(&Bytes::from(body)).unwrap();
        let tokens = estimate_tokens(&view).get();
        assert!((1024..1100).contains(&tokens), "{tokens}");
        // A long text is not taken for one.
        let body = format!(r#"{{"prompt":"{}"}}"#, "word ".repeat(1000));
        check(&body, 1251);
    }

    fn counted(input: u32, source: UsageSource) -> Usage {
        Usage {
            input: TokenCount::new(input),
            cached_input: None,
            output: TokenCount::ZERO,
            reasoning: None,
            source,
        }
    }

    fn text_of(text: usize) -> PromptSize {
        PromptSize { text, media: 0, ids: 0 }
    }

    #[test]
    fn the_ratio_comes_to_what_endpoints_count() {
        let near = |ratio: TokenRatio, wanted: f32| {
            let found = ratio.bytes_per_token();
            assert!((found - wanted).abs() < wanted * 0.05, "{found} instead of {wanted}");
        };
        let mut ratio = TokenRatio::default();
        near(ratio, 4.0);
        for _ in 0..100 {
            ratio.learn(text_of(6000), &counted(2000, UsageSource::Reported));
        }
        near(ratio, 3.0);
        // A short prompt, most of whose tokens are the template's, says little beside a long one.
        for _ in 0..100 {
            ratio.learn(text_of(8), &counted(16, UsageSource::Reported));
            ratio.learn(text_of(6000), &counted(2000, UsageSource::Reported));
        }
        near(ratio, 3.0);
        assert_eq!(text_of(3000).tokens(ratio).get() / 100, 10);
        // What changes is learned anew.
        for _ in 0..600 {
            ratio.learn(text_of(8000), &counted(1000, UsageSource::Reported));
        }
        near(ratio, 8.0);
    }

    #[test]
    fn nothing_is_learned_from_guesses_and_the_ratio_is_bounded() {
        let mut ratio = TokenRatio::default();
        ratio.learn(text_of(8000), &counted(1000, UsageSource::Estimated));
        ratio.learn(text_of(8000), &counted(0, UsageSource::Reported));
        ratio.learn(text_of(0), &counted(10, UsageSource::Reported));
        let media = PromptSize {
            media: 1,
            ..text_of(8000)
        };
        ratio.learn(media, &counted(1000, UsageSource::Reported));
        assert_eq!(ratio, TokenRatio::default());
        for (text, tokens, bound) in [(1, u32::MAX, 0.5), (usize::MAX, 1, 32.0)] {
            for _ in 0..2000 {
                ratio.learn(text_of(text), &counted(tokens, UsageSource::Reported));
            }
            let found = ratio.bytes_per_token();
            assert!((found - bound).abs() < 3.0, "{found}, bound {bound}");
            assert!((0.5..=32.0).contains(&found));
        }
    }
}
