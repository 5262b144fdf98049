//! Checks of a scenario.

use super::Checker;
use super::profiles::Profiles;
use crate::diagnostic::{Diagnostic, listed, near_miss};
use crate::path::Path;
use crate::raw::scenario as raw;
use crate::settings::ClassSettings;
use crate::settings::scenario::{
    FleetGroup, KindSettings, KneeSettings, LengthSettings, LoadSettings, LoadShape, PageReadings, PolicySettings,
    Scenario, SharedSettings, SpreadSettings, TraceSettings, TurnSettings, WorkloadSettings,
};

/// Names that a scenario may use and that other crates own.
#[derive(Clone, Copy, Debug)]
pub struct ScenarioNames<'a> {
    /// Engine profiles.
    pub engines: &'a [&'a str],
    /// Rival policies.
    pub rivals: &'a [&'a str],
}

/// Most endpoints of a fleet.
const ENDPOINTS_MAX: u64 = 5_000;

impl Checker<'_> {
    /// The scenario that `raw` describes, and all that is wrong with it.
    pub(crate) fn run_scenario(mut self, raw: &raw::Scenario, names: ScenarioNames<'_>) -> (Scenario, Vec<Diagnostic>) {
        let profiles = self.profiles(&raw.profiles);
        let endpoints = self.fleet(&raw.fleet, names.engines);
        self.disturbances(raw, endpoints);
        self.loads(&raw.load);
        let policies = self.policies(raw, &profiles, names.rivals);
        let baseline = self.baseline(raw);
        self.asked_adapters(raw);
        let knee = Path::top("knee");
        let knee_policy = self.policy(raw.knee.policy.as_str(), &knee.key("policy"), &profiles, names.rivals);
        self.positive(raw.knee.ttft, &knee.key("ttft"));
        if let Some(sharing) = raw.sharing {
            self.positive(sharing, &Path::top("sharing"));
        }
        let classes = ClassSettings::default();
        let waiting = self.waiting(&raw.waiting, &classes, &Path::top("waiting"));
        let scenario = Scenario {
            name: raw.name.as_str().to_owned(),
            description: raw.description.clone(),
            fleet: raw.fleet.iter().map(group).collect(),
            block_tokens: raw.block_tokens,
            gateways: raw.gateways,
            sharing: raw.sharing.map(crate::forms::TimeSpan::get),
            scrape: scrape(&raw.scrape),
            restarts: raw.restarts.iter().map(|one| (one.endpoint, one.at.get())).collect(),
            prior_factor: raw.prior_factor,
            workload: workload(&raw.workload),
            shape: self.shape(raw),
            load: match &raw.load {
                raw::Load::PerSecond(rates) => LoadSettings::PerSecond(rates.clone()),
                raw::Load::OfKnee(parts) => LoadSettings::OfKnee(parts.clone()),
            },
            knee: KneeSettings {
                policy: knee_policy,
                ttft: raw.knee.ttft.get(),
                calls: raw.knee.calls,
            },
            seeds: raw.seeds.iter().copied().map(u64::from).collect(),
            policies,
            baseline,
            staleness: maitred_sched::StalenessOptions {
                stale_after: raw.staleness.after.get(),
                policy: raw.staleness.policy.0,
                frozen_after: raw.staleness.frozen_after.get(),
            },
            waiting,
            calls: raw.calls,
            good_ttft: raw.objective.ttft.get(),
            good_per_token: raw.objective.per_token.get(),
        };
        (scenario, self.diagnostics)
    }

    /// Checks the groups; how many endpoints there are.
    fn fleet(&mut self, groups: &[raw::Group], engines: &[&str]) -> u64 {
        let top = Path::top("fleet");
        for (index, group) in groups.iter().enumerate() {
            let name = group.profile.as_str();
            if !engines.contains(&name) {
                let message = format!("there is no engine profile `{name}`");
                self.unknown(&top.index(index).key("profile"), message, name, engines);
            }
        }
        let endpoints: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
        if endpoints > ENDPOINTS_MAX {
            self.error(
                &top,
                format!("{endpoints} endpoints are too many"),
                format!("a fleet has at most {ENDPOINTS_MAX}"),
            );
        }
        endpoints
    }

    fn unknown(&mut self, path: &Path, message: String, name: &str, known: &[&str]) {
        let guess = near_miss(name, known.iter().copied()).map(|word| format!("did you mean `{word}`?\n"));
        let help = format!(
            "{}known: {}",
            guess.unwrap_or_default(),
            listed(known.iter().copied(), "and")
        );
        self.error(path, message, help);
    }

    /// Checks what goes wrong with which endpoint.
    fn disturbances(&mut self, raw: &raw::Scenario, endpoints: u64) {
        let frozen = Path::top("scrape").key("frozen");
        for (index, page) in raw.scrape.frozen.iter().enumerate() {
            self.endpoint(page.endpoint, endpoints, &frozen.index(index).key("endpoint"));
            if page.until <= page.from {
                self.error(
                    &frozen.index(index).key("until"),
                    "the page thaws before it freezes",
                    format!("write a time after {}", page.from),
                );
            }
        }
        for (index, restart) in raw.restarts.iter().enumerate() {
            let path = Path::top("restarts").index(index).key("endpoint");
            self.endpoint(restart.endpoint, endpoints, &path);
        }
    }

    fn endpoint(&mut self, endpoint: u32, endpoints: u64, path: &Path) {
        if u64::from(endpoint) >= endpoints {
            let last = endpoints.saturating_sub(1);
            self.error(
                path,
                format!("there is no endpoint {endpoint}"),
                format!("the fleet has the endpoints 0 to {last}"),
            );
        }
    }

    fn loads(&mut self, load: &raw::Load) {
        let (path, loads, most) = match load {
            raw::Load::PerSecond(rates) => ("per_second", rates, 1e9),
            raw::Load::OfKnee(parts) => ("of_knee", parts, 100.0),
        };
        for (index, load) in loads.iter().enumerate() {
            if !(*load > 0.0 && *load <= most) {
                self.error(
                    &Path::top("load").key(path).index(index),
                    format!("{load} is no load"),
                    format!("write a number above 0 and up to {most}"),
                );
            }
        }
    }

    fn policies(&mut self, raw: &raw::Scenario, profiles: &Profiles, rivals: &[&str]) -> Vec<PolicySettings> {
        let top = Path::top("policies");
        let names = raw.policies.iter().enumerate();
        self.unique("policy", names.map(|(index, name)| (name.as_str(), top.index(index))));
        let named = raw.policies.iter().enumerate();
        named
            .map(|(index, name)| self.policy(name.as_str(), &top.index(index), profiles, rivals))
            .collect()
    }

    fn policy(&mut self, name: &str, path: &Path, profiles: &Profiles, rivals: &[&str]) -> PolicySettings {
        let known = profiles.names();
        let profile = (known.contains(&name)).then(|| profiles.get(name));
        if profile.is_none() && !rivals.contains(&name) {
            let all: Vec<&str> = known.into_iter().chain(rivals.iter().copied()).collect();
            self.unknown(path, format!("there is no policy `{name}`"), name, &all);
        }
        PolicySettings {
            name: name.to_owned(),
            profile,
        }
    }

    fn baseline(&mut self, raw: &raw::Scenario) -> String {
        let names: Vec<&str> = raw.policies.iter().map(crate::forms::Name::as_str).collect();
        let first = names.first().copied().unwrap_or_default();
        let baseline = raw.baseline.as_ref().map_or(first, |name| name.as_str());
        if !names.contains(&baseline) {
            let message = format!("`{baseline}` is not among the policies");
            self.unknown(&Path::top("baseline"), message, baseline, &names);
        }
        baseline.to_owned()
    }

    /// Calls ask for adapters that every endpoint knows.
    fn asked_adapters(&mut self, raw: &raw::Scenario) {
        let raw::Workload::Kinds(kinds) = &raw.workload else {
            return;
        };
        let known = raw
            .fleet
            .iter()
            .map(|group| group.adapters.map_or(0, |adapters| adapters.known));
        let known = known.min().unwrap_or(0);
        for (index, kind) in kinds.iter().enumerate() {
            if kind.adapters.is_some_and(|adapters| adapters.count > known) {
                self.error(
                    &Path::top("workload").key("kinds").index(index).key("adapters"),
                    format!("an endpoint of the fleet knows {known} adapters only"),
                    "give every group of `fleet` as many `adapters`",
                );
            }
        }
    }

    fn shape(&mut self, raw: &raw::Scenario) -> LoadShape {
        let top = Path::top("shape");
        let is_trace = matches!(raw.workload, raw::Workload::Trace(_));
        let any = raw.shape.bursts.is_some() || raw.shape.waves.is_some();
        if is_trace && any {
            self.error(&top, "a trace has a shape of its own", "remove `shape`");
        }
        match (raw.shape.bursts, raw.shape.waves) {
            (Some(_), Some(_)) => {
                self.error(&top, "both bursts and waves are given", "keep one of them");
                LoadShape::Steady
            }
            (Some(bursts), None) => {
                let path = top.key("bursts");
                self.positive(bursts.every, &path.key("every"));
                if bursts.length >= bursts.every {
                    let help = format!("write less than {}", bursts.every);
                    self.error(&path.key("length"), "a burst is as long as the time between two", help);
                }
                LoadShape::Bursts {
                    every: bursts.every.get(),
                    length: bursts.length.get(),
                    factor: bursts.factor,
                }
            }
            (None, Some(waves)) => {
                self.positive(waves.period, &top.key("waves").key("period"));
                LoadShape::Waves {
                    period: waves.period.get(),
                    depth: waves.depth.fraction(),
                }
            }
            (None, None) => LoadShape::Steady,
        }
    }
}

