use maitred_types::{DegradeKind, PoolName};

use super::*;
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

fn share(target: u16, weight: u32) -> Share {
    Share {
        target: TargetId(target),
        weight,
        within: None,
    }
}

fn routing(choice: Choice) -> Routing {
    let offers = vec![offer("big", "big"), offer("big-2", "big"), offer("small", "small")];
    let route = Route {
        model: ModelName::from("assistant"),
        otherwise: choice,
        fallback: vec![Fallback {
            on: DegradeReasons::of(&[DegradeReason::Quota]),
            target: TargetId(2),
            within: None,
        }],
    };
    Routing::new(offers, vec![route])
}

fn hops(routing: &Routing, model: &str, draw: u64) -> Vec<(u16, Option<DegradeKind>)> {
    let facts = Facts {
        draw,
        ..Facts::default()
    };
    let planned = routing.plan(model, &facts).unwrap();
    let hops = planned.plan.hops.iter();
    hops.map(|hop| (hop.target.0, hop.degrades)).collect()
}

#[test]
fn a_pools_model_is_a_route_by_itself() {
    let routing = routing(Choice {
        targets: vec![share(0, 1)],
        choose: Choose::Order,
    });
    assert_eq!(hops(&routing, "small", 0), [(2, None)]);
    assert_eq!(routing.plan("none", &Facts::default()), Err(NoRoute::Unknown));
    let names: Vec<_> = routing.names().map(ModelName::as_str).collect();
    assert_eq!(names, ["big", "big-2", "small", "assistant"]);
}

#[test]
fn targets_in_order_come_before_fallbacks() {
    let routing = routing(Choice {
        targets: vec![share(1, 1), share(0, 1)],
        choose: Choose::Order,
    });
    assert_eq!(
        hops(&routing, "assistant", 0),
        [(1, None), (0, None), (2, Some(DegradeKind::Model))]
    );
}

#[test]
fn weights_are_kept_and_the_same_model_stands_in() {
    let routing = routing(Choice {
        targets: vec![share(0, 1), share(1, 0), share(2, 3)],
        choose: Choose::Weight,
    });
    let mut random = fastrand::Rng::with_seed(1);
    let mut firsts = [0; 3];
    for _ in 0..8_000 {
        let hops = hops(&routing, "assistant", random.u64(..));
        firsts[usize::from(hops[0].0)] += 1;
        if hops[0].0 == 0 {
            assert_eq!(hops[1], (1, None));
        }
    }
    assert_eq!(firsts[1], 0);
    assert!((1_900..2_100).contains(&firsts[0]), "{firsts:?}");
}
