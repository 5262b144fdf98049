use std::time::Duration;

use maitred_types::{TokenCount, UnixMillis, Usage, UsageSource};

use crate::{Diagnostic, Loaded, load};

const HEAD: &str = "version: 1\nauth: { anonymous: { tenant: local } }\npools:\n  - name: main\n    models: [{ name: qwen3-8b }, { name: other }]\n    endpoints: [{ address: 127.0.0.1:8000 }]\n";

fn read(rest: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load("maitred.yaml", &format!("{HEAD}{rest}"), &|_| Ok("secret".into()))
}

/// The one thing that is wrong: line and message.
fn wrong(rest: &str) -> (u32, String) {
    let mut found = read(rest).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found.remove(0);
    (u32::try_from(found.line).unwrap(), found.message)
}

#[test]
fn prices_are_exact_and_told_in_words() {
    let text = "prices:\n  - { model: \"qwen3-*\", from: 2026-01-01, input: \"0.15\", cached_input: \"0.03\", output: \"0.60\" }\n  - { model: \"*\", input: \"1\", output: \"2\", per: 1000 }\n";
    let prices = read(text).unwrap().settings.prices;
    let at = UnixMillis::new(1_800_000_000_000);
    let price = prices.of(&"main".into(), "qwen3-8b", at).unwrap();
    assert_eq!(
        &*price.version,
        "qwen3-*@2026-01-01T00:00:00Z 0.15/0.03/0.6 per 1000000"
    );
    let usage = Usage {
        input: TokenCount::new(10),
        cached_input: Some(TokenCount::new(4)),
        output: TokenCount::new(3),
        reasoning: None,
        source: UsageSource::Reported,
    };
    assert_eq!(price.of(Some(&usage), Duration::ZERO), 6 * 150 + 4 * 30 + 3 * 600);
    let other = prices.of(&"main".into(), "other", at).unwrap();
    assert_eq!(
        (&*other.version, other.of(Some(&usage), Duration::ZERO)),
        ("*@always 1/1/2 per 1000", 16_000_000)
    );
    // Before its date the closer price does not hold.
    assert_eq!(
        prices
            .of(&"main".into(), "qwen3-8b", UnixMillis::new(0))
            .unwrap()
            .version,
        other.version
    );
}

#[test]
fn prices_that_make_no_sense_are_pointed_at() {
    let check = |prices: &str, line: u32, message: &str| {
        assert_eq!(wrong(&format!("prices:\n{prices}")), (line, message.to_owned()));
    };
    let all = "  - { model: \"*\", input: \"1\", output: \"2\" }\n";
    check(
        &format!("{all}  - {{ model: qwen4, input: \"1\", output: \"2\" }}\n"),
        9,
        "no pool serves a model that fits `qwen4`, so this prices nothing",
    );
    check(
        &format!("{all}{all}"),
        9,
        "the price in line 8 is for the same models from the same date on",
    );
    let loaded = read("prices:\n  - { model: other, input: \"1\", output: \"2\" }\n").unwrap();
    assert_eq!(
        loaded.warnings[0].message,
        "no price is for the model `qwen3-8b`, so its calls cost nothing"
    );
    // A number that is no text would not be exact.
    assert!(read("prices:\n  - { model: other, input: 0.15, output: \"2\" }\n").is_err());
    assert!(read("prices:\n  - { model: other, input: \"0.1e3\", output: \"2\" }\n").is_err());
}

#[test]
fn hours_of_a_pool_have_a_price() {
    let text = "prices:\n  - { pool: main, from: 2026-01-01, per_gpu_hour: \"2.50\", gpus: 8 }\n  - { pool: main, from: 2026-07-01, per_gpu_hour: \"3\" }\n";
    let loaded = read(text).unwrap();
    // All its models have that price.
    let warnings: Vec<_> = loaded
        .warnings
        .iter()
        .filter(|warning| warning.path == "prices")
        .collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    let prices = loaded.settings.prices;
    let of = |at| prices.of(&"main".into(), "qwen3-8b", UnixMillis::new(at));
    let price = of(1_770_000_000_000).unwrap();
    assert_eq!(&*price.version, "pool main@2026-01-01T00:00:00Z 8 x 2.5 per GPU hour");
    assert_eq!(price.of(None, Duration::from_secs(3600)), 20_000_000_000);
    let price = of(1_800_000_000_000).unwrap();
    assert_eq!(&*price.version, "pool main@2026-07-01T00:00:00Z 1 x 3 per GPU hour");
    assert_eq!(of(0), None);
    assert_eq!(
        prices.of(&"other".into(), "qwen3-8b", UnixMillis::new(1_800_000_000_000)),
        None
    );
}

#[test]
fn hours_that_make_no_sense_are_pointed_at() {
    let check = |prices: &str, message: &str| {
        assert_eq!(wrong(&format!("prices:\n  - {prices}\n")).1, message);
    };
    check(
        "{ pool: mein, per_gpu_hour: \"1\" }",
        "there is no pool `mein`, so this prices nothing",
    );
    check("{ pool: main }", "`per_gpu_hour` is missing in this price");
    check("{ model: \"*\", input: \"1\" }", "`output` is missing in this price");
    check(
        "{ pool: main, per_gpu_hour: \"1\", input: \"1\" }",
        "`input` says nothing in a price with `pool`",
    );
    check(
        "{ model: \"*\", input: \"1\", output: \"1\", gpus: 2 }",
        "`gpus` says nothing in a price with `model`",
    );
    check(
        "{ pool: main, model: \"*\", per_gpu_hour: \"1\" }",
        "the price is for models and for a pool",
    );
    check("{ per_gpu_hour: \"1\" }", "the price does not say for what it is");
    let twice = "  - { pool: main, per_gpu_hour: \"1\" }\n";
    assert_eq!(
        wrong(&format!("prices:\n{twice}{twice}")),
        (
            9,
            "the price in line 8 is for the same pool from the same date on".to_owned()
        )
    );
}

#[test]
fn money_needs_prices() {
    let quota = "quotas:\n  - { name: budget, money_per_month: \"100\" }\n";
    assert_eq!(
        wrong(quota),
        (8, "there are no prices, so this limits nothing".to_owned())
    );
    let prices = "prices:\n  - { model: \"*\", input: \"1\", output: \"2\" }\n";
    let settings = read(&format!("{prices}{quota}")).unwrap().settings;
    assert_eq!(settings.quotas.limits[0].amount, 100_000_000_000);
}
