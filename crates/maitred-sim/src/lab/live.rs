//! The calls that have not ended: the only ones that are held.

use maitred_types::{Time, TokenCount};

use super::call::LabCall;
use super::fleet::EndpointIndex;
use super::record::{CallEnd, CallRecord};
use crate::kv::KeyMap;

/// A call under way.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) call: LabCall,
    pub(super) gateway: usize,
    pub(super) endpoint: Option<EndpointIndex>,
    pub(super) predicted: Option<TokenCount>,
    pub(super) dispatched: Option<Time>,
    pub(super) first_token: Option<Time>,
    /// Whether it was lost once and has been asked for again.
    pub(super) again: bool,
}

impl Live {
    pub(super) const fn new(call: LabCall, gateway: usize) -> Self {
        Self {
            call,
            gateway,
            endpoint: None,
            predicted: None,
            dispatched: None,
            first_token: None,
            again: false,
        }
    }

    pub(super) fn record(&self, end: CallEnd, cached: TokenCount, output: TokenCount, now: Time) -> CallRecord {
        CallRecord {
            number: self.call.number,
            arrived: self.call.arrived,
            dispatched: self.dispatched,
            first_token: self.first_token,
            finished: now,
            input: self.call.input,
            cached,
            predicted_cached: self.predicted,
            output,
            endpoint: self.endpoint,
            gateway: u32::try_from(self.gateway).unwrap_or(u32::MAX),
            tenant: self.call.tenant,
            class: self.call.class,
            end,
        }
    }
}

/// Calls by their place; places of calls that have ended are used again.
#[derive(Debug, Default)]
pub(super) struct LiveCalls {
    places: Vec<Option<Live>>,
    vacant: Vec<usize>,
    /// Where calls are that wait in a router, by their number.
    waiting: KeyMap<u64, usize>,
    count: usize,
    peak: usize,
}

impl LiveCalls {
    pub(super) fn add(&mut self, live: Live) -> usize {
        self.count += 1;
        self.peak = self.peak.max(self.count);
        if let Some(place) = self.vacant.pop() {
            self.places[place] = Some(live);
            return place;
        }
        self.places.push(Some(live));
        self.places.len() - 1
    }

    pub(super) fn get(&self, place: usize) -> Option<&Live> {
        self.places.get(place)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Live> {
        self.places.get_mut(place)?.as_mut()
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<Live> {
        let live = self.places.get_mut(place)?.take()?;
        self.vacant.push(place);
        self.count -= 1;
        Some(live)
    }

    /// Notes that a call waits in its router.
    pub(super) fn wait(&mut self, place: usize) {
        if let Some(live) = self.get(place) {
            let number = live.call.number;
            self.waiting.insert(number, place);
        }
    }

    /// Notes that a call waits no longer; where it is.
    pub(super) fn leave(&mut self, number: u64) -> Option<usize> {
        self.waiting.remove(&number)
    }

    /// The places of the calls that `endpoint` has, in order.
    pub(super) fn at(&self, endpoint: EndpointIndex) -> Vec<usize> {
        let is_there = |live: &Option<Live>| live.as_ref().is_some_and(|live| live.endpoint == Some(endpoint));
        let places = self.places.iter().enumerate().filter(|(_, live)| is_there(live));
        places.map(|(place, _)| place).collect()
    }

    /// The places of all calls, in order.
    pub(super) fn all(&self) -> Vec<usize> {
        let places = self.places.iter().enumerate().filter(|(_, live)| live.is_some());
        places.map(|(place, _)| place).collect()
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) const fn peak(&self) -> usize {
        self.peak
    }
}
