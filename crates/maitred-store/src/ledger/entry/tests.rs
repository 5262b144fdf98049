use proptest::prelude::*;

use super::*;

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9é/._-]{0,40}"
}

fn words() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(word())
}

fn tokens() -> impl Strategy<Value = TokenCount> {
    any::<u32>().prop_map(TokenCount::new)
}

fn head() -> impl Strategy<Value = CallHead<String>> {
    let owners = (word(), words(), words(), words(), words());
    let places = (word(), word(), word(), word(), word());
    let expected = (tokens(), tokens(), any::<u64>());
    (owners, places, any::<u64>(), expected).prop_map(|(owners, places, arrived, (input, output, money))| CallHead {
        request_id: places.0,
        arrived: UnixMillis::new(arrived),
        tenant: owners.0,
        user: owners.1,
        key: owners.2,
        task: owners.3,
        price: owners.4,
        model: places.1,
        served: places.2,
        pool: places.3,
        dialect: places.4,
        expected: Expected { input, output, money },
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    let part = || proptest::option::of(tokens());
    (tokens(), part(), tokens(), part(), any::<bool>()).prop_map(
        |(input, cached_input, output, reasoning, is_reported)| Usage {
            input,
            cached_input,
            output,
            reasoning,
            source: if is_reported {
                UsageSource::Reported
            } else {
                UsageSource::Estimated
            },
        },
    )
}

fn ending() -> impl Strategy<Value = Ending<String>> {
    let times = (proptest::option::of(any::<u64>()), any::<u64>(), any::<u64>());
    (proptest::option::of(usage()), times, word(), words()).prop_map(
        |(usage, (first_token_us, total_us, money), outcome, fault)| Ending {
            usage,
            first_token_us,
            total_us,
            outcome,
            fault,
            money,
        },
    )
}

fn entry() -> impl Strategy<Value = Entry<String>> {
    prop_oneof![
        (any::<u64>(), head()).prop_map(|(call, head)| Entry::Call { call, head }),
        (any::<u64>(), 1..1000_u32, word(), any::<u64>()).prop_map(|(call, number, endpoint, began_us)| {
            let head = AttemptHead { endpoint, began_us };
            Entry::Attempt { call, number, head }
        }),
        (any::<u64>(), 1..1000_u32, ending()).prop_map(|(call, number, ending)| Entry::AttemptEnd {
            call,
            number,
            ending
        }),
        (any::<u64>(), ending(), any::<bool>()).prop_map(|(call, ending, is_degraded)| Entry::CallEnd {
            call,
            ending,
            is_degraded
        }),
        (any::<u64>(), head(), proptest::option::of((word(), word()))).prop_map(|(call, head, degrades)| {
            let head = TargetHead {
                asked: head.request_id,
                model: head.model,
                served: head.served,
                pool: head.pool,
                price: head.price,
                expected: head.expected,
                degrades: degrades.map(|(kind, reason)| Degrades { kind, reason }),
            };
            Entry::Target { call, head }
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(entries in proptest::collection::vec(entry(), 0..5)) {
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.write(&mut bytes));
        let mut rest = bytes.as_slice();
        for entry in &entries {
            prop_assert_eq!(&Entry::read(&mut rest).unwrap(), entry);
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_cut_entry_is_no_entry(entry in entry(), at in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert_eq!(Entry::read(&mut &cut[..]), None);
    }

    #[test]
    fn bytes_from_anywhere_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut rest = bytes.as_slice();
        while Entry::read(&mut rest).is_some() {}
    }
}

#[test]
fn long_texts_are_cut_between_characters() {
    let head = AttemptHead {
        endpoint: format!("x{}", "é".repeat(400)),
        began_us: 0,
    };
    let mut bytes = Vec::new();
    Entry::Attempt {
        call: 1,
        number: 1,
        head,
    }
    .write(&mut bytes);
    let Some(Entry::Attempt { head, .. }) = Entry::read(&mut bytes.as_slice()) else {
        panic!("no attempt")
    };
    assert_eq!(head.endpoint.len(), 511);
}
