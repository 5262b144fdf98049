use std::time::Duration;

use maitred_types::Time;
use proptest::prelude::*;

use super::*;

const MOONCAKE: &str = r#"{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1024, "output_length": 6, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 1025, "output_length": 7, "hash_ids": [0, 1, 9]}
{"timestamp": 6000, "input_length": 600, "output_length": 8, "hash_ids": [0, 4]}
"#;

fn calls(text: &str, change: impl FnOnce(&mut TracePlan)) -> Vec<crate::lab::LabCall> {
    let mut plan = TracePlan::new(TraceFormat::JsonLines, 256, 1);
    change(&mut plan);
    TraceCalls::new(TextLines::new(text.as_bytes()), plan)
        .map(Result::unwrap)
        .collect()
}

#[test]
fn calls_share_as_many_tokens_as_ids() {
    let calls = calls(MOONCAKE, |_| {});
    let lengths: Vec<u32> = calls.iter().map(|call| call.input.get()).collect();
    assert_eq!(lengths, [1100, 1024, 1025, 600]);
    let same = |left: usize, right: usize| {
        let pairs = calls[left].chain.hashes().iter().zip(calls[right].chain.hashes());
        pairs.take_while(|(left, right)| left == right).count()
    };
    assert_eq!(calls[0].chain.blocks(), 4, "1100 tokens fill four blocks of 256");
    assert_eq!([same(0, 1), same(0, 2), same(0, 3)], [4, 4, 2]);
}

#[test]
fn times_are_jittered_within_their_quantum_and_sorted() {
    let text: String = (0..200)
        .map(|row| {
            let at = row / 20 * 3000;
            format!(
                "{{\"timestamp\": {at}, \"input_length\": {}, \"output_length\": 1}}\n",
                row + 1
            )
        })
        .collect();
    let played = calls(&text, |plan| {
        plan.jitter = Duration::from_secs(3);
        plan.speed = 2.0;
    });
    assert_eq!(played.len(), 200);
    assert!(played.is_sorted_by_key(|call| call.arrived));
    for call in &played {
        let quantum = u64::from(call.input.get() - 1) / 20;
        let moved = call.arrived.since(Time::from_millis(quantum * 1500));
        assert!(moved < Duration::from_millis(1500), "{moved:?} at twice the speed");
    }
    let times: std::collections::BTreeSet<Time> = played.iter().map(|call| call.arrived).collect();
    assert!(times.len() > 190, "{} distinct times", times.len());
}

#[test]
fn rounds_follow_each_other_and_share_nothing() {
    let calls = calls(MOONCAKE, |plan| plan.rounds = 3);
    assert_eq!(calls.len(), 12);
    assert!(calls.is_sorted_by_key(|call| call.arrived));
    assert!(calls[4].arrived > calls[3].arrived);
    assert_ne!(calls[0].chain.hashes()[0], calls[4].chain.hashes()[0]);
    assert_eq!(
        calls[4].chain.hashes()[0],
        calls[7].chain.hashes()[0],
        "all of one round begin alike"
    );
}

#[test]
fn recordings_written_late_are_put_in_order() {
    let text = r#"{"timestamp": 900, "input_length": 70, "output_length": 1, "hash_ids": [7], "block_tokens": 64, "tenant": 3, "class": 1, "session": 18446744073709551615}
{"timestamp": 100, "input_length": 64, "output_length": 9, "hash_ids": [7, 8], "block_tokens": 64, "model": 5, "cached_length": 0}
{"timestamp": 5000, "input_length": 1, "output_length": 0}
"#;
    let calls = calls(text, |plan| {
        (plan.lateness, plan.block_size) = (Duration::from_secs(10), 64);
    });
    let seen: Vec<(u32, u32)> = calls.iter().map(|call| (call.input.get(), call.tenant)).collect();
    assert!(calls.is_sorted_by_key(|call| call.arrived));
    assert_eq!(seen.len(), 3);
    let known = calls.iter().find(|call| call.tenant == 3).unwrap();
    assert_eq!((known.class, known.session), (1, Some(u64::MAX)));
    let blocks: Vec<&[u64]> = calls.iter().map(|call| call.chain.hashes()).collect();
    assert_eq!(blocks[0], blocks[1], "one full block each, of the same text");
}

