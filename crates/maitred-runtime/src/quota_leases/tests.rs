//! The store's script against the law that the core has in readable form.

use maitred_tenant::{Ask, Bank, FORGET_MILLIS, Known, Terms};
use maitred_test::Redis;

use super::*;

/// An evening, UTC: not far from midnight.
const EVENING: u64 = 1_796_083_200_000 - 40_000;

/// A gateway as random as it may be.
fn random_ask(random: &mut fastrand::Rng, terms: Terms, number: u64, word: Option<Word>) -> Ask {
    let most = terms.amount;
    let known = word.map_or(Known::default(), |word| Known {
        epoch: if random.u8(0..10) == 0 { 77 } else { word.epoch },
        spent: word.spent,
        period: word.period,
    });
    Ask {
        terms,
        number: if random.u8(0..10) == 0 {
            number.saturating_sub(1)
        } else {
            number
        },
        spent: number * most / 60 + random.u64(0..=most / 60),
        told: number * most / 70,
        reserved: random.u64(0..=most / 8),
        keep: random.u64(0..=most / 8),
        want: if random.bool() { 0 } else { 1 << 52 },
        need: if random.u8(0..5) == 0 { random.u64(0..=most) } else { 0 },
        known,
    }
}

#[tokio::test]
async fn the_script_in_the_server_does_what_the_core_says() {
    let redis = Redis::start().await;
    let store = QuotaStore::new(&redis.url(), "test", TIMEOUT * 30).unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let (mut bank, mut now) = (Bank::default(), EVENING);
    let mut gateways = Vec::new();
    for gateway in 1..=4_u64 {
        gateways.push(store.connect(gateway).await.unwrap());
    }
    let kinds = [
        (0, 12, 0),
        (1, 20_000_000, 20_000),
        (2, 60_000, 0),
        (3, 200_000, 0),
        (4, 9_000_000_000_000, 0),
        (5, 60_000, 0),
    ];
    let mut words = std::collections::BTreeMap::new();
    let (mut late, mut full) = (0, 0);
    for number in 1..=4_000_u64 {
        now += match random.u8(0..200) {
            0 => FORGET_MILLIS,
            1..20 => random.u64(0..5_000),
            _ => random.u64(0..200),
        };
        let (kind, amount, leak) = kinds[random.usize(0..kinds.len())];
        let terms = Terms { kind, amount, leak };
        let gateway = random.u64(1..=4);
        let name = format!("kind {kind}");
        let ask = random_ask(
            &mut random,
            terms,
            number / 100 + 1,
            words.get(&(kind, gateway)).copied(),
        );
        let numbers = ask.numbers();
        let index = usize::try_from(gateway - 1).unwrap();
        let answers = gateways[index].ask(&[(&name, &numbers)], Some(now)).await.unwrap();
        let word = bank.ask(gateway, &name, &ask, now);
        assert_eq!(
            Word::read(&answers[0]),
            word,
            "step {number}: gateway {gateway}, {ask:?}, {answers:?}"
        );
        match word {
            Some(word) => {
                full += u32::from(word.free == 0);
                words.insert((kind, gateway), word);
            }
            None => late += 1,
        }
    }
    assert!(late > 100 && full > 100, "{late} {full}");
    let mut names = gateways[0].news(0).await.unwrap().names;
    names.sort();
    assert_eq!(names, bank.news(0));
}
