//! Embeddings: unit vectors drawn from a hash of the text, so equal texts have equal ones.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::shape::Quoted;
use super::text::{digest, mix};

/// Length of a vector unless the call asks for another.
const DIMENSIONS: u32 = 256;
/// Most dimensions that can be asked for.
const MAX_DIMENSIONS: u32 = 4096;

/// The vector of a text, given as tokens.
fn vector(tokens: &[u32], dimensions: u32) -> Vec<f32> {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    let seed = digest(&bytes);
    let raw: Vec<f64> = (0..dimensions)
        .map(|index| {
            let bits = mix(seed, u64::from(index) + 1) >> 32;
            f64::from(u32::try_from(bits).unwrap_or_default()) / f64::from(u32::MAX) * 2.0 - 1.0
        })
        .collect();
    let norm = raw
        .iter()
        .map(|value| value * value)
        .sum::<f64>()
        .sqrt()
        .max(f64::MIN_POSITIVE);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to the precision that embeddings have"
    )]
    let unit = raw.iter().map(|value| (value / norm) as f32).collect();
    unit
}

/// The whole answer, in vLLM's form.
pub(super) fn answer(prompts: &[Vec<u32>], wanted: Option<u32>, base64: bool, head: &Head<'_>) -> String {
    let dimensions = wanted.unwrap_or(DIMENSIONS).clamp(1, MAX_DIMENSIONS);
    let data: Vec<String> = prompts
        .iter()
        .enumerate()
        .map(|(index, prompt)| {
            let vector = vector(prompt, dimensions);
            let embedding = if base64 {
                let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                format!("\"{}\"", BASE64_STANDARD.encode(bytes))
            } else {
                let values: Vec<String> = vector.iter().map(f32::to_string).collect();
                format!("[{}]", values.join(","))
            };
            format!(r#"{{"index":{index},"object":"embedding","embedding":{embedding}}}"#)
        })
        .collect();
    let tokens: usize = prompts.iter().map(Vec::len).sum();
    let Head { id, created, model } = head;
    let (model, data) = (Quoted(model), data.join(","));
    format!(
        "{{\"id\":\"{id}\",\"object\":\"list\",\"created\":{created},\"model\":{model},\"data\":[{data}],\"usage\":\
         {{\"prompt_tokens\":{tokens},\"total_tokens\":{tokens},\"completion_tokens\":0,\"prompt_tokens_details\":null}}}}"
    )
}

/// What the answer begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    /// Its id.
    pub(super) id: &'a str,
    /// When it was asked for, in Unix seconds.
    pub(super) created: u64,
    /// The model's name.
    pub(super) model: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_and_depend_on_the_text() {
        let [left, same, other] = [[1, 2], [1, 2], [1, 3]].map(|tokens| vector(&tokens, 64));
        assert_eq!(left, same);
        assert_ne!(left, other);
        let norm: f32 = left.iter().map(|value| value * value).sum();
        assert!((norm - 1.0).abs() < 1e-5, "{norm}");
    }

    #[test]
    fn both_formats_carry_the_same_numbers() {
        let head = Head {
            id: "embd-1",
            created: 1,
            model: "m",
        };
        let plain: serde_json::Value = serde_json::from_str(&answer(&[vec![7]], Some(8), false, &head)).unwrap();
        let packed: serde_json::Value = serde_json::from_str(&answer(&[vec![7]], Some(8), true, &head)).unwrap();
        let bytes = BASE64_STANDARD
            .decode(packed["data"][0]["embedding"].as_str().unwrap())
            .unwrap();
        let unpacked: Vec<f32> = bytes
            .chunks(4)
            .map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap()))
            .collect();
        let plain: Vec<f32> = serde_json::from_value(plain["data"][0]["embedding"].clone()).unwrap();
        assert_eq!(plain, unpacked);
        assert_eq!(plain.len(), 8);
    }
}
