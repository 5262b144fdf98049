//! A service in virtual time for rollouts to be tried on: load that rises and falls, sessions whose calls are alike, incidents that hit both
//! sides, and a candidate that is worse in one way, or in none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use maitred_route::release::{Part, Release, Source, Statement, Verification};
use maitred_route::rollout::{
    Assignment, Caller, ErrorClass, Guard, Observation, Portion, Rollout, SessionHash, Side, Stage, Step, Terms,
    Tolerances,
};
use maitred_types::{Address, PoolName, UnixMillis};

/// In what the candidate is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// In nothing.
    Equal,
    /// All latencies are 20 % longer.
    Slower,
    /// First tokens are 20 % slower at the 99th percentile, and only beyond the 90th slower at all.
    SlowTail,
    /// The same of the tokens after the first.
    SlowTokens,
    /// 5 % of answers are cut that would not have been.
    Truncates,
    /// 5 % of tool calls are broken that would not have been.
    BreaksTools,
    /// 1 % of calls fail that would not have.
    Fails,
    /// Answers cost 25 % more.
    Costs,
    /// Humans take over twice as often.
    Annoys,
}

/// How a rollout ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) stage: Stage,
    /// Calls of the candidate that were compared.
    pub(crate) compared: u64,
    /// The guard that weighed most at the end.
    pub(crate) guard: Guard,
}

impl Ending {
    fn of(rollout: &Rollout) -> Self {
        Self {
            stage: rollout.stage(),
            compared: rollout.compared(),
            guard: rollout.odds().guard,
        }
    }
}

/// Calls per second, on the average.
const RATE: f64 = 60.0;
/// Sessions at any time.
const SESSIONS: usize = 300;
/// Calls of a session, on the average.
const SESSION_CALLS: f64 = 8.0;
/// The service is given up on after so many calls.
const CALLS_MAX: u64 = 1_000_000;

/// Who calls again and again, in one manner.
struct Session {
    hash: SessionHash,
    since: UnixMillis,
    /// How many times as slow as others.
    pace: f64,
    /// How many times as long as others.
    length: f64,
    truncation: f64,
    tool_fault: f64,
    has_tools: bool,
}

pub(crate) struct World {
    random: fastrand::Rng,
    case: Case,
    now: f64,
    sessions: Vec<Session>,
    born: u64,
    spare: Option<f64>,
    under_way: BinaryHeap<Reverse<(u64, u64)>>,
    calls: Vec<(Assignment, Observation, bool)>,
    free: Vec<u64>,
    incident_until: f64,
}

impl World {
    pub(crate) fn new(case: Case, seed: u64) -> Self {
        let mut world = Self {
            random: fastrand::Rng::with_seed(seed),
            case,
            now: 1e9 * 1_800.0,
            sessions: Vec::new(),
            born: 0,
            spare: None,
            under_way: BinaryHeap::new(),
            calls: Vec::new(),
            free: Vec::new(),
            incident_until: 0.0,
        };
        for _ in 0..SESSIONS {
            let session = world.session();
            world.sessions.push(session);
        }
        world
    }

    /// Rolls out until the end, or until the service is given up on.
    pub(crate) fn run(mut self, sample: u64) -> Ending {
        let now = self.clock();
        let (mut rollout, _) = Rollout::start(terms(sample), found("blue"), found("green"), now).unwrap();
        for _ in 0..CALLS_MAX {
            self.call(&rollout);
            while let Some(Reverse((end, place))) = self.under_way.peek().copied() {
                if end > self.clock().get() {
                    break;
                }
                self.under_way.pop();
                if self.finish(place, end, &mut rollout) {
                    return Ending::of(&rollout);
                }
            }
        }
        Ending::of(&rollout)
    }

    /// The next call begins.
    fn call(&mut self, rollout: &Rollout) {
        // The load swings by half within twenty minutes.
        let swing = 1.0 + 0.5 * (self.now / 1_200_000.0 * std::f64::consts::TAU).sin();
        self.now -= self.random.f64().max(1e-12).ln() * 1_000.0 / (RATE * swing);
        if self.random.f64() < 1e-5 {
            self.incident_until = self.now + 20_000.0;
        }
        let index = self.random.usize(..SESSIONS);
        if self.random.f64() < 1.0 / SESSION_CALLS {
            self.sessions[index] = self.session();
        }
        let session = &self.sessions[index];
        let caller = Caller {
            tenant: "acme",
            session: session.hash,
            session_since: Some(session.since),
        };
        let assignment = rollout.assign(&caller, self.clock());
        let (observed, takeover) = self.observe(index, assignment.side, 0.7 + 0.3 * swing);
        let tokens = 100.0;
        let lasts =
            observed.ttft.unwrap_or_default().as_secs_f64() + observed.tpot.unwrap_or_default().as_secs_f64() * tokens;
        let end = self.clock().get() + (lasts * 1_000.0) as u64;
        let place = match self.free.pop() {
            Some(place) => {
                self.calls[place as usize] = (assignment, observed, takeover);
                place
            }
            None => {
                self.calls.push((assignment, observed, takeover));
                self.calls.len() as u64 - 1
            }
        };
        self.under_way.push(Reverse((end, place)));
    }

