//! The driver: lets a fleet, its gateways and a workload run in virtual time.
//!
//! Single-threaded and deterministic: the same plan, routers and calls give the same records. Engines are brought forward only
//! when something of theirs can be seen ([`EngineModel::quiet_until`]), when a page is read, or when a policy sees
//! everything. What happens at the same instant happens in the order engines, pages, restarts, calls, wake-ups, and among
//! engines in that of the fleet.

use std::fmt;

use fastrand::Rng;
use maitred_types::{Time, TokenCount};

use super::agenda::Agenda;
use super::call::LabCall;
use super::fleet::{EndpointIndex, FleetView};
use super::live::{Live, LiveCalls};
use super::pages::Pages;
use super::plan::{Restart, RunPlan};
use super::record::{CallEnd, EndpointSummary, Recorder, RunSummary};
use super::router::{CallReport, Placement, Released, Router};
use crate::model::EngineModel;
use crate::request::{SimEvent, SimUsage};

/// Why a run could not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFault<E> {
    /// The workload has a fault of its own.
    Workload(E),
    /// The plan has no endpoint or no gateway, or not as many routers as gateways.
    Empty,
}

impl<E: fmt::Display> fmt::Display for RunFault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(fault) => fault.fmt(f),
            Self::Empty => f.write_str("a run needs an endpoint, and one router for each gateway"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for RunFault<E> {}

/// Lets the calls of `workload`, in order of their arrival, run through the fleet, one router for each gateway.
///
/// # Errors
/// Those of the workload, and a plan that cannot be run.
pub fn run<E>(
    plan: &RunPlan,
    routers: Vec<Box<dyn Router>>,
    workload: impl Iterator<Item = Result<LabCall, E>>,
    recorder: &mut dyn Recorder,
) -> Result<RunSummary, RunFault<E>> {
    if plan.endpoints.is_empty() || routers.is_empty() || routers.len() != plan.gateways as usize {
        return Err(RunFault::Empty);
    }
    let mut floor = Floor::new(plan, routers, recorder);
    let mut workload = workload;
    let mut next = floor.admit(&mut workload)?;
    while let Some(happening) = floor.next(next.as_ref()) {
        if let Happening::Call(at) = happening {
            if let Some(call) = next.take() {
                floor.now = floor.now.max(at);
                floor.arrive(call);
            }
            next = floor.admit(&mut workload)?;
        } else {
            floor.handle(happening);
        }
        floor.summary.happenings += 1;
    }
    Ok(floor.close())
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Engine(Time),
    Page(Time),
    Restart(Time),
    Call(Time),
    Wakeup(Time),
    Talk(Time),
}

/// Something an engine showed.
#[derive(Clone, Copy, Debug)]
enum Shown {
    First(usize),
    End(usize, SimUsage),
}

/// A run under way.
struct Floor<'a> {
    plan: &'a RunPlan,
    engines: Vec<EngineModel>,
    routers: Vec<Box<dyn Router>>,
    sees_truth: bool,
    agenda: Agenda,
    pages: Pages,
    /// Latest first.
    restarts: Vec<Restart>,
    live: LiveCalls,
    recorder: &'a mut dyn Recorder,
    rng: Rng,
    now: Time,
    last_arrival: Time,
    summary: RunSummary,
    shown: Vec<(Time, Shown)>,
    released: Vec<Released>,
    /// When the gateways talk next.
    talk_at: Time,
}

impl<'a> Floor<'a> {
    fn new(plan: &'a RunPlan, routers: Vec<Box<dyn Router>>, recorder: &'a mut dyn Recorder) -> Self {
        let engines: Vec<EngineModel> = plan.endpoints.iter().map(|plan| plan.engine(Time::ZERO)).collect();
        let mut restarts = plan.restarts.clone();
        restarts.sort_by_key(|restart| std::cmp::Reverse(restart.at));
        let mut rng = Rng::with_seed(plan.seed);
        Self {
            plan,
            sees_truth: routers.iter().any(|router| router.sees_truth()),
            agenda: Agenda::new(engines.len()),
            pages: Pages::new(&plan.scrape, routers.len(), engines.len(), rng.u64(..)),
            restarts,
            live: LiveCalls::default(),
            recorder,
            rng,
            now: Time::ZERO,
            last_arrival: Time::ZERO,
            summary: RunSummary {
                policy: routers
                    .first()
                    .map(|router| router.name().to_owned())
                    .unwrap_or_default(),
                seed: plan.seed,
                endpoints: vec![EndpointSummary::default(); engines.len()],
                ..RunSummary::default()
            },
            shown: Vec::new(),
            released: Vec::new(),
            talk_at: plan.sharing.map_or(Time::MAX, |period| Time::ZERO + period),
            engines,
            routers,
        }
    }

