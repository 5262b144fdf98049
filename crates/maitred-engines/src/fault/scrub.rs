//! Takes out of an engine's words what a caller or a log must not see: stack traces, keys, and the secret parts of URLs.

/// What stands in place of something taken out.
const REDACTED: &str = "[redacted]";

/// Where a Python trace or the file path of a handler begins; everything from there on is cut.
const TRACE_MARKS: [&str; 3] = ["\n\n  File \"", "\n  File \"", "Traceback (most recent call last)"];

/// How keys of well-known services begin.
const KEY_PREFIXES: [&str; 10] = [
    "sk-", "sk_", "pk-", "hf_", "ghp_", "gho_", "xoxb-", "AKIA", "eyJ", "nvapi-",
];

/// Words whose next word is a secret. `token` is not among them: engines speak of tokens all the time.
const SECRET_LABELS: [&str; 8] = [
    "bearer",
    "api_key",
    "api-key",
    "apikey",
    "x-api-key",
    "authorization",
    "access_token",
    "password",
];

/// A word after a label that is shorter than this is no secret.
const MIN_LABELLED: usize = 4;

/// A key shorter than this is a word that happens to begin so.
const MIN_KEY: usize = 12;

/// The scrubbed text, cut to at most `max` bytes at a character's boundary.
pub(super) fn scrub(text: &str, max: usize) -> String {
    let end = TRACE_MARKS
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .unwrap_or(text.len());
    let kept = text.get(..end).unwrap_or(text).trim();
    // Redaction looks a little past the cut, so that half a secret is never left.
    let window = bounded(kept, max.saturating_mul(2));
    bounded(&redact_words(&redact_urls(window)), max).to_owned()
}

/// The longest beginning of `text` of at most `max` bytes that ends at a character's boundary.
pub(super) fn bounded(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// Cuts the secret parts out of every URL.
fn redact_urls(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(ends_url).unwrap_or(after.len());
        let (url, next) = after.split_at_checked(end).unwrap_or((after, ""));
        clean.push_str(before);
        clean.push_str("://");
        push_url(&mut clean, url);
        rest = next;
    }
    clean.push_str(rest);
    clean
}

fn ends_url(found: char) -> bool {
    found.is_whitespace() || matches!(found, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | '{' | '}')
}

/// Keeps host and path; drops a user's credentials, query and fragment.
fn push_url(clean: &mut String, url: &str) {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (address, secret) = url.split_at_checked(end).unwrap_or((url, ""));
    let host_end = address.find('/').unwrap_or(address.len());
    let (host, path) = address.split_at_checked(host_end).unwrap_or((address, ""));
    clean.push_str(host.rsplit_once('@').map_or(host, |(_, host)| host));
    clean.push_str(path);
    if !secret.is_empty() {
        clean.push('?');
        clean.push_str(REDACTED);
    }
}

/// Replaces secrets, word by word; what separates the words stays.
fn redact_words(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut after_label = false;
    for piece in text.split_inclusive(is_separator) {
        let word = piece.trim_end_matches(is_separator);
        let separator = piece.get(word.len()..).unwrap_or_default();
        let label = is_label(word);
        let is_secret = after_label && word.len() >= MIN_LABELLED || is_key(word);
        clean.push_str(if is_secret && !label { REDACTED } else { word });
        clean.push_str(separator);
        // A label stays in force over the blanks and quotes between it and its secret.
        after_label = label || after_label && word.is_empty();
    }
    clean
}

fn is_separator(found: char) -> bool {
    found.is_whitespace()
        || matches!(
            found,
            '"' | '\'' | '`' | ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '=' | '<' | '>'
        )
}

/// A word after which a secret follows: `Bearer`, or a name with `=` or `:` between it and the secret.
fn is_label(word: &str) -> bool {
    let name = word.strip_suffix(':').unwrap_or(word);
    SECRET_LABELS.iter().any(|label| name.eq_ignore_ascii_case(label))
}

fn is_key(word: &str) -> bool {
    word.len() >= MIN_KEY && KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_traces_are_taken_out_and_the_rest_stays() {
        let check = |text: &str, wanted: &str| assert_eq!(scrub(text, 512), wanted, "{text}");
        check("The model `nope` does not exist.", "The model `nope` does not exist.");
        check(
            "1 validation error:\n  {'x'}\n\n  File \"/opt/s/http_server.py\", line 1870, in f\n    POST /v1/x",
            "1 validation error:\n  {'x'}",
        );
        check("boom Traceback (most recent call last)\n x", "boom");
        check(
            "Incorrect API key provided: sk-abcdef0123456789.",
            "Incorrect API key provided: [redacted]",
        );
        check(
            "got 'Authorization: Bearer abcd1234' there",
            "got 'Authorization: Bearer [redacted]' there",
        );
        check("api_key=abcd1234, x=1", "api_key=[redacted], x=1");
        check(
            "url (http://u:p@10.0.0.1:9100/v1/x?key=abc#f). see",
            "url (http://10.0.0.1:9100/v1/x?[redacted]). see",
        );
        check("https://docs.vllm.ai/en/latest/", "https://docs.vllm.ai/en/latest/");
        check(
            "hf_token is no key, sk-short neither",
            "hf_token is no key, sk-short neither",
        );
        check(
            "the last token is too long, 2049 tokens",
            "the last token is too long, 2049 tokens",
        );
        check("  padded \n", "padded");
    }

    #[test]
    fn cuts_fall_between_characters_and_never_inside_a_secret() {
        assert_eq!(scrub(&"ä".repeat(10), 5), "ää");
        let long = format!("{} sk-{}", "x".repeat(500), "9".repeat(100));
        let cut = scrub(&long, 512);
        assert!(!cut.contains("99"), "{cut}");
        assert!(cut.len() <= 512);
    }
}
