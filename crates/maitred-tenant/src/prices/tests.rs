use maitred_types::UsageSource;
use proptest::prelude::*;

use super::*;

fn price(models: &str, from: u64, input: &str) -> Price {
    let amount = |text: &str| Money::parse(text).unwrap().0;
    Price {
        models: ModelPattern::parse(models).unwrap(),
        from: UnixMillis::new(from),
        rates: Rates {
            input: amount(input),
            cached_input: amount("0.03"),
            output: amount("0.60"),
        },
        per: 1_000_000,
        version: format!("{models}@{from}").into(),
    }
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
    assert_eq!(price.of(&usage(1_000_000, None, 0)), 150_000_000);
    assert_eq!(price.of(&usage(1_000_000, Some(1_000_000), 0)), 30_000_000);
    assert_eq!(price.of(&usage(0, None, 1_000_000)), 600_000_000);
    // One prompt token costs 150 billionths.
    assert_eq!(price.of(&usage(1, None, 0)), 150);
    assert_eq!(price.of(&usage(1, Some(0), 0)), 150);
    // More cached than read cannot be; nothing goes below zero.
    assert_eq!(price.of(&usage(1, Some(9), 0)), 30);
    assert_eq!(price.of(&usage(u32::MAX, None, u32::MAX)), 3_221_225_471_250);
}

#[test]
fn halves_are_rounded_up_once() {
    let mut price = price("m", 0, "0.15");
    price.rates = Rates {
        input: 1,
        cached_input: 1,
        output: 1,
    };
    price.per = 4;
    let of = |input, output| price.of(&usage(input, None, output));
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
        let price = prices.of(model, UnixMillis::new(at)).unwrap();
        assert_eq!(&*price.version, version, "{model} at {at}");
    };
    check("qwen", 0, "*@0");
    check("llama-2", 0, "llama-*@0");
    check("llama-3", 99, "llama-3*@0");
    check("llama-3", 100, "llama-3@100");
    check("llama-3", 199, "llama-3@100");
    check("llama-3", 200, "llama-3@200");
    check("llama-3.1", 200, "llama-3*@0");
    assert_eq!(Prices::new([price("a", 5, "1")]).of("a", UnixMillis::new(4)), None);
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
    #[test]
    fn money_comes_back_from_its_text(billionths in any::<u64>()) {
        prop_assert_eq!(Money::parse(&Money(billionths).to_string()), Some(Money(billionths)));
    }

    #[test]
    fn a_reservation_covers_its_settlement(input in any::<u32>(), cached in any::<u32>(), output in any::<u32>(), rates in any::<[u32; 3]>()) {
        let mut price = price("m", 0, "0.15");
        let [input_rate, cached_input, out] = rates.map(u64::from);
        price.rates = Rates { input: input_rate, cached_input, output: out };
        let most = price.at_most(TokenCount::new(input), TokenCount::new(output));
        prop_assert!(price.of(&usage(input, Some(cached), output)) <= most);
    }
}
