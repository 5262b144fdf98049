//! Judges the body of a 200 answer that is no stream.

use crate::fault::UpstreamErrorBody;
use crate::json::{Cursor, as_string, is_void};

/// What the body of a 200 answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyVerdict {
    /// An answer, or something that is no JSON and cannot be judged.
    Good,
    /// An error, in spite of the status.
    Error(Box<UpstreamErrorBody>),
    /// An answer that the engine gave up because it is going away.
    Aborted,
    /// Nothing. Paths that infer owe more.
    Empty,
    /// JSON that ends too early, or is none.
    Malformed,
}

/// The members of an answer that matter.
#[derive(Default)]
struct Answer<'a> {
    kind: Option<&'a [u8]>,
    object: Option<&'a [u8]>,
    status: Option<&'a [u8]>,
    has_error: bool,
    aborted: bool,
    failed: bool,
    /// Anthropic's `stop_reason` is there and is no text.
    unreasoned: bool,
}

/// Judges a whole body. Takes time proportional to its size and allocates only for an error.
#[must_use]
pub fn judge_body(body: &[u8]) -> BodyVerdict {
    let body = body.trim_ascii();
    match body.first() {
        None => return BodyVerdict::Empty,
        Some(b'{') => {}
        Some(_) => return BodyVerdict::Good,
    }
    let Some(answer) = Answer::read(body) else {
        return BodyVerdict::Malformed;
    };
    if answer.is_error() {
        return BodyVerdict::Error(Box::new(UpstreamErrorBody::read(body)));
    }
    if answer.is_aborted() {
        BodyVerdict::Aborted
    } else {
        BodyVerdict::Good
    }
}

impl<'a> Answer<'a> {
    fn read(body: &'a [u8]) -> Option<Self> {
        let mut answer = Self::default();
        Cursor::new(body).object(|key, cursor| {
            match key {
                b"choices" => answer.read_choices(cursor)?,
                b"type" => answer.kind = as_string(cursor.value()?),
                b"object" => answer.object = as_string(cursor.value()?),
                b"status" => answer.status = as_string(cursor.value()?),
                b"error" => answer.has_error = !is_void(cursor.value()?),
                b"stop_reason" => {
                    let reason = as_string(cursor.value()?);
                    answer.unreasoned = matches!(reason, None | Some(b"abort"));
                }
                _ => {
                    cursor.value()?;
                }
            }
            Some(())
        })?;
        Some(answer)
    }

    fn read_choices(&mut self, cursor: &mut Cursor<'a>) -> Option<()> {
        if cursor.peek()? != b'[' {
            return cursor.value().map(|_| ());
        }
        cursor.array(|cursor| {
            if cursor.peek()? != b'{' {
                return cursor.value().map(|_| ());
            }
            cursor.object(|key, cursor| {
                let value = cursor.value()?;
                if key == b"finish_reason" {
                    self.aborted |= value == b"\"abort\"";
                    self.failed |= value == b"\"error\"";
                }
                Some(())
            })
        })
    }

    fn is_error(&self) -> bool {
        let failed_response = self.object == Some(b"response") && self.status == Some(b"failed");
        self.has_error || self.failed || failed_response || self.object == Some(b"error") || self.kind == Some(b"error")
    }

    fn is_aborted(&self) -> bool {
        let cancelled_response = self.object == Some(b"response") && self.status == Some(b"cancelled");
        self.aborted || cancelled_response || self.kind == Some(b"message") && self.unreasoned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(body: &str) -> BodyVerdict {
        judge_body(body.as_bytes())
    }

    #[test]
    fn good_answers_pass() {
        for body in [
            r#"{"choices":[{"index":0,"message":{"content":"\"finish_reason\":\"abort\""},"finish_reason":"stop"}],"error":null}"#,
            r#"{"object":"list","data":[{"embedding":[0.1,-2e3]}]}"#,
            r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#,
            r#"{"object":"response","status":"incomplete","error":null}"#,
            r#"{"count":3}"#,
            "[1,2]",
            "Success: LoRA adapter added",
            r#"{"choices":null}"#,
            r#"{"choices":[1]}"#,
        ] {
            assert_eq!(judge(body), BodyVerdict::Good, "{body}");
        }
    }

    #[test]
    fn errors_in_a_200_are_seen() {
        for (body, message) in [
            (r#"{"error":{"message":"dead","code":500}}"#, "dead"),
            (r#"{"error":"dead"}"#, "dead"),
            (r#"{"object":"error","message":"dead"}"#, "dead"),
            (r#"{"type":"error","error":{"type":"x","message":"dead"}}"#, "dead"),
            (
                r#"{"object":"response","status":"failed","error":{"message":"dead"}}"#,
                "dead",
            ),
        ] {
            match judge(body) {
                BodyVerdict::Error(error) => assert_eq!(error.message, message, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
        assert!(matches!(
            judge(r#"{"choices":[{"finish_reason":"error"}]}"#),
            BodyVerdict::Error(_)
        ));
    }

    #[test]
    fn answers_given_up_are_seen_and_so_is_broken_text() {
        let check = |body: &str, wanted: BodyVerdict| assert_eq!(judge(body), wanted, "{body}");
        check(
            r#"{"choices":[{"finish_reason":"stop"},{"finish_reason":"abort"}]}"#,
            BodyVerdict::Aborted,
        );
        check(r#"{"type":"message","stop_reason":null}"#, BodyVerdict::Aborted);
        check(r#"{"object":"response","status":"cancelled"}"#, BodyVerdict::Aborted);
        check(" \n", BodyVerdict::Empty);
        check(r#"{"choices":[{"#, BodyVerdict::Malformed);
    }
}
