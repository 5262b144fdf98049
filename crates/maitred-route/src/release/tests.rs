use super::*;

pub(crate) fn release(name: &str, weights: &str) -> Release {
    Release {
        name: name.to_owned(),
        pool: PoolName::from(name),
        weights: weights.to_owned(),
        engine: Some("0.32.0".to_owned()),
        quantization: None,
        chat_template: None,
        route: Some("7".to_owned()),
    }
}

fn facts(endpoint: &str, told: &[(Part, &str)]) -> Statement {
    let mut facts = Statement::new(Address::from(endpoint));
    for (part, value) in told {
        facts.tell(*part, value, Source::Models);
    }
    facts
}

#[track_caller]
fn check(endpoints: &[Statement], expected: &[&str]) {
    let found = release("blue", "llama@1").verify(endpoints);
    let said: Vec<_> = found.drift.iter().map(ToString::to_string).collect();
    assert_eq!(said, expected);
    assert_eq!(found.holds(), expected.is_empty() && !endpoints.is_empty());
}

#[test]
fn what_differs_or_is_not_told_is_drift() {
    let good = [
        (Part::Weights, "llama@1"),
        (Part::Engine, " 0.32.0\n"),
        (Part::Route, "7"),
        (Part::Quantization, "fp8"),
    ];
    check(&[facts("a:1", &good)], &[]);
    check(&[], &[]);
    let newer = [(Part::Weights, "llama@2"), (Part::Engine, "0.32.0"), (Part::Route, "7")];
    check(
        &[facts("a:1", &good), facts("b:1", &newer)],
        &["b:1: weights is llama@2, the release says llama@1"],
    );
    check(
        &[facts("a:1", &[])],
        &[
            "a:1: does not tell its weights, the release says llama@1",
            "a:1: does not tell its engine, the release says 0.32.0",
            "a:1: does not tell its route, the release says 7",
        ],
    );
}

#[test]
fn the_endpoints_own_word_is_stronger_than_what_is_listed() {
    let mut facts = facts("a:1", &[(Part::Weights, "llama@2")]);
    facts.tell(Part::Weights, "llama@1", Source::Listed);
    facts.tell(Part::Engine, "0.32.0", Source::Listed);
    facts.tell(Part::Engine, "0.31.0", Source::Version);
    facts.tell(Part::Route, "7", Source::Settings);
    check(
        &[facts],
        &[
            "a:1: weights is llama@2, the release says llama@1",
            "a:1: engine is 0.31.0, the release says 0.32.0",
        ],
    );
}

#[test]
fn the_list_of_differences_is_bounded_and_the_count_is_not() {
    let many: Vec<_> = (0..500).map(|port| facts(&format!("a:{port}"), &[])).collect();
    let found = release("blue", "llama@1").verify(&many);
    assert_eq!((found.endpoints, found.drifted), (500, 500));
    assert_eq!(found.drift.len(), DRIFT_LISTED_MAX);
    assert!(found.is_nowhere());
}
