use proptest::prelude::*;

use super::zmtp::{self, Decoder, Incoming};
use super::*;

/// A batch of one event, each written as an array with the tag first.
fn array_event(fields: &[u8], count: u8) -> Vec<u8> {
    let mut bytes = vec![0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0x90 | count];
    bytes.extend_from_slice(fields);
    bytes
}

fn hashes(numbers: &[u64]) -> Vec<BlockHash> {
    numbers.iter().map(|number| BlockHash(*number)).collect()
}

fn stored(numbers: &[u64]) -> KvEvent {
    KvEvent::Stored(BlocksStored {
        hashes: hashes(numbers),
        block_size: 16,
        ..BlocksStored::default()
    })
}

fn removed(numbers: &[u64]) -> KvEvent {
    KvEvent::Removed(BlocksRemoved {
        hashes: hashes(numbers),
        ..BlocksRemoved::default()
    })
}

fn batch(events: &[KvEvent]) -> KvBatch {
    KvBatch {
        events: events.to_vec(),
        ..KvBatch::default()
    }
}

#[test]
fn events_as_arrays_may_leave_trailing_fields_out() {
    // ["BlockStored", [7, b"...8"], nil, [1, 2], 2] and no more: SGLang's form.
    let mut fields = b"\xabBlockStored\x92\x07\xc4\x09\xff\0\0\0\0\0\0\0\x08\xc0\x92\x01\xcc\xff\x02".to_vec();
    let read = KvBatch::read(&array_event(&fields, 5)).unwrap();
    let wanted = BlocksStored {
        hashes: hashes(&[7, 8]),
        tokens: vec![1, 255],
        block_size: 2,
        ..BlocksStored::default()
    };
    assert_eq!(read.events, [KvEvent::Stored(wanted.clone())]);
    assert_eq!(read.rank, None);
    // And all of them, with one that is not known at the end.
    fields.extend_from_slice(b"\x03\xa3CPU\xa1x\xc0\x02\xa4full\xc3");
    let read = KvBatch::read(&array_event(&fields, 12)).unwrap();
    let [KvEvent::Stored(all)] = read.events.as_slice() else {
        panic!("{read:?}")
    };
    assert_eq!((all.lora_id, all.lora_name.as_deref()), (Some(3), Some("x")));
    assert_eq!((all.place.medium.as_deref(), all.place.group), (Some("CPU"), 2));
    assert!(!all.place.is_own() && wanted.place.is_own());
}

#[test]
fn kinds_that_are_not_known_are_passed_over() {
    let read = KvBatch::read(&array_event(b"\x07\x80", 2)).unwrap_err();
    assert_eq!(
        read,
        KvBatchError::Malformed(MsgpackError::Unexpected),
        "a tag must be text"
    );
    let read = KvBatch::read(&array_event(b"\xa7Strange\x81\x01\x02", 2)).unwrap();
    assert_eq!((read.events.len(), read.passed_over), (0, 1));
    let cleared = KvBatch::read(&array_event(b"\xb0AllBlocksCleared", 1)).unwrap();
    assert_eq!(cleared.events, [KvEvent::Cleared]);
}

#[test]
fn counts_that_the_bytes_cannot_hold_are_not_believed() {
    let check = |bytes: &[u8]| assert!(KvBatch::read(bytes).is_err(), "{bytes:x?}");
    check(b"");
    check(b"\xdd\xff\xff\xff\xff");
    check(b"\x92\x00\xdd\xff\xff\xff\xff");
    check(&array_event(b"\xacBlockRemoved\xdd\xff\xff\xff\xff", 2));
    check(b"\x92\x00\x90\x00");
    check(b"\xc1");
}

#[test]
fn nesting_costs_no_stack() {
    let mut deep = vec![0x92, 0x00, 0x91, 0x92, 0xa1, b'x'];
    deep.extend(std::iter::repeat_n(0x91, 1 << 20));
    deep.push(0xc0);
    assert_eq!(KvBatch::read(&deep).unwrap().passed_over, 1);
}

#[test]
fn numbers_tell_gaps_repeats_and_restarts() {
    let mut track = KvTrack::new();
    assert_eq!(track.look(5), Sequence::Next, "the first is where it begins");
    track.take(5, &KvBatch::default());
    assert_eq!(track.look(6), Sequence::Next);
    assert_eq!(track.look(8), Sequence::Gap { first: 6 });
    assert_eq!(track.look(5), Sequence::Seen);
    assert_eq!(track.look(0), Sequence::Restart);
}

#[test]
fn blocks_are_counted_once_each() {
    let mut track = KvTrack::new();
    let change = track.take(0, &batch(&[stored(&[1, 2, 3]), stored(&[2])]));
    assert_eq!((change.stored, change.removed, change.block_size), (3, 0, Some(16)));
    let change = track.take(1, &batch(&[removed(&[2]), removed(&[2, 9])]));
    assert_eq!(change.removed, 1, "what was never there cannot go");
    let change = track.take(2, &batch(&[removed(&[1]), KvEvent::Cleared, stored(&[4])]));
    assert_eq!(
        (change.cleared, change.stored, change.removed),
        (true, 1, 0),
        "what was before does not count after all was cleared"
    );
    assert_eq!(track.known(), 1);
}

