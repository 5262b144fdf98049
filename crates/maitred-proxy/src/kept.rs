//! Answers from the answer cache, and answers for it.
//!
//! What is given from the cache is an answer that the same tenant got before, for a call that asks the same of the same target. It
//! was made by the model that was asked for, but not for this call, so it is marked and counted as what it is. Only whole
//! answers of what was asked for are kept: none that broke off, and none that another model gave.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use maitred_config::KeptCalls;
use maitred_llm::Canonical;
use maitred_runtime::{AnswerKey, Degrade, Gathering, Target};

use crate::account::Account;
use crate::attempt::Answer;
use crate::hop::Asked;

/// Where the answer to a call is, or is to be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    key: AnswerKey,
    keep: Duration,
    largest: usize,
}

/// Whether an answer that is kept will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    Allowed,
    /// The client wants a new one, which may be kept.
    Refused,
}

/// The answer to the call that is at hand. If there is none, the one that `target` gives will be kept if it may be.
pub(crate) fn answer(account: &mut Account, asked: &Asked<'_>, target: &Target) -> Option<Answer> {
    let (keeping, reuse) = keeping(account, asked, target)?;
    if reuse == Reuse::Allowed {
        let now = account.now();
        let runtime = Arc::clone(&account.gate.runtime);
        let meters = &account.gate.meters.answers;
        if let Some(kept) = runtime.answers().get(&keeping.key, now) {
            meters.found.inc();
            account.way.reuse();
            let age = (now - kept.made).as_secs();
            let headers = [(CONTENT_TYPE, kept.content_type.clone()), (AGE, HeaderValue::from(age))];
            let headers = HeaderMap::from_iter(headers);
            return Some(Answer::Whole(StatusCode::OK, headers, kept.body.clone()));
        }
        meters.missed.inc();
    }
    account.keeping = Some(Box::new(keeping));
    None
}

fn keeping(account: &Account, asked: &Asked<'_>, target: &Target) -> Option<(Keeping, Reuse)> {
    let answers = asked.snapshot.settings().answers.as_ref()?;
    let tenant = &asked.principal.tenant;
    let model = answers.models.get(account.way.asked.as_ref()?)?;
    if !answers.tenants.contains(tenant) {
        return None;
    }
    let mut reuse = match asked.degrade {
        Degrade::Allowed => Reuse::Allowed,
        Degrade::Refused => Reuse::Refused,
    };
    for word in cache_control(&asked.head.headers) {
        if word.eq_ignore_ascii_case("no-store") {
            return None;
        }
        if word.eq_ignore_ascii_case("no-cache") {
            reuse = Reuse::Refused;
        }
    }
    let canonical = Canonical::of(asked.kind, asked.view?)?;
    if model.calls == KeptCalls::Deterministic && !canonical.is_deterministic() {
        return None;
    }
    let key = AnswerKey::new(&[
        tenant.as_str().as_bytes(),
        target.pool.name().as_str().as_bytes(),
        target.served_as.as_str().as_bytes(),
        asked.kind.label().as_bytes(),
        canonical.text(),
    ]);
    let keeping = Keeping {
        key,
        keep: model.keep,
        largest: answers.largest.as_usize(),
    };
    Some((keeping, reuse))
}

/// The words of `cache-control` (RFC 9111 section 5.2.1).
fn cache_control(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CACHE_CONTROL).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

impl Account {
    /// An answer begins. It is gathered if it is to be kept.
    pub(crate) fn gather(&mut self, status: StatusCode, headers: &HeaderMap) -> Option<Box<Gathering>> {
        let keeping = self.keeping.take()?;
        let content_type = headers.get(CONTENT_TYPE)?.clone();
        if status != StatusCode::OK || self.way.degrades.is_some() {
            return None;
        }
        let Keeping { key, keep, largest } = *keeping;
        Some(Box::new(Gathering::new(key, keep, largest, content_type)))
    }

    /// The answer has come to its good end.
    pub(crate) fn keep(&self, answer: Option<Box<Gathering>>) {
        if let Some(answer) = answer {
            let answers = self.gate.runtime.answers();
            answers.keep(*answer, self.now());
            self.gate.meters.answers.holds(answers.size());
        }
    }

    /// Keeps an answer that is there as a whole.
    pub(crate) fn keep_whole(&mut self, status: StatusCode, headers: &HeaderMap, body: &Bytes) {
        let mut answer = self.gather(status, headers);
        if let Some(answer) = &mut answer {
            answer.add(body);
        }
        self.keep(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_cache_control_are_read_from_all_its_lines() {
        let mut headers = HeaderMap::new();
        assert_eq!(cache_control(&headers).count(), 0);
        headers.append(CACHE_CONTROL, HeaderValue::from_static("max-age=0,  No-Store"));
        headers.append(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        assert!(cache_control(&headers).eq(["max-age=0", "No-Store", "no-cache"]));
    }
}