    /// The next call of the workload, unless the run takes no more.
    fn admit<E>(
        &mut self,
        workload: &mut impl Iterator<Item = Result<LabCall, E>>,
    ) -> Result<Option<LabCall>, RunFault<E>> {
        if self.summary.calls >= self.plan.end.calls {
            return Ok(None);
        }
        let call = workload.next().transpose().map_err(RunFault::Workload)?;
        Ok(call.filter(|call| call.arrived.since(Time::ZERO) <= self.plan.end.time))
    }

    /// What happens next; nothing, when all calls have ended or the last ones have been waited for long enough.
    fn next(&self, call: Option<&LabCall>) -> Option<Happening> {
        if call.is_none() && self.live.count() == 0 {
            return None;
        }
        let wakeup = self.routers.iter().filter_map(|router| router.next_wakeup()).min();
        let order = [
            Happening::Engine(self.agenda.earliest()),
            Happening::Page(self.pages.next()),
            Happening::Restart(self.restarts.last().map_or(Time::MAX, |restart| restart.at)),
            Happening::Call(call.map_or(Time::MAX, |call| call.arrived)),
            Happening::Wakeup(wakeup.unwrap_or(Time::MAX)),
            Happening::Talk(self.talk_at),
        ];
        let first = order.into_iter().min_by_key(Happening::at)?;
        let is_over = call.is_none() && first.at() > self.last_arrival + self.plan.end.patience;
        (first.at() < Time::MAX && !is_over).then_some(first)
    }

    fn handle(&mut self, happening: Happening) {
        self.now = self.now.max(happening.at());
        match happening {
            Happening::Engine(_) => {
                let first = self.agenda.first();
                self.bring(first);
                self.tell();
            }
            Happening::Page(_) => self.read_page(),
            Happening::Restart(_) => self.restart(),
            Happening::Wakeup(_) => {
                for gateway in 0..self.routers.len() {
                    if self.routers[gateway].next_wakeup().is_some_and(|at| at <= self.now) {
                        self.release(gateway);
                    }
                }
            }
            Happening::Talk(_) => self.talk(),
            Happening::Call(_) => {}
        }
    }

    /// Lets every gateway tell all others what it knows.
    fn talk(&mut self) {
        let now = self.now;
        let said: Vec<_> = self.routers.iter_mut().map(|router| router.share(now)).collect();
        for (from, message) in (0_u32..).zip(&said) {
            let Some(message) = message else { continue };
            let others = self.routers.iter_mut().zip(0_u32..);
            for (router, _) in others.filter(|(_, to)| *to != from) {
                router.hear(from, message, now);
            }
        }
        self.talk_at = self.plan.sharing.map_or(Time::MAX, |period| now + period);
    }

    /// Brings an engine to this instant, and notes what it shows.
    fn bring(&mut self, endpoint: usize) {
        let shown = &mut self.shown;
        let place = |id: crate::request::RequestNumber| usize::try_from(id.0).unwrap_or(usize::MAX);
        self.engines[endpoint].advance(self.now, &mut |event| match event {
            SimEvent::Token { id, n: 1, at } => shown.push((at, Shown::First(place(id)))),
            SimEvent::Finished { id, usage, at, .. } => shown.push((at, Shown::End(place(id), usage))),
            SimEvent::Token { .. } | SimEvent::Preempted { .. } => {}
        });
        self.agenda.plan(endpoint, self.engines[endpoint].quiet_until());
    }