fn group(group: &raw::Group) -> FleetGroup {
    let adapters = |adapters: raw::Adapters| (adapters.known, adapters.resident, adapters.load_time.get());
    FleetGroup {
        profile: group.profile.as_str().to_owned(),
        count: group.count,
        speed: group.speed,
        blocks: group.blocks,
        adapters: group.adapters.map(adapters),
    }
}

fn scrape(scrape: &raw::Scrape) -> PageReadings {
    let frozen = scrape.frozen.iter();
    PageReadings {
        period: scrape.period.get(),
        age: scrape.age.get(),
        noise: scrape.noise.fraction(),
        frozen: frozen
            .map(|page| (page.endpoint, page.from.get(), page.until.get()))
            .collect(),
    }
}

fn workload(workload: &raw::Workload) -> WorkloadSettings {
    match workload {
        raw::Workload::Trace(trace) => WorkloadSettings::Trace(TraceSettings {
            file: trace.file.as_str().to_owned(),
            format: trace.format,
            jitter: trace.jitter.get(),
            lateness: trace.lateness.get(),
            longest_answer: (trace.longest_answer > 0).then_some(trace.longest_answer),
        }),
        raw::Workload::Kinds(kinds) => WorkloadSettings::Kinds(kinds.iter().map(kind).collect()),
    }
}

