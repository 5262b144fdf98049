//! A call's quota: what it reserves before it is forwarded, and what its answer says of the limits.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use maitred_llm::{BodyView, CallKind};
use maitred_obs::rfc3339;
use maitred_runtime::{Amount, NoQuota, Price, Standing, Subject};
use maitred_types::{Dialect, FaultKind, TokenCount, UnixMillis, Usage};

use crate::account::Account;
use crate::billing::Billing;
use crate::fault::Fault;
use crate::intake;

/// Longest name of a task, in bytes. Each task has a counter of its own, so its name is not taken at any length.
const TASK_LEN_MAX: usize = 128;

/// Output of an answer on `/v1/completions` whose call says nothing of it: what OpenAI documents, and engines keep to.
const COMPLETIONS_OUTPUT: u64 = 16;

/// Output below which it is better to refuse a call than to answer it.
const LEAST_OUTPUT: u64 = 64;

/// Waiting for so long is asked of a call, rather than that it does with what is left: tokens per minute come back within it.
const WORTH_WAITING: Duration = Duration::from_secs(70);

/// How often less is tried: once for each sort of limit on tokens, with one to spare.
const TRIES: usize = 4;

/// The output that a call may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Nothing is generated.
    Nothing,
    /// What the client says, for all answers.
    Said(TokenCount),
    /// The client says nothing that binds.
    Unsaid {
        /// The most that an answer may have.
        each: u64,
        /// How many answers there are.
        answers: u64,
    },
}

impl Output {
    /// What a call's body says, where `most` bounds an answer that nothing else does.
    pub(crate) fn of(kind: CallKind, view: &BodyView, most: u32) -> Self {
        let answers = view.choices();
        match view.output_limit(kind) {
            _ if !kind.generates() => Self::Nothing,
            Some(tokens) => Self::Said(TokenCount::saturating_from(tokens.saturating_mul(answers))),
            None if kind == CallKind::Completions && !view.says_output_limit(kind) => Self::Unsaid {
                each: COMPLETIONS_OUTPUT,
                answers,
            },
            None => Self::Unsaid {
                each: u64::from(most),
                answers,
            },
        }
    }

    /// All of it.
    pub(crate) fn total(self) -> TokenCount {
        match self {
            Self::Nothing => TokenCount::ZERO,
            Self::Said(tokens) => tokens,
            Self::Unsaid { each, answers } => TokenCount::saturating_from(each.saturating_mul(answers)),
        }
    }

    /// What a refused call can make do with, if waiting is no way out and the client has not said what it needs.
    fn less(self, input: TokenCount, refused: &NoQuota) -> Option<Self> {
        let (Self::Unsaid { each, answers }, Some(standing)) = (self, refused.tokens) else {
            return None;
        };
        if refused.retry_after.is_some_and(|wait| wait <= WORTH_WAITING) {
            return None;
        }
        let left = standing.remaining.saturating_sub(u64::from(input.get()));
        let less = (left / answers.max(1)).max(LEAST_OUTPUT);
        (less < each).then_some(Self::Unsaid { each: less, answers })
    }
}

/// The task that a call belongs to: the one that its token names, which is signed, or else the one that it names itself.
pub(crate) fn task(headers: &HeaderMap, header: &str, signed: Option<&str>) -> Result<Option<Box<str>>, Fault> {
    let Some(text) = intake::only(headers, header)?.map(str::trim) else {
        return Ok(signed.map(Box::from));
    };
    let is_name = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if text.is_empty() || text.len() > TASK_LEN_MAX || !is_name {
        let message = format!("the header `{header}` must name a task in at most {TASK_LEN_MAX} printable characters");
        return Err(Fault::new(FaultKind::InvalidField, message));
    }
    // Whoever could name another would have the amount of another for itself.
    if signed.is_some_and(|signed| signed != text) {
        let message = format!("the header `{header}` names another task than the token; leave it out");
        return Err(Fault::new(FaultKind::UserNotAllowed, message));
    }
    Ok(Some(text.into()))
}