    /// Tells the routers what was shown.
    fn tell(&mut self) {
        let mut shown = std::mem::take(&mut self.shown);
        for (at, what) in shown.drain(..) {
            match what {
                Shown::First(place) => self.first_token(place, at),
                Shown::End(place, usage) => {
                    let report = CallReport {
                        cached: Some(usage.cached),
                        output: usage.output,
                        end: CallEnd::Answered,
                    };
                    self.finish(place, &report);
                }
            }
        }
        self.shown = shown;
    }

    fn first_token(&mut self, place: usize, at: Time) {
        let Some(live) = self.live.get_mut(place) else { return };
        live.first_token = Some(at);
        let gateway = live.gateway;
        if let Some(endpoint) = live.endpoint {
            self.routers[gateway].first_token(&live.call, endpoint, at);
        }
        self.release(gateway);
    }

    /// Ends a call that was dispatched, and asks its router who goes now.
    fn finish(&mut self, place: usize, report: &CallReport) {
        if let Some(gateway) = self.report(place, report) {
            self.end(place, report.end, report.cached.unwrap_or_default(), report.output);
            self.release(gateway);
        }
    }

    /// Tells a router how a call ended; which router.
    fn report(&mut self, place: usize, report: &CallReport) -> Option<usize> {
        let live = self.live.get(place)?;
        self.routers[live.gateway].finished(&live.call, live.endpoint?, report, self.now);
        Some(live.gateway)
    }

    /// Ends a call that was lost, or asks for it again if nothing of it was seen yet.
    fn lose(&mut self, place: usize) {
        let Some(live) = self.live.get_mut(place) else { return };
        if live.first_token.is_none() && !live.again {
            (live.again, live.endpoint, live.dispatched, live.predicted) = (true, None, None, None);
            self.decide(place);
        } else {
            self.end(place, CallEnd::Lost, TokenCount::ZERO, TokenCount::ZERO);
        }
    }

    /// Leaves the record of a call and forgets it.
    fn end(&mut self, place: usize, end: CallEnd, cached: TokenCount, output: TokenCount) {
        let Some(live) = self.live.remove(place) else { return };
        if let Some(endpoint) = live.endpoint {
            let summary = &mut self.summary.endpoints[endpoint.get()];
            summary.output_tokens += u64::from(output.get());
        }
        let ends = CallEnd::ALL.iter().zip(&mut self.summary.ends);
        for (_, count) in ends.filter(|(kind, _)| **kind == end) {
            *count += 1;
        }
        self.recorder.call(&live.record(end, cached, output, self.now));
    }

    fn arrive(&mut self, mut call: LabCall) {
        call.number = self.summary.calls;
        self.summary.calls += 1;
        call.arrived = self.now;
        self.last_arrival = self.now;
        let gateway = self.rng.usize(0..self.routers.len());
        let place = self.live.add(Live::new(call, gateway));
        self.decide(place);
        self.release(gateway);
    }

    /// Asks the router where a call goes.
    fn decide(&mut self, place: usize) {
        if self.sees_truth {
            self.bring_all();
        }
        let Some(live) = self.live.get(place) else { return };
        let view = FleetView::new(&self.engines, self.now);
        let placement = self.routers[live.gateway].arrive(&live.call, self.now, &view);
        if placement == Placement::Wait {
            self.live.wait(place);
        } else {
            self.put(place, placement);
        }
    }

    fn bring_all(&mut self) {
        for endpoint in 0..self.engines.len() {
            self.bring(endpoint);
        }
        debug_assert!(
            self.shown.is_empty(),
            "what can be seen at an instant is told before a call of that instant"
        );
    }

    /// Does what the router said.
    fn put(&mut self, place: usize, placement: Placement) {
        match placement {
            Placement::Wait => {}
            Placement::Shed => self.end(place, CallEnd::Shed, TokenCount::ZERO, TokenCount::ZERO),
            Placement::Go {
                endpoint,
                predicted_cached,
            } => self.dispatch(place, endpoint, predicted_cached),
        }
    }

