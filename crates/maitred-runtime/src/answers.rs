//! The answer cache: whole answers, kept for calls of the same tenant that ask the same of the same target again.
//!
//! What is asked for and by whom is one digest over all of it, so that no part can be mistaken for another, and no tenant ever
//! meets an answer made for a different one. Whether a stream is asked for is a part of it, so that a stream is given again as a
//! stream.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use maitred_types::{ByteSize, Time};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Answers that are expected in the cache for each MiB of it.
const PER_MIB: u64 = 256;
/// Bytes of bookkeeping that each answer has beside its own.
const OVERHEAD: u64 = 256;

/// What a call asks for, of whom, and who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerKey([u8; SHA256_OUTPUT_LEN]);

impl AnswerKey {
    /// The key of a call that says `parts`: its tenant, its target and release, its kind, and its one form. The order counts, and
    /// so do the borders between the parts.
    #[must_use]
    pub fn new(parts: &[&[u8]]) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut key = [0; SHA256_OUTPUT_LEN];
        key.copy_from_slice(context.finish().as_ref());
        Self(key)
    }
}

/// An answer as its client had it.
#[derive(Clone, Debug)]
pub struct KeptAnswer {
    /// Its content type.
    pub content_type: HeaderValue,
    /// All of it; of a stream, its events.
    pub body: Bytes,
    /// When it was made.
    pub made: Time,
    expires: Time,
}

/// An answer on its way, gathered for the cache. Bounded: one that grows too large is not kept.
#[derive(Debug)]
pub struct Gathering {
    key: AnswerKey,
    keep: Duration,
    largest: usize,
    content_type: HeaderValue,
    /// What has come so far; `None` once that was too much.
    body: Option<BytesMut>,
}

impl Gathering {
    /// An answer to the call of that key begins. It is kept for so long, if it has no more than `largest` bytes.
    #[must_use]
    pub fn new(key: AnswerKey, keep: Duration, largest: usize, content_type: HeaderValue) -> Self {
        Self {
            key,
            keep,
            largest,
            content_type,
            body: Some(BytesMut::new()),
        }
    }

    /// The next piece has come.
    pub fn add(&mut self, piece: &[u8]) {
        if let Some(body) = &mut self.body {
            if body.len() + piece.len() > self.largest {
                self.body = None;
            } else {
                body.extend_from_slice(piece);
            }
        }
    }
}

/// The cache.
#[derive(Debug)]
pub struct AnswerCache {
    kept: Cache<AnswerKey, Arc<KeptAnswer>, BySize>,
}

impl AnswerCache {
    /// A cache of at most so many bytes.
    #[must_use]
    pub fn new(size: ByteSize) -> Self {
        let items = usize::try_from((size.get() >> 20).max(1) * PER_MIB).unwrap_or(usize::MAX);
        Self {
            kept: Cache::with_weighter(items, size.get(), BySize),
        }
    }

    /// The answer to the call of that key, if there is one that may still be given.
    #[must_use]
    pub fn get(&self, key: &AnswerKey, now: Time) -> Option<Arc<KeptAnswer>> {
        let answer = self.kept.get(key)?;
        if now < answer.expires {
            return Some(answer);
        }
        // Unless another has taken its place meanwhile.
        self.kept.remove_if(key, |kept| now >= kept.expires);
        None
    }

    /// Keeps an answer that has come to its good end, unless it was too large.
    pub fn keep(&self, answer: Gathering, now: Time) {
        let Some(body) = answer.body else { return };
        let kept = KeptAnswer {
            content_type: answer.content_type,
            body: body.freeze(),
            made: now,
            expires: now + answer.keep,
        };
        self.kept.insert(answer.key, Arc::new(kept));
    }

    /// Holds no more than so many bytes from now on.
    pub fn resize(&self, size: ByteSize) {
        self.kept.set_capacity(size.get());
    }

    /// Bytes in use.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.kept.weight()
    }
}

/// Weighs an answer by its bytes.
#[derive(Clone, Debug)]
struct BySize;

impl Weighter<AnswerKey, Arc<KeptAnswer>> for BySize {
    fn weight(&self, _: &AnswerKey, answer: &Arc<KeptAnswer>) -> u64 {
        answer.body.len() as u64 + OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn gathered(key: AnswerKey, pieces: &[&str]) -> Gathering {
        let mut answer = Gathering::new(key, MINUTE, 1 << 20, HeaderValue::from_static("text/event-stream"));
        for piece in pieces {
            answer.add(piece.as_bytes());
        }
        answer
    }

    #[test]
    fn an_answer_is_given_again_until_it_expires() {
        let cache = AnswerCache::new(ByteSize::new(1 << 20));
        let key = AnswerKey::new(&[b"red", b"big", b"{}"]);
        assert!(cache.get(&key, Time::ZERO).is_none());
        cache.keep(gathered(key, &["data: 1\n\n", "data: [DONE]\n\n"]), Time::ZERO);
        let answer = cache.get(&key, Time::from_millis(59_999)).unwrap();
        assert_eq!(answer.body, "data: 1\n\ndata: [DONE]\n\n");
        assert!(cache.get(&key, Time::from_millis(60_000)).is_none());
        assert_eq!(cache.size(), 0);
    }

    #[test]
    fn borders_between_parts_count() {
        let keys = [
            AnswerKey::new(&[b"red", b"big"]),
            AnswerKey::new(&[b"redb", b"ig"]),
            AnswerKey::new(&[b"redbig"]),
            AnswerKey::new(&[b"redbig", b""]),
            AnswerKey::new(&[b"big", b"red"]),
        ];
        for (place, key) in keys.iter().enumerate() {
            assert!(!keys[place + 1..].contains(key));
        }
    }

    #[test]
    fn the_bounds_hold() {
        let cache = AnswerCache::new(ByteSize::new(64 << 10));
        let key = AnswerKey::new(&[b"red"]);
        for (pieces, is_kept) in [([2, 2], true), ([2, 3], false), ([5, 0], false)] {
            let mut answer = Gathering::new(key, MINUTE, 4, HeaderValue::from_static("text/plain"));
            for piece in pieces {
                answer.add(&vec![b'x'; piece]);
            }
            let key = answer.key;
            cache.keep(answer, Time::ZERO);
            assert_eq!(cache.get(&key, Time::ZERO).is_some(), is_kept, "{pieces:?}");
            cache.kept.clear();
        }
        let body = "x".repeat(1000);
        for number in 0..10_000_u32 {
            let key = AnswerKey::new(&[&number.to_le_bytes()]);
            cache.keep(gathered(key, &[&body]), Time::ZERO);
            assert!(cache.size() <= 64 << 10);
        }
        assert!(cache.size() > 32 << 10);
        // One that is larger than the whole cache is not kept, and drives nothing out.
        let before = cache.size();
        cache.keep(gathered(key, &[&"x".repeat(100_000)]), Time::ZERO);
        assert!(cache.get(&key, Time::ZERO).is_none());
        assert_eq!(cache.size(), before);
        cache.resize(ByteSize::new(8 << 10));
        assert!(cache.size() <= 8 << 10);
    }
}
