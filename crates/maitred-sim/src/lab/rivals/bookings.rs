//! What a gateway has under way.

use crate::kv::KeyMap;

/// What this gateway has under way at one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnLoad {
    /// Calls sent and not ended.
    pub requests: u32,
    /// Prompt tokens to compute of those whose first token has not come.
    pub prefill_tokens: u64,
}

#[derive(Clone, Copy, Debug)]
struct Booked {
    endpoint: usize,
    /// Zero once the first token has come.
    prefill_tokens: u32,
}

/// The books: as many entries as calls are under way.
#[derive(Debug)]
pub(super) struct Bookings {
    loads: Vec<OwnLoad>,
    live: KeyMap<u64, Booked>,
}

impl Bookings {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            loads: vec![OwnLoad::default(); endpoints],
            live: KeyMap::default(),
        }
    }

    pub(super) fn loads(&self) -> &[OwnLoad] {
        &self.loads
    }

    pub(super) fn dispatched(&mut self, number: u64, endpoint: usize, prefill_tokens: u32) {
        self.loads[endpoint].requests += 1;
        self.loads[endpoint].prefill_tokens += u64::from(prefill_tokens);
        self.live.insert(
            number,
            Booked {
                endpoint,
                prefill_tokens,
            },
        );
    }

    /// The call's prompt needs no more computing; whether that is new is told.
    pub(super) fn prefilled(&mut self, number: u64) -> bool {
        let Some(booked) = self.live.get_mut(&number) else {
            return false;
        };
        let prefill_tokens = std::mem::take(&mut booked.prefill_tokens);
        self.loads[booked.endpoint].prefill_tokens -= u64::from(prefill_tokens);
        prefill_tokens > 0
    }

    pub(super) fn finished(&mut self, number: u64) {
        self.prefilled(number);
        if let Some(booked) = self.live.remove(&number) {
            self.loads[booked.endpoint].requests -= 1;
        }
    }
}
