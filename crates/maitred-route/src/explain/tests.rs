use std::time::Duration;

use maitred_types::{DegradeReasons, ModelName, PoolName, TokenCount};

use super::*;
use crate::choice::Share;
use crate::condition::Condition;
use crate::facts::Shape;
use crate::routing::{Fallback, TaskType, TaskTypes};
use crate::target::{Carries, Offer};

fn offer(model: &str, context: u32) -> Offer {
    Offer {
        pool: PoolName::from("p"),
        model: ModelName::from(model),
        family: model.into(),
        quantization: None,
        provider: None,
        quality: None,
        carries: Carries {
            context: Some(TokenCount::new(context)),
            ..Carries::default()
        },
    }
}

fn choice(choose: Choose, targets: &[u16]) -> Choice {
    let share = |target: &u16| Share {
        target: TargetId(*target),
        weight: 1,
        within: None,
    };
    Choice {
        targets: targets.iter().map(share).collect(),
        choose,
        ..Choice::default()
    }
}

fn routing() -> Routing {
    let rule = |name: &str, versions: &[&str], when: Vec<Condition>, then: Choice| Rule {
        name: name.into(),
        versions: versions.iter().map(|version| (*version).into()).collect(),
        when,
        then,
    };
    let long = Condition::InputTokens {
        at_least: TokenCount::new(8_000),
        below: None,
    };
    let route = Route {
        model: ModelName::from("assistant"),
        rules: vec![
            rule("long", &[], vec![long], choice(Choose::Order, &[0])),
            rule("next", &["2", "3"], vec![], choice(Choose::Weight, &[0, 1])),
            rule(
                "code",
                &[],
                vec![Condition::Task(vec!["code".into()])],
                choice(Choose::Cost, &[0, 1]),
            ),
        ],
        otherwise: choice(Choose::Order, &[1]),
        fallback: vec![Fallback {
            on: DegradeReasons::of(&[DegradeReason::ContextLength, DegradeReason::Quota]),
            target: TargetId(0),
            within: Some(Duration::from_secs(20)),
        }],
    };
    let tasks = TaskTypes {
        header: "x-task".into(),
        types: vec![TaskType {
            name: "code".into(),
            when: vec![Condition::Tools(true)],
        }],
    };
    Routing::new(vec![offer("big", 100_000), offer("small", 1_000)], vec![route], tasks)
}

#[track_caller]
fn check(model: &str, facts: &Facts<'_>, expected: &[&str]) {
    let told = routing().explain(model, facts).unwrap().to_string();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_call_is_told_what_would_happen_to_it() {
    let plain = Facts::default();
    check("small", &plain, &["A call for `small`:", "  1. p/small"]);
    let none = "  No rule is for it, so it goes to the targets of the route.";
    let others = [
        "  The rule `next` is not for it: it wants version: `2` or `3`; the call has none.",
        "  The rule `code` is not for it: it wants task: `code`; the call has none.",
    ];
    check(
        "assistant",
        &plain,
        &[
            "A call for `assistant`:",
            "  The rule `long` is not for it: it wants input_tokens of at least 8000; the call has about 0.",
            others[0],
            others[1],
            none,
            "  1. p/small",
            "  2. p/big: after quota, context-length; for at most 20000 ms; marked `x-degraded: model`",
        ],
    );
    let middle = Facts {
        input: TokenCount::new(5_000),
        ..plain
    };
    check(
        "assistant",
        &middle,
        &[
            "A call for `assistant`:",
            "  The rule `long` is not for it: it wants input_tokens of at least 8000; the call has about 5000.",
            others[0],
            others[1],
            none,
            "  1. p/big: at once, for context-length, since nothing that was asked for can carry the call; for at most 20000 ms; marked \
             `x-degraded: model`",
            "  Left out: p/small has too small a context window for the call.",
        ],
    );
}

#[test]
fn it_is_told_how_its_target_is_chosen() {
    let costs = |target: TargetId| (target.0 == 1).then_some(1_500_000);
    let tools = Facts {
        shape: Shape {
            tools: true,
            ..Shape::default()
        },
        cost: &costs,
        ..Facts::default()
    };
    let code = routing().explain("assistant", &tools).unwrap();
    assert_eq!(code.task.as_deref(), Some("code"));
    assert_eq!(
        code.choice.as_deref(),
        Some("by what the call is expected to cost (p/big without a price, p/small 0.0015)")
    );
    assert_eq!(code.hops[0].model, "small");
    let weights = routing().explain("assistant@3", &Facts::default()).unwrap();
    assert_eq!(weights.version.as_deref(), Some("3"));
    assert_eq!(
        weights.choice.as_deref(),
        Some("by weight (p/big 1, p/small 1); each call is drawn for itself")
    );
    assert_eq!(
        routing().explain("assistant@4", &Facts::default()),
        Err(NoRoute::Version)
    );
    assert_eq!(routing().explain("nobody", &Facts::default()), Err(NoRoute::Unknown));
}
