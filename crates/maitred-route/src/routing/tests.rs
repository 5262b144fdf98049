use maitred_types::{DegradeKind, PoolName, TokenCount};

use super::*;
use crate::choice::Sticky;
use crate::facts::{Says, Shape};
use crate::rule::Rule;
use crate::target::Carries;

fn offer(model: &str, family: &str) -> Offer {
    Offer {
        pool: PoolName::from("p"),
        model: ModelName::from(model),
        family: family.into(),
        quantization: None,
        provider: None,
        quality: None,
        carries: Carries::default(),
    }
}

/// Three targets: 0 and 1 are the same model, 2 is a small one with a window of 1,000 tokens and no tools.
fn offers() -> Vec<Offer> {
    let small = Offer {
        quality: Some(1),
        carries: Carries {
            context: Some(TokenCount::new(1_000)),
            tools: false,
            ..Carries::default()
        },
        ..offer("small", "small")
    };
    let big = |name| Offer {
        quality: Some(2),
        ..offer(name, "big")
    };
    vec![big("big"), big("big-2"), small]
}

fn share(target: u16, weight: u32) -> Share {
    Share {
        target: TargetId(target),
        weight,
        within: None,
    }
}

fn choice(choose: Choose, targets: &[(u16, u32)]) -> Choice {
    Choice {
        targets: targets.iter().map(|(target, weight)| share(*target, *weight)).collect(),
        choose,
        ..Choice::default()
    }
}

fn on(reasons: &[DegradeReason], target: u16) -> Fallback {
    Fallback {
        on: DegradeReasons::of(reasons),
        target: TargetId(target),
        within: None,
    }
}

fn route(otherwise: Choice, fallback: Vec<Fallback>) -> Route {
    Route {
        model: ModelName::from("assistant"),
        rules: Vec::new(),
        otherwise,
        fallback,
    }
}

fn routing(route: Route) -> Routing {
    Routing::new(offers(), vec![route], TaskTypes::default())
}

/// The targets of a call, each with what an answer from there is called.
fn hops(routing: &Routing, model: &str, facts: &Facts<'_>) -> Vec<(u16, Option<DegradeKind>)> {
    let planned = routing.plan(model, facts).unwrap();
    let hops = planned.plan.hops.iter();
    hops.map(|hop| (hop.target.0, hop.degrades)).collect()
}

const MODEL: Option<DegradeKind> = Some(DegradeKind::Model);

#[test]
fn a_pools_model_is_a_route_by_itself() {
    let routing = routing(route(choice(Choose::Order, &[(0, 1)]), Vec::new()));
    assert_eq!(hops(&routing, "small", &Facts::default()), [(2, None)]);
    assert_eq!(routing.plan("none", &Facts::default()), Err(NoRoute::Unknown));
    let names: Vec<_> = routing.names().map(ModelName::as_str).collect();
    assert_eq!(names, ["big", "big-2", "small", "assistant"]);
    let nobody = Facts {
        may_use: &|_| false,
        ..Facts::default()
    };
    for model in ["small", "assistant"] {
        assert_eq!(routing.plan(model, &nobody), Err(NoRoute::NotAllowed));
    }
}

#[test]
fn targets_in_order_come_before_fallbacks() {
    let targets = choice(Choose::Order, &[(1, 1), (0, 1)]);
    let routing = routing(route(targets, vec![on(&[DegradeReason::Quota], 2)]));
    assert_eq!(
        hops(&routing, "assistant", &Facts::default()),
        [(1, None), (0, None), (2, MODEL)]
    );
    let refuses = Facts {
        degrade: Degrade::Refused,
        ..Facts::default()
    };
    assert_eq!(hops(&routing, "assistant", &refuses), [(1, None), (0, None)]);
    // Who may use the route may not therefore use what it falls back to.
    let limited = Facts {
        may_use: &|model| model == "assistant",
        ..Facts::default()
    };
    let planned = routing.plan("assistant", &limited).unwrap();
    assert_eq!(planned.plan.hops.len(), 2);
    assert_eq!(planned.evidence.skipped.as_slice(), [(TargetId(2), Unfit::NotGranted)]);
}

#[test]
fn weights_are_kept_and_the_same_model_stands_in() {
    let targets = choice(Choose::Weight, &[(0, 1), (1, 0), (2, 3)]);
    let routing = routing(route(targets, vec![on(&[DegradeReason::Quota], 1)]));
    let mut random = fastrand::Rng::with_seed(1);
    let mut firsts = [0; 3];
    for _ in 0..8_000 {
        let facts = Facts {
            draw: random.u64(..),
            ..Facts::default()
        };
        let hops = hops(&routing, "assistant", &facts);
        firsts[usize::from(hops[0].0)] += 1;
        assert_eq!(hops[1..], [(1, (hops[0].0 == 2).then_some(DegradeKind::Model))]);
    }
    assert_eq!(firsts[1], 0);
    assert!((1_900..2_100).contains(&firsts[0]), "{firsts:?}");
}