fn kind(kind: &raw::Kind) -> KindSettings {
    let shared = |shared: raw::Shared| SharedSettings {
        texts: spread(shared.texts),
        tokens: length(shared.tokens),
        share: shared.share.fraction(),
    };
    let turns = |turns: raw::Turns| TurnSettings {
        mean: turns.mean,
        max: turns.max,
        added: length(turns.added),
        pause: turns.pause.get(),
        per_token: turns.per_token.get(),
    };
    KindSettings {
        weight: kind.weight,
        shared: kind.shared.map(shared),
        prompt: length(kind.prompt),
        answer: length(kind.answer),
        turns: kind.turns.map(turns),
        sessions: kind.sessions,
        adapters: kind.adapters.map(spread),
        tenants: spread(kind.tenants),
        first_tenant: kind.first_tenant,
        class: kind.class,
        answer_limit: kind.answer_limit,
    }
}

fn length(length: raw::Length) -> LengthSettings {
    LengthSettings {
        mean: length.mean,
        variation: length.variation,
        max: length.max.unwrap_or_else(|| length.mean.saturating_mul(8)),
    }
}

const fn spread(spread: raw::Spread) -> SpreadSettings {
    SpreadSettings {
        count: spread.count,
        skew: spread.skew,
    }
}

/// Nothing is read from outside in a scenario.
pub(crate) fn no_secrets(_: &crate::raw::SecretRef) -> Result<String, String> {
    Err("a scenario has no secrets".to_owned())
}
