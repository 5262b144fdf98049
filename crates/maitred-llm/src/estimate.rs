//! Guessing token counts before anyone has counted.

use maitred_types::TokenCount;

use crate::{BodyView, Span};

/// Bytes of prompt per token, JSON's quotes and braces included. English text and source code lie between 3.5 and 4.5 with the
/// vocabularies in use; the truth is learned from the usage that endpoints report.
pub const BYTES_PER_TOKEN: usize = 4;

/// Tokens that one piece of encoded media (an image, a sound, a file) counts for: its bytes say nothing about its tokens, and
/// vision models of today make some hundred to two thousand of an image.
pub const MEDIA_TOKENS: usize = 1024;

/// How many prompt tokens a call will have, roughly. Prompts that are given as token ids are counted exactly.
#[must_use]
pub fn estimate_tokens(view: &BodyView) -> TokenCount {
    let texts = [
        view.messages(),
        view.prompt(),
        view.input(),
        view.tools(),
        view.system(),
    ];
    let mut bytes = 0_usize;
    let mut ids = 0_usize;
    for span in texts.into_iter().flatten() {
        match token_ids(view, span) {
            Some(count) => ids += count,
            None => bytes += span.len(),
        }
    }
    let media = view.media();
    let words = bytes.saturating_sub(media.bytes).div_ceil(BYTES_PER_TOKEN);
    let tokens = words + ids + media.count * MEDIA_TOKENS;
    TokenCount::saturating_from(tokens as u64)
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
}