#[test]
fn sticky_weights_depend_on_the_session_or_user_alone() {
    let with = |sticky| Choice {
        sticky,
        ..choice(Choose::Weight, &[(0, 1), (2, 1)])
    };
    let first = |sticky, facts: &Facts<'_>| {
        let routing = routing(route(with(sticky), Vec::new()));
        hops(&routing, "assistant", facts)[0].0
    };
    let mut random = fastrand::Rng::with_seed(2);
    let (mut both, mut changes) = ([0; 2], 0);
    for number in 0..400_u64 {
        let user = format!("user-{number}");
        let facts = |draw, session| Facts {
            user: Some(&user),
            session,
            draw,
            ..Facts::default()
        };
        let mut draw = || random.u64(..);
        let of_user = first(Sticky::User, &facts(draw(), None));
        assert_eq!(of_user, first(Sticky::User, &facts(draw(), Some(draw()))));
        assert_eq!(of_user, first(Sticky::Session, &facts(draw(), None)));
        let of_session = first(Sticky::Session, &facts(draw(), Some(number)));
        assert_eq!(of_session, first(Sticky::Session, &facts(draw(), Some(number))));
        changes += usize::from(first(Sticky::Nothing, &facts(draw(), None)) != of_user);
        both[usize::from(of_user == 2)] += 1;
    }
    assert!(both.iter().all(|count| (150..250).contains(count)), "{both:?}");
    assert!((150..250).contains(&changes), "{changes}");
}

#[test]
fn the_cheapest_that_is_good_enough_is_first() {
    let costs = |target: TargetId| [Some(30), None, Some(1)][usize::from(target.0)];
    let facts = Facts {
        cost: &costs,
        ..Facts::default()
    };
    let with = |quality| {
        let targets = Choice {
            quality,
            ..choice(Choose::Cost, &[(1, 1), (0, 1), (2, 1)])
        };
        routing(route(targets, Vec::new()))
    };
    assert_eq!(
        hops(&with(None), "assistant", &facts),
        [(2, None), (0, MODEL), (1, MODEL)]
    );
    assert_eq!(hops(&with(Some(2)), "assistant", &facts), [(0, None), (1, None)]);
    // What cannot carry the call is no choice, so an answer from the next is what was asked for.
    let tools = Facts {
        shape: Shape {
            tools: true,
            ..Shape::default()
        },
        ..facts
    };
    assert_eq!(hops(&with(None), "assistant", &tools), [(0, None), (1, None)]);
}

/// What the header `x-team` says.
#[derive(Clone, Copy)]
struct Team(&'static str);

impl Says for Team {
    fn header(&self, name: &str) -> Option<&str> {
        ["x-team", "x-task"].contains(&name).then_some(self.0)
    }

    fn claim(&self, _: &str) -> &[Arc<str>] {
        &[]
    }
}

#[test]
fn the_first_rule_that_a_call_meets_is_for_it() {
    let rule = |name: &str, when: Vec<Condition>, target| Rule {
        name: name.into(),
        versions: Vec::new(),
        when,
        then: choice(Choose::Order, &[(target, 1)]),
    };
    let route = Route {
        rules: vec![
            rule("red", vec![Condition::Header("x-team".into(), vec!["red".into()])], 1),
            rule("code", vec![Condition::Task(vec!["code".into()])], 2),
            Rule {
                versions: vec!["2".into()],
                ..rule("second", Vec::new(), 2)
            },
        ],
        ..route(choice(Choose::Order, &[(0, 1)]), Vec::new())
    };
    let tasks = TaskTypes {
        header: "x-task".into(),
        types: vec![TaskType {
            name: "code".into(),
            when: vec![Condition::Tools(true), Condition::Stream(true)],
        }],
    };
    let routing = Routing::new(offers(), vec![route], tasks);
    let check = |model: &str, facts: &Facts<'_>, expected: (u16, Option<&str>, &[(&str, &str)])| {
        let Planned { plan, evidence, .. } = routing.plan(model, facts).unwrap();
        let missed: Vec<(&str, &str)> = evidence.missed.iter().map(|(rule, why)| (&**rule, *why)).collect();
        let found = (plan.hops[0].target.0, evidence.rule.as_deref(), &*missed);
        assert_eq!(found, expected, "{model} {facts:?}");
    };
    let plain = Facts::default();
    let none: &[_] = &[("red", "headers"), ("code", "task"), ("second", "version")];
    check("assistant", &plain, (0, None, none));
    let red = Team("red");
    check("assistant", &Facts { says: &red, ..plain }, (1, Some("red"), &[]));
    let blue = Team("blue");
    check("assistant", &Facts { says: &blue, ..plain }, (0, None, none));
    let named = Facts {
        says: &Team("code"),
        ..plain
    };
    check("assistant", &named, (2, Some("code"), &[("red", "headers")]));
    let by_shape = |stream| Facts {
        shape: Shape {
            tools: true,
            stream,
            ..Shape::default()
        },
        ..plain
    };
    // A target that takes no tools stands for the error if there is no other.
    check("assistant", &by_shape(true), (2, Some("code"), &[("red", "headers")]));
    check("assistant", &by_shape(false), (0, None, none));
    let versions: &[_] = &[("red", "version"), ("code", "version")];
    check(
        "assistant@2",
        &Facts { says: &red, ..plain },
        (2, Some("second"), versions),
    );
    assert_eq!(routing.plan("assistant@3", &plain), Err(NoRoute::Version));
    assert_eq!(routing.plan("other@2", &plain), Err(NoRoute::Unknown));
}

