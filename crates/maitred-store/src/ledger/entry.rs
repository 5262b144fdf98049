//! What a gateway writes to its spool: that a call or an attempt begins, and how it ended.
//!
//! Entries are read back after a crash, so reading never trusts a length, and whatever cannot be an entry is an error.

use super::hours::Ready;
use maitred_types::{TokenCount, UnixMillis, Usage, UsageSource};

/// Longest text in an entry, in bytes. Longer ones are cut: a name that a client chose must not fill the ledger.
const TEXT_MAX: usize = 512;
/// Most attempts of one call that are read.
const ATTEMPTS_MAX: u64 = 1000;

/// What is known of a call when it begins. `S` is text: borrowed where it is written, owned where it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallHead<S> {
    /// The id that client, log and decision record know.
    pub request_id: S,
    /// When it arrived.
    pub arrived: UnixMillis,
    /// Who pays.
    pub tenant: S,
    /// On whose behalf.
    pub user: Option<S>,
    /// With which key: its public id.
    pub key: Option<S>,
    /// As part of what.
    pub task: Option<S>,
    /// The model that it is charged as: by its name in the pool.
    pub model: S,
    /// The model as endpoints call it.
    pub served: S,
    /// Where it goes.
    pub pool: S,
    /// What the client speaks.
    pub dialect: S,
    /// The price that holds for it, if one does.
    pub price: Option<S>,
    /// What it is expected to use. Stands in for the truth if the gateway dies.
    pub expected: Expected,
}

/// The target that a call goes on to: from here on it stands in the place of that in its [`CallHead`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetHead<S> {
    /// The name that was asked for.
    pub asked: S,
    /// The model, by its name in the pool.
    pub model: S,
    /// The model as endpoints call it.
    pub served: S,
    /// Where it goes.
    pub pool: S,
    /// The price that holds there, if one does.
    pub price: Option<S>,
    /// What the call is expected to use there.
    pub expected: Expected,
    /// What an answer from there is called, if it is not what was asked for.
    pub degrades: Option<Degrades<S>>,
}

/// In what an answer is less than what was asked for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degrades<S> {
    /// In what.
    pub kind: S,
    /// Why.
    pub reason: S,
}

/// What an attempt is expected to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Prompt tokens.
    pub input: TokenCount,
    /// Generated tokens.
    pub output: TokenCount,
    /// What that costs, in billionths of the currency's unit.
    pub money: u64,
}

/// What is known of an attempt when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptHead<S> {
    /// Where it goes.
    pub endpoint: S,
    /// How long after the call's arrival it began, in microseconds.
    pub began_us: u64,
}

/// How a call or an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending<S> {
    /// What it used; `None` if no model worked for it.
    pub usage: Option<Usage>,
    /// From its beginning to its first output, in microseconds.
    pub first_token_us: Option<u64>,
    /// From its beginning to its end, in microseconds.
    pub total_us: u64,
    /// In one word.
    pub outcome: S,
    /// What went wrong, if anything did.
    pub fault: Option<S>,
    /// What it costs, in billionths of the currency's unit.
    pub money: u64,
}

/// One thing that is written. Calls are numbered by their gateway, attempts by their call, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<S> {
    /// A call begins.
    Call {
        /// The call's number.
        call: u64,
        /// What is known of it.
        head: CallHead<S>,
    },
    /// A call goes on to another target, or begins at one that has another name than what was asked for.
    Target {
        /// The call's number.
        call: u64,
        /// What is known of it.
        head: TargetHead<S>,
    },
    /// An attempt begins.
    Attempt {
        /// The call's number.
        call: u64,
        /// The attempt's number.
        number: u32,
        /// What is known of it.
        head: AttemptHead<S>,
    },
    /// An attempt has ended.
    AttemptEnd {
        /// The call's number.
        call: u64,
        /// The attempt's number.
        number: u32,
        /// How.
        ending: Ending<S>,
    },
    /// A call has ended, and with it all its attempts.
    CallEnd {
        /// The call's number.
        call: u64,
        /// How.
        ending: Ending<S>,
        /// Whether the client got an answer that is called what the call's last target says.
        is_degraded: bool,
    },
    /// An endpoint that is paid for by the hour was ready.
    Ready(Ready<S>),
}

