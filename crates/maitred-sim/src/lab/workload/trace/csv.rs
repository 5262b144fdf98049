//! One line of the Azure traces as a row: `TIMESTAMP,ContextTokens,GeneratedTokens`.

use super::{LineFault, TraceRow, jsonl};

const TIMESTAMP: &str = "TIMESTAMP";
const INPUT: &str = "ContextTokens";
const OUTPUT: &str = "GeneratedTokens";

pub(super) fn row(line: &[u8], number: u64) -> Result<Option<TraceRow>, LineFault> {
    let text = std::str::from_utf8(line).map_err(|_| (None, "is not UTF-8".to_owned()))?;
    // Some copies begin with a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    if number == 1 && text.starts_with(TIMESTAMP) {
        return Ok(None);
    }
    let mut fields = text.split(',');
    let mut field = |name: &'static str| fields.next().ok_or((Some(name), "is missing".to_owned()));
    let (time, input, output) = (field(TIMESTAMP)?, field(INPUT)?, field(OUTPUT)?);
    if fields.next().is_some() {
        return Err((None, "has more than three fields".to_owned()));
    }
    let count = |name: &'static str, text: &str| {
        let count = text.trim().parse::<u32>();
        count.map_err(|_| (Some(name), format!("is not a number of tokens: {text:?}")))
    };
    let row = TraceRow {
        nanos: nanos(time.trim()).ok_or_else(|| {
            (
                Some(TIMESTAMP),
                format!("is not like `2023-11-16 18:15:46.6805900`: {time:?}"),
            )
        })?,
        // A few calls of the trace have an empty prompt; an engine computes one token for them too.
        input: count(INPUT, input)?.max(1),
        output: count(OUTPUT, output)?,
        ids: Vec::new(),
        block_tokens: 1,
        tenant: 0,
        class: 1,
        session: None,
    };
    jsonl::check(&row).map_err(|(field, reason)| {
        let field = field.map(|field| if field == "input_length" { INPUT } else { OUTPUT });
        (field, reason)
    })?;
    Ok(Some(row))
}

/// `YYYY-MM-DD hh:mm:ss` with an optional fraction, in nanoseconds since the year 0 of a calendar that goes on evenly.
fn nanos(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(' ')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    let valid = (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days(year, month, day);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    (seconds * 1_000_000_000).checked_add(fraction_nanos(fraction)?)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse::<u64>().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

fn fraction_nanos(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    if digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(digits.len()).ok()?);
    digits.parse::<u64>().ok().map(|digits| digits * scale)
}

/// Days since 1970-01-01, but not before it (Hinnant's algorithm for the civil calendar).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    days.saturating_sub(719_468)
}
