use maitred_types::UnixMillis;

use super::*;

fn answered() -> AttemptRecord {
    let chosen = ComparedRecord {
        endpoint: "10.0.0.3:8000".into(),
        cached_tokens: Some(6_144),
        cost_seconds: Some(0.0412),
        terms: [("queue", 0.012), ("own", 0.02), ("decode", 0.0092)]
            .map(|(term, seconds)| TermRecord {
                term: term.into(),
                seconds,
                price: (term == "own").then_some(1.25),
            })
            .into(),
        ..ComparedRecord::default()
    };
    let other = ComparedRecord {
        endpoint: "10.0.0.4:8000".into(),
        total: Some(1.5),
        scores: [("kv", 0.5, 1.0), ("queue", 0.5, 2.0)]
            .map(|(scorer, value, weight)| ScoreRecord {
                scorer: scorer.into(),
                value,
                weight,
            })
            .into(),
        ..ComparedRecord::default()
    };
    let removed = RemovedRecord {
        filter: "ready".into(),
        endpoints: 3,
        which: vec![RemovedEndpoint {
            endpoint: "10.0.0.1:8000".into(),
            state: "draining".into(),
        }],
    };
    let end = EndRecord {
        result: "success".into(),
        first_token_ms: Some(50.0),
        held_ms: 1_200.0,
        input_tokens: Some(8_010),
        cached_tokens: Some(6_144),
        output_tokens: Some(40),
        usage_source: Some("reported".into()),
        ..EndRecord::default()
    };
    AttemptRecord {
        after_ms: 12.0,
        waited_ms: Some(4.0),
        input_tokens: 8_000,
        output_tokens: 256,
        tried: 1,
        endpoints: 8,
        removed: vec![removed],
        candidates: 5,
        picker: Some("least-cost".into()),
        reason: "scored".into(),
        endpoint: Some("10.0.0.3:8000".into()),
        compared: vec![chosen, other],
        shadows: vec![ShadowRecord {
            profile: "round-robin".into(),
            endpoint: Some("10.0.0.9:8000".into()),
            reason: Some("turn".into()),
            agrees: false,
        }],
        end: Some(end),
        ..AttemptRecord::default()
    }
}

fn failed() -> AttemptRecord {
    AttemptRecord {
        input_tokens: 8_000,
        endpoints: 1,
        candidates: 1,
        reason: "only-one".into(),
        endpoint: Some("10.0.0.2:8000".into()),
        end: Some(EndRecord {
            result: "failure".into(),
            fault: Some("connect_failed".into()),
            held_ms: 11.0,
            ..EndRecord::default()
        }),
        ..AttemptRecord::default()
    }
}

/// A record of a call that failed once and then was answered, with everything that a record can have.
fn record() -> DecisionRecord {
    DecisionRecord {
        request_id: "req-1".into(),
        time: crate::rfc3339(UnixMillis::new(1_796_069_957_042)),
        tenant: Some("acme".into()),
        model: "tiny".into(),
        pool: "main".into(),
        attempts: vec![failed(), answered()],
        outcome: "answered".into(),
        first_token_ms: Some(62.0),
        duration_ms: 1_212.0,
        ..DecisionRecord::default()
    }
}

#[test]
fn a_record_reads_as_sentences() {
    insta::assert_snapshot!(record(), @"
    Call req-1 for model tiny, pool main, of acme, came at 2026-11-30T20:19:17.042Z and was answered after 1.212 s.

    Attempt 1, 0.000 s after the call came, with about 8,000 prompt tokens:
      1 endpoint; chosen 10.0.0.2:8000 (only-one)
      then failed after 0.011 s: connect_failed

    Attempt 2, 0.012 s after the call came, after a wait of 0.004 s for a place, with about 8,000 prompt tokens:
      8 endpoints; 3 removed by ready: 10.0.0.1:8000 (draining) and 2 more; chosen 10.0.0.3:8000 (scored) at 0.041 s: queue 0.012 s + own 0.020 s × 1.25 + decode 0.009 s (6,144 of 8,000 prompt tokens cached)
      before 10.0.0.4:8000 at 1.500: kv 0.500 + queue 0.500 × 2
      the profile round-robin would have chosen 10.0.0.9:8000 (turn)
      then answered after 0.050 s, all of it after 1.200 s, 6,144 of 8,010 prompt tokens cached, 40 output tokens
    ");
}

#[test]
fn a_record_survives_its_json() {
    let json = serde_json::to_string(&record()).unwrap();
    assert_eq!(serde_json::from_str::<DecisionRecord>(&json).unwrap(), record());
    assert!(!json.contains("null"), "what is not known is left out: {json}");
}

#[test]
fn fields_of_a_later_version_are_passed_over() {
    let read: DecisionRecord = serde_json::from_str(r#"{"request_id":"a","later":1}"#).unwrap();
    assert_eq!(read.request_id, "a");
}