    /// A call ends. Whether the rollout does too.
    fn finish(&mut self, place: u64, end: u64, rollout: &mut Rollout) -> bool {
        let (assignment, observed, takeover) = self.calls[place as usize];
        self.free.push(place);
        let now = UnixMillis::new(end);
        rollout.observe(&assignment, &observed, now);
        if takeover {
            rollout.takeover(&assignment);
        }
        matches!(rollout.stage(), Stage::Promoting | Stage::RollingBack)
    }

    fn observe(&mut self, index: usize, side: Side, load: f64) -> (Observation, bool) {
        let case = if side == Side::Candidate {
            self.case
        } else {
            Case::Equal
        };
        let in_incident = self.now < self.incident_until;
        let fails = 0.004 + if in_incident { 0.1 } else { 0.0 } + if case == Case::Fails { 0.01 } else { 0.0 };
        let error = (self.random.f64() < fails)
            .then(|| [ErrorClass::Timeout, ErrorClass::Failure, ErrorClass::Broken][self.random.usize(..3)]);
        let error = if case == Case::Fails {
            error.map(|_| ErrorClass::Failure)
        } else {
            error
        };
        let (first, next, size) = (self.normal(), self.normal(), self.normal());
        let chance = [
            self.random.f64(),
            self.random.f64(),
            self.random.f64(),
            self.random.f64(),
        ];
        let session = &self.sessions[index];
        let ttft = stretched(case, Case::SlowTail, 0.6 * first + session.pace.ln() + load.ln(), 0.64);
        let tpot = stretched(case, Case::SlowTokens, 0.25 * next + load.ln(), 0.27);
        let (ttft, tpot) = (0.3 * ttft, 0.02 * tpot);
        let cost = 2e6 * (0.7 * size).exp() * session.length * if case == Case::Costs { 1.25 } else { 1.0 };
        let truncation = session.truncation + if case == Case::Truncates { 0.05 } else { 0.0 };
        let tool_fault = session.tool_fault + if case == Case::BreaksTools { 0.05 } else { 0.0 };
        let takeover = 0.01 * if case == Case::Annoys { 2.0 } else { 1.0 };
        let observed = Observation {
            error,
            ttft: error.is_none().then(|| Duration::from_secs_f64(ttft)),
            tpot: error.is_none().then(|| Duration::from_secs_f64(tpot)),
            truncated: error.is_none() && chance[0] < truncation,
            tool_calls_valid: (session.has_tools && error.is_none()).then_some(chance[1] >= tool_fault),
            degraded: chance[2] < 0.002,
            cost: error.is_none().then_some(cost as u64),
        };
        (observed, chance[3] < takeover)
    }

    fn session(&mut self) -> Session {
        self.born += 1;
        let (pace, length) = (self.normal(), self.normal());
        Session {
            hash: SessionHash::of("acme", &format!("{}-{}", self.born, self.random.u64(..))),
            since: self.clock(),
            pace: (0.2 * pace).exp(),
            length: (0.3 * length).exp(),
            truncation: if self.random.f64() < 0.1 { 0.15 } else { 0.005 },
            tool_fault: if self.random.f64() < 0.1 { 0.1 } else { 0.01 },
            has_tools: self.random.f64() < 0.4,
        }
    }

    /// A standard normal number, by Box and Muller.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.random.f64().max(1e-300).ln()).sqrt();
        let (sin, cos) = (self.random.f64() * std::f64::consts::TAU).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }

    fn clock(&self) -> UnixMillis {
        UnixMillis::new(self.now as u64)
    }
}

/// The latency whose logarithm is `log`, as the candidate of this case has it; `spread` is the standard deviation of the logarithm.
fn stretched(case: Case, tail: Case, log: f64, spread: f64) -> f64 {
    let stretch = match case {
        Case::Slower => 1.2,
        // Nothing up to the 90th percentile, a fifth at the 99th and beyond.
        _ if case == tail => 1.0 + 0.2 * ((log / spread - 1.2816) / (2.3263 - 1.2816)).clamp(0.0, 1.0),
        _ => 1.0,
    };
    log.exp() * stretch
}

/// The terms of the documentation's example.
pub(crate) fn terms(sample: u64) -> Terms {
    let step = |percent| Step {
        portion: Portion::from_percent(percent),
        tenants: Vec::new(),
    };
    Terms {
        name: "spring".to_owned(),
        baseline: release("blue"),
        candidate: release("green"),
        shadow: None,
        steps: vec![step(5), step(20), step(50)],
        sample,
        sample_min: 100,
        step_min: Duration::from_secs(60),
        settle: Duration::from_secs(30),
        linger: Duration::from_secs(3_600),
        risk: 10_000,
        tolerances: Tolerances {
            latency: 20_000,
            cost: 50_000,
            rate: 1_000,
        },
    }
}

pub(crate) fn release(name: &str) -> Release {
    Release {
        name: name.to_owned(),
        pool: PoolName::from(name),
        weights: format!("weights of {name}"),
        engine: None,
        quantization: None,
        chat_template: None,
        route: None,
    }
}

/// An endpoint that runs what it should.
pub(crate) fn found(name: &str) -> Verification {
    let release = release(name);
    let mut statement = Statement::new(Address::from("10.0.0.1:8000"));
    statement.tell(Part::Weights, &release.weights, Source::Models);
    release.verify(&[statement])
}
