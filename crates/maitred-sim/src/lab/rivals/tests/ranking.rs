//! All policies over the same traffic on real engine models: what every published comparison agrees on must be seen here too.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;
use maitred_types::{PromptChain, Time, TokenCount};

use super::super::{RIVALS, rival};
use crate::lab::report::{Report, Run, Subject};
use crate::lab::statistics::{Objective, Tally};
use crate::lab::{EndpointPlan, LabCall, RunPlan, run};
use crate::profile::EngineProfile;

const BLOCK: u32 = 256;
const ENDPOINTS: usize = 4;
const SEED: u64 = 11;

/// Forty conversations that grow by some blocks with each turn, all of which begin with the same block; a busy fleet.
fn conversations() -> Vec<LabCall> {
    let mut random = Rng::with_seed(SEED);
    let mut chains: Vec<Vec<u64>> = (0..40_u64).map(|_| vec![1]).collect();
    let mut at = 0.0;
    (0..400)
        .map(|_| {
            at -= random.f64().ln() / 11.0;
            let chain = &mut chains[random.usize(..40)];
            for _ in 0..random.usize(4..16) {
                chain.push(random.u64(..) | 1);
            }
            let input = u32::try_from(chain.len()).unwrap() * BLOCK + random.u32(1..BLOCK);
            let prompt = PromptChain::new(chain.clone(), BLOCK as f32);
            let mut call = LabCall::of_chain(prompt, TokenCount::new(input), TokenCount::new(random.u32(10..200)));
            call.arrived = Time::ZERO + Duration::from_secs_f64(at);
            if input > 30_000 {
                chain.truncate(1);
            }
            call
        })
        .collect()
}

fn report() -> Report {
    let objective = Objective {
        ttft: Duration::from_secs(2),
        tpot: Duration::from_millis(50),
    };
    let endpoint = EndpointPlan::new(EngineProfile::ALL[0], NonZeroU32::new(BLOCK).unwrap());
    let plan = RunPlan::new(vec![endpoint; ENDPOINTS], SEED);
    let calls = conversations();
    let runs: Vec<Run> = RIVALS
        .iter()
        .map(|name| {
            let routers = vec![rival(name, &plan.facts(), SEED).unwrap()];
            let mut tally = Tally::new(ENDPOINTS, objective);
            let arriving = calls.iter().cloned().map(Ok::<_, Infallible>);
            let summary = run(&plan, routers, arriving, &mut tally).unwrap();
            Run {
                load: 1.0,
                summary,
                tally,
            }
        })
        .collect();
    let subject = Subject {
        scenario: "conversations".to_owned(),
        description: String::new(),
        endpoints: ENDPOINTS,
        objective,
        load: 1.0,
        baseline: None,
        pooled_hit_rate: None,
    };
    Report::new(&subject, &runs)
}

#[test]
fn known_orders_are_seen_and_repeat_byte_for_byte() {
    let report = report();
    let of = |name: &str| report.policies.iter().find(|policy| policy.policy == name).unwrap();
    let (ttft, hits) = (|name| of(name).ttft_seconds.mean, |name| of(name).hit_rate.mean);
    let table = report.table();
    for policy in &report.policies {
        assert_eq!(policy.ends.answered, 400, "{table}");
    }
    // Who knows of caches hits more than who does not; who sees loads waits less than who goes by chance.
    for blind in ["round_robin", "random", "least_request", "power_of_two"] {
        for aware in [
            "chwbl",
            "smg_cache_aware",
            "dynamo_linear",
            "llmd_sticky",
            "lmetric_product",
            "preble",
        ] {
            assert!(hits(aware) > hits(blind) + 0.1, "{aware} against {blind}\n{table}");
        }
    }
    for balancing in ["least_request", "power_of_two"] {
        assert!(ttft(balancing) < 0.9 * ttft("random"), "{balancing}\n{table}");
    }
    // Nobody is better than perfect knowledge, but for luck.
    for name in RIVALS {
        assert!(ttft("oracle") <= ttft(name) * 1.02, "{name}\n{table}");
    }
    assert_eq!(report.to_json().unwrap(), self::report().to_json().unwrap());
}
