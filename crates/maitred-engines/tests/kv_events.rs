//! What vLLM really publishes of its KV cache. Small files live in `fixtures/`; where the full captures are at hand beside the
//! repository, all of them are read.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops at the first surprise and says what it skips"
)]

use std::fs;
use std::path::Path;

use maitred_engines::kv_events::{BlockHash, KvBatch, KvEvent, KvMessage, KvTrack, Sequence};
use serde_json::Value;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vllm-0.32.0/kv-events");
const CAPTURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/captures/vllm-0.32.0/kv-events"
);

/// The messages of a file: frames in hex, separated by blanks, an empty one as `-`.
fn messages(text: &str) -> Vec<Vec<Vec<u8>>> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| line.split(' ').map(frame).collect()).collect()
}

fn frame(hex: &str) -> Vec<u8> {
    let digits = hex.trim_matches('-').as_bytes();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn read(frames: &[Vec<u8>]) -> (u64, KvBatch) {
    let frames: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    let message = KvMessage::read(&frames).unwrap();
    assert_eq!(message.topic, b"kv-events");
    (message.sequence, KvBatch::read(message.payload).unwrap())
}

fn fixture(name: &str) -> Vec<(u64, KvBatch)> {
    let text = fs::read_to_string(Path::new(FIXTURES).join(name)).unwrap();
    messages(&text).iter().map(|frames| read(frames)).collect()
}

fn capture(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(CAPTURES).join(name)).ok();
    if text.is_none() {
        println!("skipped: {name} of the captures is not at hand");
    }
    text
}

#[test]
fn a_stored_block_of_an_adapter_is_read() {
    let [(sequence, batch)] = fixture("stored.hex.txt").try_into().unwrap();
    assert_eq!((sequence, batch.rank, batch.passed_over), (68, Some(0), 0));
    let [KvEvent::Stored(stored)] = batch.events.as_slice() else {
        panic!("{batch:?}")
    };
    assert_eq!(stored.hashes, [BlockHash(10_578_968_046_538_520_511)]);
    assert_eq!(stored.parent, Some(BlockHash(14_446_490_786_392_202_999)));
    assert_eq!((stored.tokens.len(), stored.block_size), (128, 128));
    assert_eq!((stored.lora_id, stored.lora_name.as_deref()), (Some(2), Some("lora-b")));
    assert!(stored.place.is_own());
}

#[test]
fn evictions_are_read() {
    let batches = fixture("evictions.hex.txt");
    assert_eq!(batches.len(), 3);
    let mut track = KvTrack::new();
    let first = track.take(batches[0].0, &batches[0].1);
    assert_eq!((first.stored, first.block_size), (3, Some(32)));
    let KvEvent::Removed(removed) = &batches[1].1.events[0] else {
        panic!("{:?}", batches[1])
    };
    assert_eq!(removed.hashes.len(), 1);
    assert!(removed.place.is_own());
    assert_eq!(track.look(batches[1].0), Sequence::Gap { first: 1 });
}

#[test]
fn a_replayed_batch_is_read() {
    let batches = fixture("replay.hex.txt");
    assert!(matches!(batches[0].1.events[0], KvEvent::Stored(_)));
}

/// What a decoded event of the captures says, as far as this crate reads it.
fn decoded(event: &Value) -> (String, Vec<u64>, Option<u64>, Vec<u64>, Option<u64>) {
    let numbers = |name: &str| -> Vec<u64> {
        let list = event[name].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|number| number.as_u64().unwrap()).collect()
    };
    (
        event["type"].as_str().unwrap().to_owned(),
        numbers("block_hashes"),
        event["parent_block_hash"].as_u64(),
        numbers("token_ids"),
        event["lora_id"].as_u64(),
    )
}

fn own(event: &KvEvent) -> (String, Vec<u64>, Option<u64>, Vec<u64>, Option<u64>) {
    let numbers = |hashes: &[BlockHash]| hashes.iter().map(|hash| hash.0).collect();
    match event {
        KvEvent::Stored(stored) => (
            "BlockStored".to_owned(),
            numbers(&stored.hashes),
            stored.parent.map(|parent| parent.0),
            stored.tokens.iter().map(|token| u64::from(*token)).collect(),
            stored.lora_id,
        ),
        KvEvent::Removed(removed) => (
            "BlockRemoved".to_owned(),
            numbers(&removed.hashes),
            None,
            Vec::new(),
            None,
        ),
        KvEvent::Cleared => ("AllBlocksCleared".to_owned(), Vec::new(), None, Vec::new(), None),
    }
}

#[test]
fn the_full_captures_are_read_as_another_reader_read_them() {
    for folder in ["", "evictions/"] {
        let (Some(frames), Some(json)) = (
            capture(&format!("{folder}frames.hex.txt")),
            capture(&format!("{folder}decoded.jsonl")),
        ) else {
            continue;
        };
        let frames = messages(&frames);
        assert_eq!(frames.len(), json.lines().count());
        for (frames, line) in frames.iter().zip(json.lines()) {
            let line: Value = serde_json::from_str(line).unwrap();
            let (sequence, batch) = read(frames);
            assert_eq!(line["seq"], sequence);
            // To the microsecond: the reader of JSON rounds the last digit.
            let apart = line["payload"][0].as_f64().unwrap() - batch.at.unwrap();
            assert!(apart.abs() < 1e-6, "{apart}");
            let wanted: Vec<_> = line["payload"][1].as_array().unwrap().iter().map(decoded).collect();
            assert_eq!(batch.events.iter().map(own).collect::<Vec<_>>(), wanted);
        }
    }
}

#[test]
fn the_full_replay_has_no_gap_and_the_evictions_never_hold_more_than_the_cache() {
    if let Some(replay) = capture("replay.hex.txt") {
        let mut track = KvTrack::new();
        for frames in messages(&replay) {
            let (sequence, batch) = read(&frames);
            assert_eq!(track.look(sequence), Sequence::Next, "{sequence}");
            track.take(sequence, &batch);
        }
        assert!(track.known() > 0);
    }
    if let Some(evictions) = capture("evictions/frames.hex.txt") {
        let mut track = KvTrack::new();
        for frames in messages(&evictions) {
            let (sequence, batch) = read(&frames);
            assert_eq!(track.look(sequence), Sequence::Next, "{sequence}");
            track.take(sequence, &batch);
            assert!(track.known() <= 20, "{} blocks in a cache of 20", track.known());
        }
    }
}
