use maitred_types::UsageSource;
use proptest::prelude::*;

use super::*;

fn price(models: &str, from: u64, input: &str) -> Price {
    let amount = |text: &str| Money::parse(text).unwrap().0;
    let rates = Rates {
        input: amount(input),
        cached_input: amount("0.03"),
        output: amount("0.60"),
    };
    Price {
        from: UnixMillis::new(from),
        charge: Charge::Tokens {
            models: ModelPattern::parse(models).unwrap(),
            rates,
            per: 1_000_000,
        },
        version: format!("{models}@{from}").into(),
    }
}

/// At these rates, for so many tokens.
fn rated(rates: Rates, per: u64) -> Price {
    let models = ModelPattern::parse("m").unwrap();
    Price {
        charge: Charge::Tokens { models, rates, per },
        ..price("m", 0, "0")
    }
}

fn hours(pool: &str, from: u64, per_hour: &str) -> Price {
    Price {
        from: UnixMillis::new(from),
        charge: Charge::Hours {
            pool: pool.into(),
            per_hour: Money::parse(per_hour).unwrap().0,
        },
        version: format!("pool {pool}@{from}").into(),
    }
}

/// What tokens cost.
fn of(price: &Price, usage: &Usage) -> u64 {
    price.of(Some(usage), Duration::from_secs(1))
}

fn usage(input: u32, cached: Option<u32>, output: u32) -> Usage {
    Usage {
        input: TokenCount::new(input),
        cached_input: cached.map(TokenCount::new),
        output: TokenCount::new(output),
        reasoning: None,
        source: UsageSource::Reported,
    }
}

#[test]
fn money_is_exact() {
    let price = price("m", 0, "0.15");
    // A million of each.
    assert_eq!(of(&price, &usage(1_000_000, None, 0)), 150_000_000);
    assert_eq!(of(&price, &usage(1_000_000, Some(1_000_000), 0)), 30_000_000);
    assert_eq!(of(&price, &usage(0, None, 1_000_000)), 600_000_000);
    // One prompt token costs 150 billionths.
    assert_eq!(of(&price, &usage(1, None, 0)), 150);
    assert_eq!(of(&price, &usage(1, Some(0), 0)), 150);
    // More cached than read cannot be; nothing goes below zero.
    assert_eq!(of(&price, &usage(1, Some(9), 0)), 30);
    assert_eq!(of(&price, &usage(u32::MAX, None, u32::MAX)), 3_221_225_471_250);
}

#[test]
fn halves_are_rounded_up_once() {
    let rates = Rates {
        input: 1,
        cached_input: 1,
        output: 1,
    };
    let price = rated(rates, 4);
    let of = |input, output| of(&price, &usage(input, None, output));
    assert_eq!([of(1, 0), of(1, 1), of(2, 2), of(5, 0)], [0, 1, 1, 1]);
}

#[test]
fn the_closest_pattern_and_the_latest_date_win() {
    let prices = Prices::new([
        price("*", 0, "1"),
        price("llama-*", 0, "2"),
        price("llama-3", 100, "4"),
        price("llama-3", 200, "5"),
        price("llama-3*", 0, "3"),
    ]);
    let check = |model, at, version: &str| {
        let price = prices.of(&"main".into(), model, UnixMillis::new(at)).unwrap();
        assert_eq!(&*price.version, version, "{model} at {at}");
    };
    check("qwen", 0, "*@0");
    check("llama-2", 0, "llama-*@0");
    check("llama-3", 99, "llama-3*@0");
    check("llama-3", 100, "llama-3@100");
    check("llama-3", 199, "llama-3@100");
    check("llama-3", 200, "llama-3@200");
    check("llama-3.1", 200, "llama-3*@0");
    let late = Prices::new([price("a", 5, "1")]);
    assert_eq!(late.of(&"main".into(), "a", UnixMillis::new(4)), None);
}

#[test]
fn hours_come_before_tokens_in_their_pool_from_their_date_on() {
    let prices = Prices::new([
        price("llama-3", 0, "1"),
        hours("big", 100, "12.5"),
        hours("big", 200, "14"),
        hours("small", 0, "2"),
    ]);
    let check = |pool: &str, at, version: &str| {
        let price = prices.of(&pool.into(), "llama-3", UnixMillis::new(at)).unwrap();
        assert_eq!(&*price.version, version, "{pool} at {at}");
    };
    check("big", 99, "llama-3@0");
    check("big", 100, "pool big@100");
    check("big", 200, "pool big@200");
    check("small", 200, "pool small@0");
    check("other", 200, "llama-3@0");
}

#[test]
fn time_is_charged_whatever_the_tokens() {
    let price = hours("big", 0, "12.5");
    let after = |share| price.of(None, share);
    assert_eq!(after(Duration::from_secs(3600)), 12_500_000_000);
    assert_eq!(after(Duration::from_secs(36)), 125_000_000);
    assert_eq!(price.of(Some(&usage(1, None, 1)), Duration::from_secs(36)), 125_000_000);
    assert_eq!(after(Duration::ZERO), 0);
    // 3.4722… billionths in a microsecond.
    assert_eq!(after(Duration::from_micros(1)), 3);
    assert_eq!(after(Duration::MAX), u64::MAX);
    // Two seconds for the output and one for the prompt.
    let guess = price.at_most(TokenCount::new(10_000), TokenCount::new(200));
    assert_eq!(guess, after(Duration::from_secs(3)));
}

#[test]
fn decimals_are_read_and_printed() {
    let check = |text: &str, read: Option<u64>| assert_eq!(Money::parse(text).map(|money| money.0), read, "{text}");
    check("0.15", Some(150_000_000));
    check("12", Some(12_000_000_000));
    check("0.000000001", Some(1));
    for bad in [
        "",
        ".",
        ".5",
        "1.",
        "-1",
        "+1",
        "1e3",
        "0.0000000001",
        "1,5",
        "99999999999",
    ] {
        check(bad, None);
    }
}

proptest! {
    /// Rounding moves each call's part by half a billionth at most.
    #[test]
    fn parts_of_an_hour_cost_what_the_hour_costs(cuts in prop::collection::vec(0_u64..3_600_000_000_000, 0..50)) {
        let price = hours("big", 0, "12.5");
        let mut cuts = cuts;
        cuts.extend([0, 3_600_000_000_000]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|cut| price.of(None, Duration::from_nanos(cut[1] - cut[0])));
        let (sum, count) = parts.fold((0_u64, 0_u64), |(sum, count), part| (sum + part, count + 1));
        prop_assert!(sum.abs_diff(12_500_000_000) * 2 <= count, "{sum} of {count}");
    }

    #[test]
    fn money_comes_back_from_its_text(billionths in any::<u64>()) {
        prop_assert_eq!(Money::parse(&Money(billionths).to_string()), Some(Money(billionths)));
    }

    #[test]
    fn a_reservation_covers_its_settlement(input in any::<u32>(), cached in any::<u32>(), output in any::<u32>(), rates in any::<[u32; 3]>()) {
        let [input_rate, cached_input, out] = rates.map(u64::from);
        let price = rated(Rates { input: input_rate, cached_input, output: out }, 1_000_000);
        let most = price.at_most(TokenCount::new(input), TokenCount::new(output));
        prop_assert!(of(&price, &usage(input, Some(cached), output)) <= most);
    }
}
