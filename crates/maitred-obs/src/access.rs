//! One record per call: the contract with whoever reads the access log.

use std::io::Write;

use maitred_types::{OutcomeStatus, RequestId, UnixMillis, Usage};
use serde::Serialize;

/// How logs and records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// `key=value` pairs for a human's eyes.
    Text,
}

/// Everything that is written about a call. Absent fields are left out. Neither prompts nor answers nor keys are among
/// them; the key's public id is.
#[derive(Clone, Debug, Serialize)]
pub struct AccessRecord<'a> {
    /// When the call arrived, RFC 3339 in UTC.
    pub time: String,
    /// Kept from the client or made at the door.
    pub request_id: &'a str,
    /// Whose call it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<&'a str>,
    /// The public id of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    /// The user of the tenant on whose behalf the call was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<&'a str>,
    /// Who has issued the token that names the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<&'a str>,
    /// Set when the key is one that several share, so that nobody can say who has made the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared_key: bool,
    /// Set when the call was let go without knowing whether other gateways had left something of the quota.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blind_quota: bool,
    /// Address of the client.
    pub client: &'a str,
    /// HTTP method.
    pub method: &'a str,
    /// Path without query.
    pub path: &'a str,
    /// HTTP status that the client got; 499 when it went away before.
    pub status: u16,
    /// How the call ended.
    pub outcome: &'a str,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'a str>,
    /// What went wrong, in words; never a prompt, a key or an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
    /// The model asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// The model that the call went to in the end, by its name in the pool, where that is another than the one asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<&'a str>,
    /// The pool that served it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<&'a str>,
    /// In what the answer is less than what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<&'a str>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrade_reason: Option<&'a str>,
    /// The endpoint of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<&'a str>,
    /// Why that endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pick: Option<&'a str>,
    /// How many endpoints were tried.
    pub attempts: u32,
    /// The class by which it waited, if it had to wait for an endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<&'a str>,
    /// Milliseconds that it waited in the gateway until an endpoint had room, over all attempts; absent if it did not have to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<f64>,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Milliseconds from arrival to the first output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<f64>,
    /// Milliseconds from arrival to the end.
    pub duration_ms: f64,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the answer's body that were handed to the client's connection.
    pub response_bytes: u64,
    /// Prompt tokens, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u32>,
    /// Prompt tokens read from the endpoint's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    /// Generated tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
    /// `reported` or `estimated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_source: Option<&'a str>,
}

impl<'a> AccessRecord<'a> {
    /// A record of a call of which only the frame is known; the caller fills in the rest.
    #[must_use]
    pub fn new(arrived: UnixMillis, request_id: &'a RequestId, status: OutcomeStatus) -> Self {
        Self {
            time: rfc3339(arrived),
            request_id: request_id.as_str(),
            tenant: None,
            key: None,
            user: None,
            issuer: None,
            shared_key: false,
            blind_quota: false,
            client: "",
            method: "",
            path: "",
            status: 0,
            outcome: status.label(),
            fault: status.fault().map(|fault| fault.label()),
            detail: None,
            model: None,
            target: None,
            pool: None,
            degraded: None,
            degrade_reason: None,
            endpoint: None,
            pick: None,
            attempts: 0,
            class: None,
            queue_ms: None,
            stream: false,
            first_token_ms: None,
            duration_ms: 0.0,
            request_bytes: 0,
            response_bytes: 0,
            input_tokens: None,
            cached_tokens: None,
            output_tokens: None,
            usage_source: None,
        }
    }

    /// Fills in the four usage fields.
    pub fn set_usage(&mut self, usage: &Usage) {
        self.input_tokens = Some(usage.input.get());
        self.cached_tokens = usage.cached_input.map(|cached| cached.get());
        self.output_tokens = Some(usage.output.get());
        self.usage_source = Some(usage.source.label());
    }

    /// Appends the record as one line.
    pub fn write(&self, format: LogFormat, line: &mut Vec<u8>) {
        let start = line.len();
        let written = match format {
            LogFormat::Json => serde_json::to_writer(&mut *line, self).map_err(std::io::Error::other),
            LogFormat::Text => self.write_text(line),
        };
        match written {
            Ok(()) => line.push(b'\n'),
            // Writing to memory cannot fail; should it ever, half a line must not be left behind.
            Err(_) => line.truncate(start),
        }
    }