    fn dispatch(&mut self, place: usize, endpoint: EndpointIndex, predicted: Option<TokenCount>) {
        let Some(engine) = self.engines.get_mut(endpoint.get()) else {
            return self.end(place, CallEnd::Refused, TokenCount::ZERO, TokenCount::ZERO);
        };
        let Some(live) = self.live.get_mut(place) else { return };
        (live.endpoint, live.predicted, live.dispatched) = (Some(endpoint), predicted, Some(self.now));
        self.summary.endpoints[endpoint.get()].calls += 1;
        let request = live.call.request(place as u64);
        if engine.submit(request, self.now + self.plan.dispatch_delay).is_err() {
            let report = CallReport {
                cached: None,
                output: TokenCount::ZERO,
                end: CallEnd::Refused,
            };
            if self.report(place, &report).is_some() {
                self.end(place, report.end, TokenCount::ZERO, TokenCount::ZERO);
            }
            return;
        }
        self.agenda.plan(endpoint.get(), engine.quiet_until());
    }

    /// Asks a router which of its waiting calls go now.
    fn release(&mut self, gateway: usize) {
        let mut released = std::mem::take(&mut self.released);
        let view = FleetView::new(&self.engines, self.now);
        self.routers[gateway].released(self.now, &view, &mut released);
        for Released { number, placement } in released.drain(..) {
            if placement != Placement::Wait
                && let Some(place) = self.live.leave(number)
            {
                self.put(place, placement);
            }
        }
        self.released = released;
    }

    fn read_page(&mut self) {
        let Some(turn) = self.pages.turn() else { return };
        self.bring(turn.endpoint);
        self.tell();
        let reading = self.pages.read(&self.engines[turn.endpoint], self.now);
        self.summary.pages += 1;
        if let (Some(reading), Ok(index)) = (reading, u32::try_from(turn.endpoint)) {
            self.routers[turn.gateway].page(EndpointIndex::new(index), &reading, self.now);
            self.release(turn.gateway);
        }
    }

    fn restart(&mut self) {
        let Some(Restart { endpoint, .. }) = self.restarts.pop() else {
            return;
        };
        let Some(plan) = self.plan.endpoints.get(endpoint.get()) else {
            return;
        };
        self.bring(endpoint.get());
        self.tell();
        self.sum_up(endpoint.get());
        self.summary.endpoints[endpoint.get()].restarts += 1;
        self.engines[endpoint.get()] = plan.engine(self.now);
        self.agenda.plan(endpoint.get(), None);
        let report = CallReport {
            cached: None,
            output: TokenCount::ZERO,
            end: CallEnd::Lost,
        };
        let lost = self.live.at(endpoint);
        for place in &lost {
            self.report(*place, &report);
        }
        for router in &mut self.routers {
            router.restarted(endpoint, self.now);
        }
        for place in lost {
            self.lose(place);
        }
        for gateway in 0..self.routers.len() {
            self.release(gateway);
        }
    }

    /// Adds what an engine has counted to its endpoint's figures.
    fn sum_up(&mut self, endpoint: usize) {
        let engine = &self.engines[endpoint];
        let counters = &engine.stats().counters;
        let summary = &mut self.summary.endpoints[endpoint];
        summary.prompt_tokens += counters.prompt_tokens;
        summary.cached_tokens += counters.cached_tokens;
        summary.computed_tokens += counters.computed_tokens;
        summary.preemptions += counters.preemptions;
        summary.busy += engine.busy();
    }

    fn close(mut self) -> RunSummary {
        for place in self.live.all() {
            self.end(place, CallEnd::Unfinished, TokenCount::ZERO, TokenCount::ZERO);
        }
        for endpoint in 0..self.engines.len() {
            self.sum_up(endpoint);
        }
        self.summary.duration = self.now.since(Time::ZERO);
        self.summary.last_arrival = self.last_arrival.since(Time::ZERO);
        self.summary.peak_live = self.live.peak();
        self.summary
    }
}

impl Happening {
    const fn at(&self) -> Time {
        match *self {
            Self::Engine(at)
            | Self::Page(at)
            | Self::Restart(at)
            | Self::Call(at)
            | Self::Wakeup(at)
            | Self::Talk(at) => at,
        }
    }
}

#[cfg(test)]
mod tests;