/// Whose call it is, and for what, as soon as that is known.
pub(crate) fn subject(account: &Account) -> Option<Subject<'_>> {
    let (principal, target) = (account.principal.as_ref()?, account.target.as_ref()?);
    Some(Subject {
        tenant: principal.tenant.as_str(),
        user: principal.user(),
        key: principal.key.as_ref().map(maitred_types::KeyId::as_str),
        model: target.model.as_str(),
        task: account.task.as_deref(),
    })
}

/// Reserves what the call may use at most, of all limits that are for it: its prompt, and its output. Says what each answer must be
/// limited to, if the call does not say it and a limit is for it.
pub(crate) fn reserve(
    account: &mut Account,
    input: TokenCount,
    mut output: Output,
    price: Option<&Price>,
) -> Result<Option<u64>, Fault> {
    let Some(subject) = subject(account) else {
        return Ok(None);
    };
    let quota = account.gate.runtime.quota();
    let mut reserved = quota.reserve(&subject, most(input, output, price));
    for _ in 0..TRIES {
        let Some(less) = reserved.as_ref().err().and_then(|refused| output.less(input, refused)) else {
            break;
        };
        output = less;
        reserved = quota.reserve(&subject, most(input, output, price));
    }
    let reserved = match reserved {
        Ok(reserved) => reserved,
        Err(refused) => {
            account.standings = [refused.calls, refused.tokens];
            return Err(Fault {
                retry_after: refused.retry_after,
                ..Fault::new(refused.fault, refused.message)
            });
        }
    };
    account.standings = [reserved.calls, reserved.tokens];
    account.is_blind = reserved.is_blind;
    let each = match output {
        Output::Unsaid { each, .. } if reserved.limits_output => Some(each),
        _ => None,
    };
    account.reserved = Some(reserved);
    Ok(each)
}

fn most(input: TokenCount, output: Output, price: Option<&Price>) -> Amount {
    let output = output.total();
    Amount {
        tokens: u64::from(input.get()) + u64::from(output.get()),
        money: price.map_or(0, |price| price.at_most(input, output)),
    }
}

/// What a call has used; nothing, if there was no output and no word of the prompt having been read.
pub(crate) fn used(usage: Option<&Usage>, billing: &Billing) -> Amount {
    let tokens = usage.map_or(0, |usage| u64::from(usage.input.get()) + u64::from(usage.output.get()));
    Amount {
        tokens,
        money: billing.money(usage),
    }
}

/// Says how limits on calls and on tokens stand, in the words of the caller's dialect.
pub(crate) fn stamp(headers: &mut HeaderMap, standings: [Option<Standing>; 2], dialect: Dialect, now: UnixMillis) {
    let names = match dialect {
        Dialect::OpenAi => &OPENAI,
        Dialect::Anthropic => &ANTHROPIC,
    };
    for (names, standing) in names.iter().zip(standings) {
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

    const TASK: HeaderName = HeaderName::from_static("x-maitred-task");

    fn named(values: &[&str], signed: Option<&str>) -> Result<Option<Box<str>>, FaultKind> {
        let values = values
            .iter()
            .map(|value| (TASK, HeaderValue::from_bytes(value.as_bytes()).unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(name, value);
        }
        task(&headers, TASK.as_str(), signed).map_err(|fault| fault.kind)
    }

    #[test]
    fn a_task_has_a_short_name() {
        assert_eq!(named(&["run-7"], None).unwrap().as_deref(), Some("run-7"));
        assert!(named(&[], None).unwrap().is_none());
        assert_eq!(named(&[""], None), Err(FaultKind::InvalidField));
        assert_eq!(named(&["caf\u{e9}"], None), Err(FaultKind::InvalidField));
        assert_eq!(named(&[&"x".repeat(129)], None), Err(FaultKind::InvalidField));
        assert!(named(&[&"x".repeat(128)], None).is_ok());
        assert_eq!(named(&["run-7", "run-7"], None), Err(FaultKind::InvalidField));
    }

    #[test]
    fn the_task_of_a_token_binds() {
        assert_eq!(named(&[], Some("run-7")).unwrap().as_deref(), Some("run-7"));
        assert_eq!(named(&["run-7"], Some("run-7")).unwrap().as_deref(), Some("run-7"));
        assert_eq!(named(&["run-8"], Some("run-7")), Err(FaultKind::UserNotAllowed));
    }
}