impl<S: AsRef<str>> Entry<S> {
    /// Appends the entry's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Call { call, head } => {
                out.push(1);
                number(out, *call);
                head.write(out);
            }
            Self::Attempt {
                call,
                number: attempt,
                head,
            } => {
                out.push(2);
                number(out, *call);
                number(out, u64::from(*attempt));
                text(out, head.endpoint.as_ref());
                number(out, head.began_us);
            }
            Self::AttemptEnd {
                call,
                number: attempt,
                ending,
            } => {
                out.push(3);
                number(out, *call);
                number(out, u64::from(*attempt));
                ending.write(out);
            }
            Self::CallEnd {
                call,
                ending,
                is_degraded,
            } => {
                out.push(if *is_degraded { 7 } else { 4 });
                number(out, *call);
                ending.write(out);
            }
            Self::Ready(ready) => {
                out.push(5);
                for figure in [ready.hour, ready.minutes, ready.per_hour] {
                    number(out, figure);
                }
                for named in [&ready.pool, &ready.endpoint, &ready.price] {
                    text(out, named.as_ref());
                }
            }
            Self::Target { call, head } => {
                out.push(6);
                number(out, *call);
                head.write(out);
            }
        }
    }
}

impl Entry<String> {
    /// Reads the entry at the front of `bytes` and moves past it; `None` if there is no entry.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let kind = take(bytes)?;
        let call = read_number(bytes)?;
        Some(match kind {
            1 => Self::Call {
                call,
                head: CallHead::read(bytes)?,
            },
            2 => Self::Attempt {
                call,
                number: read_attempt(bytes)?,
                head: AttemptHead {
                    endpoint: read_text(bytes)?,
                    began_us: read_number(bytes)?,
                },
            },
            3 => Self::AttemptEnd {
                call,
                number: read_attempt(bytes)?,
                ending: Ending::read(bytes)?,
            },
            4 | 7 => Self::CallEnd {
                call,
                ending: Ending::read(bytes)?,
                is_degraded: kind == 7,
            },
            6 => Self::Target {
                call,
                head: TargetHead::read(bytes)?,
            },
            5 => Self::Ready(Ready {
                hour: call,
                minutes: read_number(bytes)?,
                per_hour: read_number(bytes)?,
                pool: read_text(bytes)?,
                endpoint: read_text(bytes)?,
                price: read_text(bytes)?,
            }),
            _ => return None,
        })
    }
}

impl<S: AsRef<str>> CallHead<S> {
    fn write(&self, out: &mut Vec<u8>) {
        text(out, self.request_id.as_ref());
        number(out, self.arrived.get());
        text(out, self.tenant.as_ref());
        for optional in [&self.user, &self.key, &self.task, &self.price] {
            optional_text(out, optional.as_ref());
        }
        for named in [&self.model, &self.served, &self.pool, &self.dialect] {
            text(out, named.as_ref());
        }
        self.expected.write(out);
    }
}

impl Expected {
    fn write(self, out: &mut Vec<u8>) {
        number(out, u64::from(self.input.get()));
        number(out, u64::from(self.output.get()));
        number(out, self.money);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            input: read_tokens(bytes)?,
            output: read_tokens(bytes)?,
            money: read_number(bytes)?,
        })
    }
}

impl<S: AsRef<str>> TargetHead<S> {
    fn write(&self, out: &mut Vec<u8>) {
        for named in [&self.asked, &self.model, &self.served, &self.pool] {
            text(out, named.as_ref());
        }
        optional_text(out, self.price.as_ref());
        self.expected.write(out);
        optional_text(out, self.degrades.as_ref().map(|degrades| &degrades.kind));
        optional_text(out, self.degrades.as_ref().map(|degrades| &degrades.reason));
    }
}

impl TargetHead<String> {
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            asked: read_text(bytes)?,
            model: read_text(bytes)?,
            served: read_text(bytes)?,
            pool: read_text(bytes)?,
            price: read_optional_text(bytes)?,
            expected: Expected::read(bytes)?,
            degrades: match (read_optional_text(bytes)?, read_optional_text(bytes)?) {
                (None, None) => None,
                (Some(kind), Some(reason)) => Some(Degrades { kind, reason }),
                _ => return None,
            },
        })
    }
}