#[test]
fn what_cannot_carry_a_call_is_passed_over() {
    let context = &[DegradeReason::ContextLength];
    let small_first = |fallback| routing(route(choice(Choose::Order, &[(2, 1)]), vec![fallback]));
    let check = |routing: &Routing, facts: &Facts<'_>, expected: &[(u16, Option<DegradeKind>)], entry| {
        let planned = routing.plan("assistant", facts).unwrap();
        assert_eq!(hops(routing, "assistant", facts), expected, "{facts:?}");
        assert_eq!(planned.evidence.entry, entry, "{facts:?}");
    };
    let long = |input, output| Facts {
        input: TokenCount::new(input),
        output: Some(TokenCount::new(output)),
        ..Facts::default()
    };
    let both = &[(2, None), (0, MODEL)];
    check(&small_first(on(context, 0)), &long(900, 100), both, None);
    // What was asked for is not passed over because of an estimate that may be half too much.
    check(&small_first(on(context, 0)), &long(1_500, 0), both, None);
    check(
        &small_first(on(context, 0)),
        &long(1_503, 0),
        &[(0, MODEL)],
        Some(DegradeReason::ContextLength),
    );
    check(
        &small_first(on(context, 0)),
        &long(600, 601),
        &[(0, MODEL)],
        Some(DegradeReason::ContextLength),
    );
    // Nobody is there for that: what was asked for says the error.
    check(
        &small_first(on(&[DegradeReason::Quota], 0)),
        &long(9_000, 0),
        &[(2, None)],
        None,
    );
    let tools = Facts {
        shape: Shape {
            tools: true,
            ..Shape::default()
        },
        ..Facts::default()
    };
    check(&small_first(on(context, 0)), &tools, &[(2, None)], None);
    let unavailable = DegradeReason::Unavailable;
    check(
        &small_first(on(&[unavailable], 0)),
        &tools,
        &[(0, MODEL)],
        Some(unavailable),
    );
    let refused = Facts {
        degrade: Degrade::Refused,
        ..tools
    };
    check(&small_first(on(&[unavailable], 0)), &refused, &[(2, None)], None);
    // A fallback has to fit as it is estimated.
    let big_first = routing(route(choice(Choose::Order, &[(0, 1)]), vec![on(context, 2)]));
    check(&big_first, &long(1_000, 0), &[(0, None), (2, MODEL)], None);
    check(&big_first, &long(1_001, 0), &[(0, None)], None);
}

#[test]
fn places_that_degrade_are_found() {
    let find = |route: Route| routing(route.clone()).degrading(&route);
    let alike = choice(Choose::Order, &[(0, 1), (1, 1)]);
    assert_eq!(find(route(alike.clone(), vec![])), None);
    assert_eq!(find(route(choice(Choose::Weight, &[(0, 1), (2, 1)]), vec![])), None);
    assert_eq!(
        find(route(choice(Choose::Order, &[(0, 1), (1, 1), (2, 1)]), vec![])),
        Some(Place::Target { rule: None, target: 2 })
    );
    let fallbacks = vec![on(&[DegradeReason::Quota], 1), on(&[DegradeReason::Quota], 2)];
    assert_eq!(find(route(alike, fallbacks)), Some(Place::Fallback(1)));
}
