//! The laboratory against the real thing: the same traffic to the same fleet, once in virtual time and once through the real
//! gateway to real processes.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;

use maitred_sched::{PoolOptions, Profile};
use maitred_sim::lab::{CallRecord, EndpointPlan, LabCall, PoolRouter, RunPlan, run};
use maitred_sim::{EngineProfile, Prompt};
use maitred_test::load::{Ending, Load};
use maitred_types::{Time, TokenCount};

use crate::table::{CHAT, Config, Engine, Gateway, MODEL};

const PROFILE: &str = "l40s-8b";
const ENDPOINTS: usize = 6;
/// Calls per second of the endpoints' time: some two thirds of what the fleet can do.
const RATE: f64 = 24.0;
/// How long calls come, in the endpoints' time.
const LENGTH: Duration = Duration::from_secs(10);
/// How much slower than the clock on the wall the endpoints' time runs, so that what the machine itself takes counts for little.
const SLOWER: f64 = 3.0;
const CLIENTS: usize = 8;
/// How long a client takes to come, which is to call once, and the gateway to learn from it.
const COMING: Duration = Duration::from_millis(200);
/// Words of a prompt, each of them some tokens.
const WORDS: usize = 1_200;
/// Tokens of an answer.
const OUTPUT: u32 = 40;
const BLOCK: u32 = 16;

/// A call. Its prompt shares nothing with that of another; the first ones, with which the clients come, are short.
fn body(number: usize) -> String {
    let mut prompt = String::new();
    let (words, tokens) = if number < CLIENTS { (1, 1) } else { (WORDS, OUTPUT) };
    for word in 0..words {
        write!(prompt, "{:03} ", (number * 7 + word * 13) % 1000).unwrap();
    }
    format!(
        r#"{{"model":"{MODEL}","stream":true,"max_tokens":{tokens},"ignore_eos":true,"messages":[{{"role":"user","content":"{number} {prompt}"}}]}}"#
    )
}

/// How many tokens the prompt of an ordinary call has.
async fn prompt_tokens(engine: &Engine) -> u32 {
    let answer = maitred_test::Request::post("/tokenize", body(CLIENTS + 1))
        .send(engine.address)
        .await;
    let count = answer.json()["count"].as_u64().expect("a count of tokens");
    u32::try_from(count).unwrap()
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// Mean time to first output in the laboratory, whose endpoints are as slow as the real ones: what the gateway takes from the clock,
/// such as how fast it believes an endpoint to be before it has measured, does not run slower with them.
fn in_the_laboratory(load: &Load, tokens: u32) -> (usize, f64) {
    let profile = EngineProfile::find(PROFILE).unwrap();
    let mut endpoint = EndpointPlan::new(profile, NonZeroU32::new(BLOCK).unwrap());
    endpoint.speed = SLOWER.recip();
    endpoint.profile.front_delay = profile.front_delay.mul_f64(SLOWER);
    let mut plan = RunPlan::new(vec![endpoint; ENDPOINTS], 1);
    plan.scrape.period = Duration::from_millis(50);
    let moments = load.moments().map(|(offset, _)| offset);
    let due = moments.take_while(|offset| *offset < LENGTH.mul_f64(SLOWER));
    let come = |clients: usize| COMING * u32::try_from(clients).unwrap();
    let first = (0..CLIENTS).map(|number| (come(number), 1, 1));
    let coming = come(CLIENTS);
    let due = due.map(|offset| (coming + offset, tokens, OUTPUT));
    let calls = first.chain(due).enumerate().map(|(number, (due, tokens, output))| {
        let mut prompt = Prompt::of_passages(None);
        prompt.append(number as u64, tokens, BLOCK);
        let mut call = LabCall::new(&prompt, BLOCK, TokenCount::new(output));
        call.arrived = Time::ZERO + due;
        call.max_output = Some(call.output);
        Ok::<_, Infallible>(call)
    });
    let setup = (PoolOptions::default(), Profile::default());
    let router = Box::new(PoolRouter::new("pool", &plan.facts(), setup, 1));
    let mut times = Vec::new();
    let mut recorder = |record: &CallRecord| {
        let first = record.first_token.expect("every call is answered");
        if record.number >= CLIENTS as u64 {
            times.push(first.since(record.arrived).as_secs_f64() / SLOWER);
        }
    };
    run(&plan, vec![router], calls, &mut recorder).unwrap();
    (times.len(), mean(&times))
}

#[tokio::test]
async fn the_gateway_before_real_processes_is_as_fast_as_the_laboratory_says() {
    let scale = SLOWER.recip().to_string();
    let flags = ["--profile", PROFILE, "--time-scale", &scale];
    let engines = Engine::start_several(ENDPOINTS as u64, &flags).await;
    let tokens = prompt_tokens(&engines[0]).await;
    let gateway = Gateway::ready(&Config::engines(&engines)).await;
    let load = Load {
        address: gateway.address,
        key: gateway.key.clone(),
        path: CHAT,
        rate: RATE / SLOWER,
        weights: vec![1.0; CLIENTS],
        seed: 11,
    };
    let (expected_calls, expected) = in_the_laboratory(&load, tokens);
    let calls = load.run(LENGTH.mul_f64(SLOWER), body).await;
    let calls = &calls[CLIENTS..];
    assert!(calls.iter().all(|call| call.ending == Ending::Clean));
    let times: Vec<f64> = calls
        .iter()
        .filter_map(|call| Some(call.first_output?.as_secs_f64() / SLOWER))
        .collect();
    let seen = mean(&times);
    println!(
        "prompts of {tokens} tokens; mean time to first output of {} calls {seen:.3} s, in the laboratory of {expected_calls} calls {expected:.3} s: {:+.1} %",
        times.len(),
        (seen / expected - 1.0) * 100.0
    );
    assert!(
        times.len().abs_diff(expected_calls) <= 2,
        "{} and {expected_calls}",
        times.len()
    );
    assert!(
        (seen / expected - 1.0).abs() <= 0.15,
        "{seen} s, in the laboratory {expected} s"
    );
}
