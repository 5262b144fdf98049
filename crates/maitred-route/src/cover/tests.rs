use maitred_types::{ModelName, UnixMillis};

use super::*;
use crate::choice::Choice;
use crate::facts::{Facts, Says, Shape};
use crate::hours::{Days, Hours, Offset, Schedule};

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn tokens(at_least: u32, below: u32) -> Condition {
    Condition::InputTokens {
        at_least: TokenCount::new(at_least),
        below: (below > 0).then(|| TokenCount::new(below)),
    }
}

fn hours(from: u16, until: u16) -> Condition {
    Condition::Time(Schedule {
        hours: Hours::new(from, until),
        days: Days::ALL,
        offset: Offset::default(),
    })
}

fn route(rules: Vec<Vec<Condition>>) -> Route {
    let rules = rules.into_iter().enumerate().map(|(place, when)| Rule {
        name: place.to_string().into(),
        versions: Vec::new(),
        when,
        then: Choice::default(),
    });
    Route {
        model: ModelName::from("m"),
        rules: rules.collect(),
        otherwise: Choice::default(),
        fallback: Vec::new(),
    }
}

/// What is out of reach of rules with these conditions, with who takes it; the targets without a rule are numbered after the rules.
#[track_caller]
fn check(rules: Vec<Vec<Condition>>, expected: &[(usize, &[usize])]) {
    let route = route(rules);
    let found = route.out_of_reach();
    let found: Vec<(usize, &[usize])> = found
        .iter()
        .map(|found| (found.rule.unwrap_or(route.rules.len()), &*found.taken_by))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_narrower_rule_after_a_wider_one_is_out_of_reach() {
    let tenant = |tenants: &[&str]| Condition::Tenant(names(tenants));
    check(
        vec![vec![tenant(&["a", "b"])], vec![tenant(&["b"]), Condition::Tools(true)]],
        &[(1, &[0])],
    );
    check(vec![vec![tenant(&["a"])], vec![tenant(&["a", "b"])]], &[]);
    check(
        vec![vec![tenant(&["a"])], vec![tenant(&["b"])], vec![tenant(&["a", "b"])]],
        &[(2, &[0, 1])],
    );
    check(vec![vec![], vec![tenant(&["a"])]], &[(1, &[0]), (2, &[0])]);
    let header = |name: &str, value: &str| Condition::Header(name.into(), names(&[value]));
    check(
        vec![vec![header("x", "1")], vec![header("y", "1")], vec![header("x", "1")]],
        &[(2, &[0])],
    );
}

#[test]
fn several_rules_together_take_all() {
    check(
        vec![
            vec![Condition::Tools(true)],
            vec![Condition::Tools(false)],
            vec![hours(0, 60)],
        ],
        &[(2, &[0, 1]), (3, &[0, 1])],
    );
    check(vec![vec![tokens(0, 1_000)], vec![tokens(1_000, 0)]], &[(2, &[0, 1])]);
    check(
        vec![vec![tokens(0, 1_000)], vec![tokens(1_001, 0)], vec![tokens(999, 1_002)]],
        &[(3, &[0, 1, 2])],
    );
    check(vec![vec![hours(0, 720)], vec![hours(720, 1_440)]], &[(2, &[0, 1])]);
    check(
        vec![vec![hours(22 * 60, 6 * 60)], vec![hours(6 * 60, 22 * 60 - 1)]],
        &[],
    );
    // A call without tools that streams passes both.
    check(vec![vec![Condition::Tools(true)], vec![Condition::Stream(false)]], &[]);
}

#[test]
fn conditions_that_contradict_each_other_take_nothing() {
    check(vec![vec![Condition::Tools(true), Condition::Tools(false)]], &[(0, &[])]);
    check(vec![vec![tokens(10, 10)], vec![tokens(0, 0)]], &[(0, &[]), (2, &[1])]);
    let task = |task: &str| Condition::Task(names(&[task]));
    check(vec![vec![task("a"), task("b")]], &[(0, &[])]);
    // A user may be in two groups, and a call has one tenant.
    let group = |group: &str| Condition::Group(names(&[group]));
    check(
        vec![
            vec![group("a"), group("b")],
            vec![group("a")],
            vec![group("a"), group("c")],
        ],
        &[(2, &[1])],
    );
    check(vec![vec![hours(0, 60), hours(60, 120)]], &[(0, &[])]);
}

#[test]
fn versions_are_told_apart() {
    let mut route = route(vec![vec![], vec![], vec![]]);
    route.rules[0].versions = names(&["1", "2"]);
    route.rules[1].versions = names(&["2"]);
    let found = route.out_of_reach();
    assert_eq!(
        found,
        [
            OutOfReach {
                rule: Some(1),
                taken_by: vec![0]
            },
            OutOfReach {
                rule: None,
                taken_by: vec![2]
            },
        ]
    );
}

/// The one header and the one claim of a call.
struct Said(Option<&'static str>, Vec<Arc<str>>);

impl Says for Said {
    fn header(&self, _: &str) -> Option<&str> {
        self.0
    }

    fn claim(&self, _: &str) -> &[Arc<str>] {
        &self.1
    }
}

fn any_condition(random: &mut fastrand::Rng) -> Condition {
    let some = |random: &mut fastrand::Rng| {
        let all = ["a", "b", "c"];
        names(&all[..random.usize(1..=3)][random.usize(0..1)..])
    };
    match random.u8(..9) {
        0 => Condition::Tenant(some(random)),
        1 => Condition::Group(names(&[["a", "b", "c"][random.usize(..3)]])),
        2 => tokens(random.u32(..3), random.u32(..4)),
        3 => Condition::Tools(random.bool()),
        4 => Condition::Stream(random.bool()),
        5 => Condition::Header("h".into(), some(random)),
        6 => hours(random.u16(..3) * 480, 480 + random.u16(..2) * 480 + 1),
        7 => Condition::Task(names(&[["a", "b", "c"][random.usize(..3)]])),
        _ => Condition::Claim("c".into(), names(&[["a", "b"][random.usize(..2)]])),
    }
}

/// Rules of random conditions against calls of random facts: what is out of reach is never reached, and what is never reached by very
/// many calls is found to be out of reach.
#[test]
fn what_is_out_of_reach_is_what_no_call_reaches() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rules = (0..4).map(|_| (0..random.usize(0..3)).map(|_| any_condition(&mut random)).collect());
        let route = route(rules.collect());
        let mut reached = BTreeSet::new();
        let groups = [
            vec![],
            names(&["a"]),
            names(&["a", "b"]),
            names(&["c"]),
            names(&["b", "c"]),
        ];
        for _ in 0..4_000 {
            let claims = random.choice(&groups).unwrap().clone();
            let header = random
                .choice([None, Some("a"), Some("b"), Some("c"), Some("z")])
                .unwrap();
            let facts = Facts {
                tenant: random.choice(["a", "b", "c", "z"]).unwrap(),
                groups: random.choice(&groups).unwrap(),
                task: random.choice([None, Some("a"), Some("b"), Some("c")]).unwrap(),
                input: TokenCount::new(random.u32(..5)),
                shape: Shape {
                    tools: random.bool(),
                    stream: random.bool(),
                    ..Shape::default()
                },
                now: UnixMillis::new(random.choice([0, 479, 480, 481, 960, 961, 1_439]).unwrap() * 60_000),
                says: &Said(header, claims),
                ..Facts::default()
            };
            let first = route.rules.iter().position(|rule| rule.misses(None, &facts).is_none());
            reached.insert(first);
        }
        let found: Vec<Option<usize>> = route.out_of_reach().into_iter().map(|found| found.rule).collect();
        for rule in (0..route.rules.len()).map(Some).chain([None]) {
            assert_eq!(
                found.contains(&rule),
                !reached.contains(&rule),
                "seed {seed}, {rule:?} of {route:#?}"
            );
        }
    }
}

/// As many rules as a route may have, each with a part of the day: a check must not take long for anything that a file can say.
#[test]
fn the_longest_route_is_looked_through() {
    let rules = (0..256_u16).map(|place| {
        let from = place * 5;
        vec![
            hours(from, from + 7),
            tokens(u32::from(place), 0),
            Condition::Tools(place % 2 == 0),
        ]
    });
    let route = route(rules.collect());
    assert_eq!(route.out_of_reach(), []);
}