    fn write_text(&self, line: &mut Vec<u8>) -> std::io::Result<()> {
        let Self {
            time,
            status,
            method,
            path,
            request_id,
            client,
            outcome,
            attempts,
            stream,
            ..
        } = self;
        write!(
            line,
            "{time} {status} {method} {path} outcome={outcome} request_id={request_id} client={client}"
        )?;
        write!(
            line,
            " attempts={attempts} stream={stream} duration_ms={}",
            self.duration_ms
        )?;
        write!(
            line,
            " request_bytes={} response_bytes={}",
            self.request_bytes, self.response_bytes
        )?;
        if let Some(first_token) = self.first_token_ms {
            write!(line, " first_token_ms={first_token}")?;
        }
        if let Some(queue) = self.queue_ms {
            write!(line, " queue_ms={queue}")?;
        }
        let tokens = [
            ("input_tokens", self.input_tokens),
            ("cached_tokens", self.cached_tokens),
            ("output_tokens", self.output_tokens),
        ];
        for (name, tokens) in tokens {
            if let Some(tokens) = tokens {
                write!(line, " {name}={tokens}")?;
            }
        }
        let words = [
            ("usage_source", self.usage_source),
            ("model", self.model),
            ("target", self.target),
            ("pool", self.pool),
            ("degraded", self.degraded),
            ("degrade_reason", self.degrade_reason),
            ("endpoint", self.endpoint),
            ("pick", self.pick),
            ("class", self.class),
            ("tenant", self.tenant),
            ("key", self.key),
            ("user", self.user),
            ("issuer", self.issuer),
            ("shared_key", self.shared_key.then_some("true")),
            ("blind_quota", self.blind_quota.then_some("true")),
            ("fault", self.fault),
            ("detail", self.detail),
        ];
        for (name, word) in words {
            if let Some(word) = word {
                write!(line, " {name}=")?;
                // Quoted as JSON, so that no word can break the line or pass for another field.
                serde_json::to_writer(&mut *line, word).map_err(std::io::Error::other)?;
            }
        }
        Ok(())
    }
}

/// `1970-01-01T00:00:00.000Z`; a date beyond the calendar's end is printed as its bare number.
#[must_use]
pub fn rfc3339(time: UnixMillis) -> String {
    let millis = i64::try_from(time.get()).ok();
    match millis.and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok()) {
        Some(timestamp) => format!("{timestamp:.3}"),
        None => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_types::{FaultKind, TokenCount, UsageSource};

    fn line(format: LogFormat) -> String {
        let id = RequestId::from("req-1");
        let mut record = AccessRecord::new(
            UnixMillis::new(1_796_069_957_042),
            &id,
            OutcomeStatus::Broken(FaultKind::IdleTimeout),
        );
        record.client = "127.0.0.1:5000";
        record.method = "POST";
        record.path = "/v1/chat/completions";
        record.status = 200;
        record.detail = Some("quote \" and\nnewline");
        record.attempts = 1;
        record.stream = true;
        record.duration_ms = 30_000.5;
        record.set_usage(&Usage {
            input: TokenCount::new(12),
            cached_input: None,
            output: TokenCount::new(3),
            reasoning: None,
            source: UsageSource::Estimated,
        });
        let mut line = Vec::new();
        record.write(format, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn json_is_one_line_with_the_agreed_names() {
        insta::assert_snapshot!(line(LogFormat::Json), @r#"{"time":"2026-11-30T20:19:17.042Z","request_id":"req-1","client":"127.0.0.1:5000","method":"POST","path":"/v1/chat/completions","status":200,"outcome":"broken","fault":"idle_timeout","detail":"quote \" and\nnewline","attempts":1,"stream":true,"duration_ms":30000.5,"request_bytes":0,"response_bytes":0,"input_tokens":12,"output_tokens":3,"usage_source":"estimated"}"#);
        assert_eq!(line(LogFormat::Json).matches('\n').count(), 1);
    }

    #[test]
    fn text_is_one_line_too() {
        let line = line(LogFormat::Text);
        assert!(
            line.starts_with("2026-11-30T20:19:17.042Z 200 POST /v1/chat/completions "),
            "{line}"
        );
        assert_eq!(line.matches('\n').count(), 1);
    }
}