#[test]
fn who_came_late_believes_removals_of_what_it_never_saw() {
    let mut track = KvTrack::new();
    assert_eq!(track.take(7, &batch(&[removed(&[1, 2])])).removed, 2);
    track.forget();
    track.take(0, &KvBatch::default());
    assert_eq!(track.take(1, &batch(&[removed(&[1, 2])])).removed, 0);
}

#[test]
fn replayed_frames_are_read_like_live_ones() {
    let number = sequence_bytes(3);
    let check = |frames: &[&[u8]]| assert_eq!(KvMessage::read(frames).unwrap().sequence, 3);
    check(&[b"topic", &number, b"x"]);
    check(&[b"", b"topic", &number, b"x"]);
    check(&[b"", &number, b"x"]);
    assert!(KvMessage::read(&[b"topic", b"short", b"x"]).is_none());
    assert!(KvMessage::read(&[]).is_none());
    let end = sequence_bytes(REPLAY_END);
    assert!(KvMessage::read(&[b"", &end, b""]).unwrap().is_replay_end());
    assert_eq!(replay_request(3)[1], number);
}

#[test]
fn a_handshake_is_what_libzmq_sends() {
    let greeting = zmtp::greeting();
    assert_eq!(zmtp::check_greeting(&greeting), Ok(()));
    let mut old = greeting;
    old[10] = 1;
    assert_eq!(zmtp::check_greeting(&old), Err(zmtp::ZmtpError::Version));
    let mut plain = greeting;
    plain[12..17].copy_from_slice(b"PLAIN");
    assert_eq!(zmtp::check_greeting(&plain), Err(zmtp::ZmtpError::Mechanism));
    assert_eq!(zmtp::ready("SUB"), b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB");
    assert_eq!(zmtp::subscribe(b"kv"), b"\x00\x03\x01kv");
    let ping = Incoming::Command(b"\x04PING\0\x0aabc".to_vec());
    assert_eq!(ping.reply().unwrap(), b"\x04\x08\x04PONGabc");
}

#[test]
fn a_message_beyond_the_bound_is_refused_before_it_is_read() {
    let mut decoder = Decoder::new(100);
    decoder.feed(&[2, 0, 0, 0, 0, 0, 0, 0, 101]);
    assert_eq!(decoder.poll(), Err(zmtp::ZmtpError::TooLarge));
    let mut decoder = Decoder::new(100);
    let mut bytes = Vec::new();
    zmtp::put_message(&[[0; 60], [0; 60]], &mut bytes);
    decoder.feed(&bytes);
    assert_eq!(
        decoder.poll(),
        Err(zmtp::ZmtpError::TooLarge),
        "all frames of a message together"
    );
}

fn any_event() -> impl Strategy<Value = KvEvent> {
    let place = (
        proptest::option::of("[A-Z]{0,4}"),
        any::<u32>(),
        proptest::option::of("[a-z_]{0,9}"),
    );
    let place = place.prop_map(|(medium, group, kind)| Place { medium, group, kind });
    let hashes = || proptest::collection::vec(any::<u64>().prop_map(BlockHash), 0..4);
    let tokens = proptest::collection::vec(any::<u32>(), 0..40);
    let stored = (
        hashes(),
        any::<Option<u64>>(),
        tokens,
        any::<u32>(),
        any::<Option<u64>>(),
        place.clone(),
    );
    let stored = stored.prop_map(|(hashes, parent, tokens, block_size, lora_id, place)| {
        KvEvent::Stored(BlocksStored {
            hashes,
            parent: parent.map(BlockHash),
            tokens,
            block_size,
            lora_id,
            lora_name: place.kind.clone(),
            place,
        })
    });
    let removed = (hashes(), place).prop_map(|(hashes, place)| {
        let place = Place { kind: None, ..place };
        KvEvent::Removed(BlocksRemoved { hashes, place })
    });
    prop_oneof![stored, removed, Just(KvEvent::Cleared)]
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(events in proptest::collection::vec(any_event(), 0..5), rank: Option<u32>, at: u32) {
        let batch = KvBatch { at: Some(f64::from(at)), events, rank, passed_over: 0 };
        prop_assert_eq!(KvBatch::read(&batch.write()), Ok(batch));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::fuzz_kv_events(&bytes);
    }

    #[test]
    fn damaged_batches_are_read_or_refused(events in proptest::collection::vec(any_event(), 0..4), at: prop::sample::Index, to: u8) {
        let mut bytes = batch(&events).write();
        let at = at.index(bytes.len());
        bytes[at] = to;
        crate::fuzzing::fuzz_kv_events(&bytes);
    }

    #[test]
    fn messages_are_the_same_however_they_are_cut(
        messages in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..4), 0..4),
        cut in 1_usize..50,
    ) {
        let mut bytes = Vec::new();
        for message in &messages {
            zmtp::put_message(message, &mut bytes);
        }
        let mut decoder = Decoder::new(4_096);
        let mut got = Vec::new();
        for piece in bytes.chunks(cut) {
            decoder.feed(piece);
            while let Some(Incoming::Message(message)) = decoder.poll().unwrap() {
                got.push(message);
            }
        }
        prop_assert_eq!(got, messages);
    }
}
