//! A call's quota: what it reserves before it is forwarded, and what its answer says of the limits.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use maitred_obs::rfc3339;
use maitred_runtime::{Amount, Price, Reserved, Standing, Subject};
use maitred_types::{Dialect, FaultKind, TokenCount, UnixMillis, Usage};

use crate::account::Account;
use crate::billing::Billing;
use crate::fault::Fault;

/// Longest name of a task, in bytes. Each task has a counter of its own, so its name is not taken at any length.
const TASK_LEN_MAX: usize = 128;

/// Output that is reserved for a call that does not limit it.
const UNLIMITED_OUTPUT: TokenCount = TokenCount::new(1024);

/// The task that a call says it belongs to.
pub(crate) fn task(headers: &HeaderMap, header: &str) -> Result<Option<Box<str>>, Fault> {
    let Some(value) = headers.get(header) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text.is_empty() || text.len() > TASK_LEN_MAX {
        let message = format!("the header `{header}` must name a task in at most {TASK_LEN_MAX} printable characters");
        return Err(Fault::new(FaultKind::InvalidField, message));
    }
    Ok(Some(text.into()))
}

/// Reserves what the call may use at most, of all limits that are for it: its prompt, and the output that it allows if it generates any.
pub(crate) fn reserve(
    account: &mut Account,
    (input, output_limit, generates): (TokenCount, Option<TokenCount>, bool),
    price: Option<&Price>,
) -> Result<(), Fault> {
    let output = if generates {
        output_limit.unwrap_or(UNLIMITED_OUTPUT)
    } else {
        TokenCount::ZERO
    };
    let tokens = u64::from(input.get()) + u64::from(output.get());
    let (Some(principal), Some(route)) = (&account.principal, &account.route) else {
        return Ok(());
    };
    let subject = Subject {
        tenant: principal.tenant.as_str(),
        user: principal.user(),
        key: principal.key.as_ref().map(maitred_types::KeyId::as_str),
        model: route.model.as_str(),
        task: account.task.as_deref(),
    };
    let most = Amount {
        tokens,
        money: price.map_or(0, |price| price.at_most(input, output)),
    };
    let reserved = account.gate.runtime.quota().reserve(&subject, most);
    account.reserved = reserved.map_err(|refused| Fault {
        retry_after: refused.retry_after,
        ..Fault::new(refused.fault, refused.message)
    })?;
    account.is_blind = account.reserved.as_ref().is_some_and(|reserved| reserved.is_blind);
    Ok(())
}

/// What a call has used; nothing, if there was no output and no word of the prompt having been read.
pub(crate) fn used(usage: Option<&Usage>, billing: &Billing) -> Amount {
    let tokens = usage.map_or(0, |usage| u64::from(usage.input.get()) + u64::from(usage.output.get()));
    Amount {
        tokens,
        money: billing.money(usage),
    }
}

/// Says how the tightest limits stand, in the words of the caller's dialect.
pub(crate) fn stamp(headers: &mut HeaderMap, reserved: &Reserved, dialect: Dialect, now: UnixMillis) {
    let names = match dialect {
        Dialect::OpenAi => &OPENAI,
        Dialect::Anthropic => &ANTHROPIC,
    };
    for (names, standing) in names.iter().zip([reserved.calls, reserved.tokens]) {
        if let Some(standing) = standing {
            stamp_one(headers, names, &standing, (dialect, now));
        }
    }
}

/// Headers for a limit, what is left of it, and when it is whole again.
type Names = [HeaderName; 3];

/// OpenAI's, for calls and for tokens. The time is a duration.
static OPENAI: [Names; 2] = [
    [
        HeaderName::from_static("x-ratelimit-limit-requests"),
        HeaderName::from_static("x-ratelimit-remaining-requests"),
        HeaderName::from_static("x-ratelimit-reset-requests"),
    ],
    [
        HeaderName::from_static("x-ratelimit-limit-tokens"),
        HeaderName::from_static("x-ratelimit-remaining-tokens"),
        HeaderName::from_static("x-ratelimit-reset-tokens"),
    ],
];

/// Anthropic's. The time is a point of civil time.
static ANTHROPIC: [Names; 2] = [
    [
        HeaderName::from_static("anthropic-ratelimit-requests-limit"),
        HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
        HeaderName::from_static("anthropic-ratelimit-requests-reset"),
    ],
    [
        HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
        HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
        HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
    ],
];

fn stamp_one(headers: &mut HeaderMap, names: &Names, standing: &Standing, (dialect, now): (Dialect, UnixMillis)) {
    let [limit, remaining, reset] = names;
    headers.insert(limit, HeaderValue::from(standing.limit));
    headers.insert(remaining, HeaderValue::from(standing.remaining));
    let when = match dialect {
        Dialect::OpenAi => duration(standing.reset_after),
        Dialect::Anthropic => {
            let ahead = u64::try_from(standing.reset_after.as_millis()).unwrap_or(u64::MAX);
            rfc3339(UnixMillis::new(now.get().saturating_add(ahead)))
        }
    };
    if let Ok(when) = HeaderValue::from_str(&when) {
        headers.insert(reset, when);
    }
}

/// A duration as OpenAI writes it: `120ms`, `6m0s`, `2h0m0s`. Rounded up, so that nobody comes back too early.
fn duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{}ms", time.as_nanos().div_ceil(1_000_000));
    }
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_clients_read_them() {
        let check = |millis: u64, written: &str| assert_eq!(duration(Duration::from_millis(millis)), written);
        check(0, "0ms");
        check(120, "120ms");
        check(1_000, "1s");
        check(1_001, "2s");
        check(360_000, "6m0s");
        check(7_205_000, "2h0m5s");
    }

    #[test]
    fn a_task_has_a_short_name() {
        let named = |value: &str| {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static("x-maitred-task"),
                HeaderValue::from_str(value).unwrap(),
            )]);
            task(&headers, "x-maitred-task")
        };
        assert_eq!(named("run-7").unwrap().as_deref(), Some("run-7"));
        assert!(task(&HeaderMap::new(), "x-maitred-task").unwrap().is_none());
        assert_eq!(named("").unwrap_err().kind, FaultKind::InvalidField);
        assert_eq!(named(&"x".repeat(129)).unwrap_err().kind, FaultKind::InvalidField);
        assert!(named(&"x".repeat(128)).is_ok());
    }
}