impl CallHead<String> {
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (request_id, arrived, tenant) = (read_text(bytes)?, read_number(bytes)?, read_text(bytes)?);
        let (user, key) = (read_optional_text(bytes)?, read_optional_text(bytes)?);
        let (task, price) = (read_optional_text(bytes)?, read_optional_text(bytes)?);
        Some(Self {
            request_id,
            arrived: UnixMillis::new(arrived),
            tenant,
            user,
            key,
            task,
            price,
            model: read_text(bytes)?,
            served: read_text(bytes)?,
            pool: read_text(bytes)?,
            dialect: read_text(bytes)?,
            expected: Expected::read(bytes)?,
        })
    }
}

impl<S: AsRef<str>> Ending<S> {
    fn write(&self, out: &mut Vec<u8>) {
        match &self.usage {
            None => out.push(0),
            Some(usage) => {
                out.push(match usage.source {
                    UsageSource::Reported => 1,
                    UsageSource::Estimated => 2,
                });
                number(out, u64::from(usage.input.get()));
                number(out, u64::from(usage.output.get()));
                for part in [usage.cached_input, usage.reasoning] {
                    optional_number(out, part.map(|tokens| u64::from(tokens.get())));
                }
            }
        }
        optional_number(out, self.first_token_us);
        number(out, self.total_us);
        text(out, self.outcome.as_ref());
        optional_text(out, self.fault.as_ref());
        number(out, self.money);
    }
}

impl Ending<String> {
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let source = match take(bytes)? {
            0 => None,
            1 => Some(UsageSource::Reported),
            2 => Some(UsageSource::Estimated),
            _ => return None,
        };
        let usage = match source {
            None => None,
            Some(source) => {
                let (input, output) = (read_tokens(bytes)?, read_tokens(bytes)?);
                let (cached_input, reasoning) = (read_optional_tokens(bytes)?, read_optional_tokens(bytes)?);
                Some(Usage {
                    input,
                    cached_input,
                    output,
                    reasoning,
                    source,
                })
            }
        };
        Some(Self {
            usage,
            first_token_us: read_optional_number(bytes)?,
            total_us: read_number(bytes)?,
            outcome: read_text(bytes)?,
            fault: read_optional_text(bytes)?,
            money: read_number(bytes)?,
        })
    }
}

/// An unsigned number in groups of seven bits, lowest first; the high bit says that more follow (LEB128).
fn number(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let group = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            out.push(group);
            return;
        }
        out.push(group | 0x80);
    }
}

fn optional_number(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        number(out, value);
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    let cut = text.floor_char_boundary(TEXT_MAX);
    let bytes = text.as_bytes().get(..cut).unwrap_or_default();
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn optional_text<S: AsRef<str>>(out: &mut Vec<u8>, value: Option<&S>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        text(out, value.as_ref());
    }
}

fn take(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes)?;
        let group = u64::from(byte & 0x7f);
        if shift == 63 && group > 1 {
            return None;
        }
        value |= group << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn read_attempt(bytes: &mut &[u8]) -> Option<u32> {
    let number = read_number(bytes)?;
    (1..=ATTEMPTS_MAX)
        .contains(&number)
        .then(|| u32::try_from(number).ok())?
}

fn read_tokens(bytes: &mut &[u8]) -> Option<TokenCount> {
    u32::try_from(read_number(bytes)?).ok().map(TokenCount::new)
}

fn read_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(read_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length).filter(|_| length <= TEXT_MAX)?;
    *bytes = rest;
    Some(std::str::from_utf8(text).ok()?.to_owned())
}

/// Reads what may be absent: the outer `None` is an error.
#[expect(clippy::option_option, reason = "absent and unreadable are two things")]
fn read_optional<T>(bytes: &mut &[u8], read: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Option<T>> {
    match take(bytes)? {
        0 => Some(None),
        1 => Some(Some(read(bytes)?)),
        _ => None,
    }
}

#[expect(clippy::option_option, reason = "absent and unreadable are two things")]
fn read_optional_text(bytes: &mut &[u8]) -> Option<Option<String>> {
    read_optional(bytes, read_text)
}

#[expect(clippy::option_option, reason = "absent and unreadable are two things")]
fn read_optional_number(bytes: &mut &[u8]) -> Option<Option<u64>> {
    read_optional(bytes, read_number)
}

#[expect(clippy::option_option, reason = "absent and unreadable are two things")]
fn read_optional_tokens(bytes: &mut &[u8]) -> Option<Option<TokenCount>> {
    read_optional(bytes, read_tokens)
}

#[cfg(test)]
mod tests;
