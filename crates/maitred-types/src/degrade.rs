//! The closed vocabulary of degraded answers: in what an answer is less than what was asked for, and why.

/// Declares a closed set of words, each with what it says on every surface.
macro_rules! words {
    ($(#[$about:meta])* $set:ident { $($word:ident: $label:literal, $meaning:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $set {
            $(#[doc = $meaning] $word,)*
        }

        impl $set {
            /// Every word, in order.
            pub const ALL: &'static [Self] = &[$(Self::$word,)*];

            /// The word in headers, stream events, records, metrics and the configuration.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$word => $label,)*
                }
            }

            /// What it means, for the reference page.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$word => $meaning,)*
                }
            }

            /// The word that reads so.
            #[must_use]
            pub fn from_label(label: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.label() == label)
            }
        }
    };
}

words! {
    /// In what an answer differs from what was asked for. Another endpoint of the same release is no degradation.
    DegradeKind {
        Model: "model", "Another model answered.";
        Provider: "provider", "The same model answered from another provider or pool of another operator.";
        Quantization: "quantization", "The same model answered in another quantisation.";
        Cache: "cache", "The answer was made for an earlier call and comes from the answer cache.";
        Estimate: "estimate", "The answer is the one asked for, but a figure that decides money is an estimate.";
    }
}

words! {
    /// Why a call went on to another target. What is in the word is said of the target before.
    DegradeReason {
        Timeout: "timeout", "The target gave no output in time.";
        Quota: "quota", "The target's own operator refuses further calls for now: its quota is spent.";
        Error: "error", "The target failed.";
        Overload: "overload", "The target has too much to do.";
        ContextLength: "context-length", "The call is longer than the target's context window.";
        Unavailable: "unavailable", "The target cannot take the call at all: no endpoint of it is ready, its breaker is open, or it takes no tools, images or JSON schemas.";
        Cache: "cache", "An answer was at hand, and the route and the tenant allow it to be used.";
    }
}

words! {
    /// Why a target of a call's plan was passed over without being asked.
    HopSkip {
        Stopped: "stopped", "More answers are degraded than the objective allows, and it says to stop then.";
        OwnQuota: "own-quota", "A limit of the caller has no room for the call there.";
        Breaker: "breaker", "It did not answer before, so it is left alone for a while.";
        Unread: "unread", "The call's body is not read, so another model's name cannot be put into it.";
        Absent: "absent", "The target's pool is not running.";
    }
}

/// A set of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DegradeReasons(u8);

impl DegradeReasons {
    /// No reason at all.
    pub const NONE: Self = Self(0);
    /// Every reason.
    pub const ALL: Self = Self::of(DegradeReason::ALL);

    /// The set of these.
    #[must_use]
    pub const fn of(reasons: &[DegradeReason]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < reasons.len() {
            bits |= 1 << reasons[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// Whether the reason is in the set.
    #[must_use]
    pub const fn contains(self, reason: DegradeReason) -> bool {
        self.0 & (1 << reason as u8) != 0
    }

    /// The reasons in the set, in order.
    pub fn iter(self) -> impl Iterator<Item = DegradeReason> {
        DegradeReason::ALL
            .iter()
            .copied()
            .filter(move |reason| self.contains(*reason))
    }
}

/// What is said of a degraded answer, the same on every surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Degradation {
    /// In what it differs.
    pub kind: DegradeKind,
    /// Why.
    pub reason: DegradeReason,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_it_is_made_of() {
        assert_eq!(DegradeReasons::NONE.iter().count(), 0);
        assert!(DegradeReasons::ALL.iter().eq(DegradeReason::ALL.iter().copied()));
        for reason in DegradeReason::ALL {
            assert!(DegradeReasons::of(&[*reason]).iter().eq([*reason]));
            assert_eq!(DegradeReason::from_label(reason.label()), Some(*reason));
        }
    }
}
