//! Numbers and names as text.

use crate::lab::statistics::{Interval, Paired};

/// Appends formatted text to a string, which cannot fail.
macro_rules! add {
    ($out:expr, $($argument:tt)*) => {
        $out.push_str(&format!($($argument)*))
    };
}

/// Appends a formatted line.
macro_rules! add_line {
    ($out:expr, $($argument:tt)*) => {{
        $out.push_str(&format!($($argument)*));
        $out.push('\n');
    }};
}

pub(super) use {add, add_line};

/// `text` for HTML and SVG, in an attribute or between tags. Control characters become the replacement character.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// A time with its unit, in three digits.
pub(super) fn seconds(value: f64) -> String {
    let size = value.abs();
    if size < 1e-9 {
        "0 s".to_owned()
    } else if size < 0.999_5e-3 {
        format!("{} µs", short(value * 1e6))
    } else if size < 0.999_5 {
        format!("{} ms", short(value * 1e3))
    } else {
        format!("{} s", short(value))
    }
}

/// Three significant digits, or all before the point.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let decimals = if !(1e-12..99.95).contains(&size) {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.999_5 {
        2
    } else {
        3
    };
    let mut text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text
}

/// A fraction in per cent, with one decimal.
pub(super) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// An interval: its mean and half its width, if it has one.
pub(super) fn interval(interval: &Interval, format: fn(f64) -> String) -> String {
    let mut text = format(interval.mean);
    let half = (interval.high - interval.low) / 2.0;
    if half > 0.0 {
        add!(text, " ± {}", format(half));
    }
    text
}

/// A ratio as a change in per cent with its bounds, or the difference where there is no ratio. A change that may be none is
/// marked.
pub(super) fn change(paired: &Paired) -> String {
    let mark = if paired.is_significant() { "" } else { " ≈" };
    match &paired.ratio {
        Some(ratio) => {
            let change = |ratio: f64| (ratio - 1.0) * 100.0;
            format!(
                "{:+.1} % [{:+.1}, {:+.1}]{mark}",
                change(ratio.mean),
                change(ratio.low),
                change(ratio.high)
            )
        }
        None => format!("{:+.3}{mark}", paired.difference.mean),
    }
}