#[test]
fn faults_name_line_and_field() {
    let json = |line: &str| TraceFormat::JsonLines.row(line.as_bytes(), 7).unwrap_err().to_string();
    let csv = |line: &str| TraceFormat::AzureCsv.row(line.as_bytes(), 7).unwrap_err().to_string();
    let told = [
        json(r#"{"timestamp": 0, "output_length": 5}"#),
        json(r#"{"timestamp": "soon", "input_length": 1, "output_length": 5}"#),
        json(r#"{"timestamp": -1, "input_length": 1, "output_length": 5}"#),
        json(r#"{"timestamp": 0, "input_length": 0, "output_length": 5}"#),
        json(r#"{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [1]}"#),
        json(r#"{"timestamp": 0, "input_length": 1, "output_length": 5, "hash_ids": [-1]}"#),
        csv("2023-11-16 18:17:03.9799600,4808"),
        csv("2023-11-16 25:17:03.9799600,4808,10"),
        csv("2023-11-16 18:17:03.9799600,many,10"),
    ];
    let expected = [
        "line 7: `input_length` is missing",
        "line 7: `timestamp` is not a number of milliseconds",
        "line 7: `timestamp` is -1; it must be at least 0 and below 9.2e12",
        "line 7: `input_length` is 0; it must be from 1 to 16777216",
        "line 7: `hash_ids` has 1 ids, and 1100 tokens make 3 blocks of 512",
        "line 7: `hash_ids` is not a list of whole numbers",
        "line 7: `GeneratedTokens` is missing",
        "line 7: `TIMESTAMP` is not like `2023-11-16 18:15:46.6805900`: \"2023-11-16 25:17:03.9799600\"",
        "line 7: `ContextTokens` is not a number of tokens: \"many\"",
    ];
    assert_eq!(told, expected);
    assert!(json("[1]").starts_with("line 7: is no object: "));
    let mut broken = TraceCalls::new(
        TextLines::new(b"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1}\nnonsense\n"),
        TracePlan::new(TraceFormat::JsonLines, 16, 1),
    );
    assert_eq!(broken.next().unwrap().unwrap_err().line, 2);
    assert!(broken.next().is_none(), "after a fault nothing more comes");
}

#[test]
fn azure_rows_are_read() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109";
    let plan = TracePlan::new(TraceFormat::AzureCsv, 64, 1);
    let calls: Vec<_> = TraceCalls::new(TextLines::new(text.as_bytes()), plan)
        .map(Result::unwrap)
        .collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(
        calls[1].arrived.since(calls[0].arrived),
        Duration::from_nanos(4_314_579_000)
    );
    assert_eq!((calls[1].input.get(), calls[1].output.get()), (396, 109));
    assert_ne!(
        calls[0].chain.hashes()[0],
        calls[1].chain.hashes()[0],
        "nothing is shared"
    );
    let mut source = TextLines::new(text.as_bytes());
    let summary = TraceSummary::scan(&mut source, TraceFormat::AzureCsv).unwrap();
    assert_eq!((summary.calls, summary.input, summary.output), (2, 770, 153));
}

proptest! {
    #[test]
    fn any_bytes_are_no_panic(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::fuzz_trace(&data);
    }

    #[test]
    fn nearly_valid_lines_are_no_panic(
        field in "timestamp|input_length|hash_ids|class|other",
        value in r#"-?[0-9]{1,22}(\.[0-9]{1,3})?(e[0-9]{1,3})?|\[[0-9,]{0,9}\]|null|"x"|\{\}"#,
    ) {
        let line = format!("{{\"{field}\": {value}, \"input_length\": 9, \"output_length\": 1, \"timestamp\": 4}}");
        crate::fuzzing::fuzz_trace(line.as_bytes());
    }
}
