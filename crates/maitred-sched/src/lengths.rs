//! How long answers are expected to be: per kind of call, from the answers of such calls before.
//!
//! Calls are of one kind when the asker gives them the same key, such as the hash of model, tenant and route. Lengths are
//! heavy-tailed, so the mean and the spread of their logarithm are learnt beside the mean. The map is bounded: the kind that was
//! heard of longest ago in a small set of places makes room.

/// Kinds remembered, in sets of [`WAYS`].
const SETS: usize = 256;
const WAYS: usize = 4;
/// Weight of a new answer.
const WEIGHT: f64 = 0.05;
/// Answers from which on a kind is known.
const KNOWN: u32 = 5;
/// The 90th percentile of a normal distribution, in standard deviations.
const P90: f64 = 1.281_6;

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    key: u64,
    /// When it was heard of last, in answers.
    heard: u64,
    answers: u32,
    mean: f64,
    log_mean: f64,
    log_variance: f64,
}

/// Expected output tokens of one kind of call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) mean: f64,
    pub(crate) p90: f64,
}

/// The lengths of answers by kind of call. Takes no memory before the first answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lengths {
    kinds: Vec<Kind>,
    answers: u64,
}

impl Lengths {
    /// What is expected of a call of this kind; `None` where too little is known.
    pub(crate) fn expected(&self, key: u64) -> Option<Expected> {
        let set = self.kinds.get(Self::set(key))?;
        let kind = set.iter().find(|kind| kind.key == key && kind.answers >= KNOWN)?;
        let p90 = (kind.log_mean + P90 * kind.log_variance.max(0.0).sqrt()).exp();
        Some(Expected {
            mean: kind.mean,
            p90: p90.max(kind.mean),
        })
    }

    /// Learns from an answer of `output` tokens.
    pub(crate) fn learn(&mut self, key: u64, output: u32) {
        if self.kinds.is_empty() {
            self.kinds.resize(SETS * WAYS, Kind::default());
        }
        self.answers += 1;
        let answers = self.answers;
        let Some(set) = self.kinds.get_mut(Self::set(key)) else {
            return;
        };
        let known = set.iter().position(|kind| kind.key == key && kind.answers > 0);
        let oldest = set.iter().enumerate().min_by_key(|(_, kind)| kind.heard);
        let at = known.or(oldest.map(|(at, _)| at)).unwrap_or(0);
        let kind = &mut set[at];
        if known.is_none() {
            *kind = Kind { key, ..Kind::default() };
        }
        kind.heard = answers;
        kind.take(f64::from(output.max(1)));
    }

    fn set(key: u64) -> std::ops::Range<usize> {
        let set = usize::try_from(key % SETS as u64).unwrap_or(0);
        set * WAYS..(set + 1) * WAYS
    }
}

impl Kind {
    fn take(&mut self, output: f64) {
        self.answers = self.answers.saturating_add(1);
        // A plain mean at first, which forgets from then on.
        let weight = WEIGHT.max(1.0 / f64::from(self.answers));
        self.mean += weight * (output - self.mean);
        let off = output.ln() - self.log_mean;
        self.log_mean += weight * off;
        self.log_variance = (1.0 - weight) * (self.log_variance + weight * off * off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_its_own_answers() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.expected(1), None);
        for round in 0..200 {
            lengths.learn(1, if round % 10 == 0 { 1_000 } else { 100 });
            lengths.learn(2, 7);
        }
        let (long, short) = (lengths.expected(1).unwrap(), lengths.expected(2).unwrap());
        assert!((150.0..260.0).contains(&long.mean), "{long:?}");
        assert!((200.0..800.0).contains(&long.p90), "{long:?}");
        assert!(
            (short.mean - 7.0).abs() < 1e-9 && (short.p90 - 7.0).abs() < 1e-6,
            "{short:?}"
        );
    }

    #[test]
    fn what_is_new_makes_room_and_what_is_in_use_stays() {
        let mut lengths = Lengths::default();
        for key in 0..1_000_000_u64 {
            lengths.learn(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), 10);
            lengths.learn(42, 50);
        }
        assert_eq!(lengths.kinds.len(), SETS * WAYS);
        assert!((lengths.expected(42).unwrap().mean - 50.0).abs() < 1e-9);
    }
}
