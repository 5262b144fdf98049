//! One line of JSON as a row.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{LineFault, MAX_TRACE_TOKENS, TraceRow};

/// Tokens of one block in Mooncake's traces.
const MOONCAKE_BLOCK: u32 = 512;

/// The fields as they stand there, so that a fault can name the one it is in.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    input_length: Option<&'a RawValue>,
    #[serde(borrow)]
    output_length: Option<&'a RawValue>,
    #[serde(borrow)]
    hash_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    block_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    tenant: Option<&'a RawValue>,
    #[serde(borrow)]
    class: Option<&'a RawValue>,
    #[serde(borrow)]
    session: Option<&'a RawValue>,
}

pub(super) fn row(line: &[u8]) -> Result<TraceRow, LineFault> {
    let text = std::str::from_utf8(line).map_err(|_| (None, "is not UTF-8".to_owned()))?;
    let line: Line<'_> = serde_json::from_str(text).map_err(|fault| (None, format!("is no object: {fault}")))?;
    let millis: f64 = needed("timestamp", line.timestamp, "a number of milliseconds")?;
    let input = needed("input_length", line.input_length, "a number of tokens")?;
    let output = needed("output_length", line.output_length, "a number of tokens")?;
    let ids: Option<Vec<u64>> = optional("hash_ids", line.hash_ids, "a list of whole numbers")?;
    let block_tokens: Option<u32> = optional("block_tokens", line.block_tokens, "a number of tokens")?;
    let is_estimate = block_tokens.is_some();
    let row = TraceRow {
        nanos: nanos(millis)?,
        input,
        output,
        ids: ids.unwrap_or_default(),
        block_tokens: block_tokens.unwrap_or(MOONCAKE_BLOCK),
        tenant: optional("tenant", line.tenant, "a whole number")?.unwrap_or_default(),
        class: optional("class", line.class, "a whole number up to 255")?.unwrap_or(1),
        session: optional("session", line.session, "a whole number")?,
    };
    check(&row)?;
    // A recording's blocks are cut from text and its tokens are counted by the endpoint, so they need not agree.
    if !is_estimate {
        check_ids(&row)?;
    }
    Ok(row)
}

/// Checks what a row of either format must be.
pub(super) fn check(row: &TraceRow) -> Result<(), LineFault> {
    let fault = |field, reason: String| Err((Some(field), reason));
    if row.input == 0 || row.input > MAX_TRACE_TOKENS {
        return fault(
            "input_length",
            format!("is {}; it must be from 1 to {MAX_TRACE_TOKENS}", row.input),
        );
    }
    if row.output > MAX_TRACE_TOKENS {
        return fault(
            "output_length",
            format!("is {}; it must be at most {MAX_TRACE_TOKENS}", row.output),
        );
    }
    if row.block_tokens == 0 {
        return fault("block_tokens", "is 0; a block holds at least one token".to_owned());
    }
    Ok(())
}

/// Checks that there is an id for each block.
fn check_ids(row: &TraceRow) -> Result<(), LineFault> {
    let all = row.input.div_ceil(row.block_tokens);
    if !row.ids.is_empty() && row.ids.len() != all as usize {
        let (ids, input, block) = (row.ids.len(), row.input, row.block_tokens);
        let reason = format!("has {ids} ids, and {input} tokens make {all} blocks of {block}");
        return Err((Some("hash_ids"), reason));
    }
    Ok(())
}

fn nanos(millis: f64) -> Result<u64, LineFault> {
    // Beyond 2^63 ns, three centuries, nothing is meant.
    if !(0.0..9.2e12).contains(&millis) {
        return Err((
            Some("timestamp"),
            format!("is {millis}; it must be at least 0 and below 9.2e12"),
        ));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be in range just before"
    )]
    let nanos = (millis * 1e6) as u64;
    Ok(nanos)
}

fn needed<'a, T: Deserialize<'a>>(field: &'static str, raw: Option<&'a RawValue>, what: &str) -> Result<T, LineFault> {
    optional(field, raw, what)?.ok_or_else(|| (Some(field), "is missing".to_owned()))
}

fn optional<'a, T: Deserialize<'a>>(
    field: &'static str,
    raw: Option<&'a RawValue>,
    what: &str,
) -> Result<Option<T>, LineFault> {
    let read = raw.map(|raw| serde_json::from_str(raw.get()));
    read.transpose().map_err(|_| (Some(field), format!("is not {what}")))
}
