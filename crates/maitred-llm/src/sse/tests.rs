use std::fs;
use std::path::PathBuf;

use super::*;
use crate::fuzzing::fuzz_sse;

fn read_all(stream: &str) -> Vec<Event> {
    let mut reader = Reader::default();
    reader.feed(Bytes::copy_from_slice(stream.as_bytes()));
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    events.extend(reader.finish().unwrap());
    events
}

#[test]
fn events_are_read_by_the_standards_grammar() {
    let check = |stream: &str, expected: &[(Option<&str>, Option<&str>)]| {
        let events = read_all(stream);
        let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let read: Vec<_> = events
            .iter()
            .map(|event| (text(event.name()), text(event.data())))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, data)| (name.map(str::to_owned), data.map(str::to_owned)))
            .collect();
        assert_eq!(read, expected, "{stream:?}");
    };
    check("", &[]);
    check("data: a\n\n", &[(None, Some("a"))]);
    check(
        "data: a\r\n\r\ndata: b\r\n\r\n",
        &[(None, Some("a")), (None, Some("b"))],
    );
    check("data: a\r\rdata: b\r\r", &[(None, Some("a")), (None, Some("b"))]);
    check("data: a\rdata: b\ndata: c\r\n\n", &[(None, Some("a\nb\nc"))]);
    check("data:a\n\n", &[(None, Some("a"))]);
    check("data:  a\n\n", &[(None, Some(" a"))]);
    check("data\n\n", &[(None, Some(""))]);
    check("data:\ndata:\n\n", &[(None, Some("\n"))]);
    check("event: x\ndata: a\n\n", &[(Some("x"), Some("a"))]);
    check("data: a\nevent: x\nevent: y\n\n", &[(Some("y"), Some("a"))]);
    check("event: ping\n\n", &[(Some("ping"), None)]);
    check(": keep-alive\n\n", &[(None, None)]);
    check(
        "data: a\n: no\nid: 7\nretry: 3\ndatas: z\n data: w\n\n",
        &[(None, Some("a"))],
    );
    check(
        "\u{feff}data: a\n\n\u{feff}data: b\n\n",
        &[(None, Some("a")), (None, None)],
    );
    check("\n\ndata: a\n\n", &[(None, None), (None, None), (None, Some("a"))]);
    check("data: a\n\ndata: b", &[(None, Some("a")), (None, Some("b"))]);
    check("a very long line without any colon\n\n", &[(None, None)]);
}

#[test]
fn an_event_without_its_blank_line_is_marked() {
    let check = |stream: &str, is_complete: bool| {
        let last = read_all(stream).pop().unwrap();
        assert_eq!(last.is_complete(), is_complete, "{stream:?}");
        assert_eq!(last.into_raw(), stream);
    };
    check("data: a\n\n", true);
    check("data: a\r\n\r", true);
    check("data: a\n", false);
    check("data: a", false);
    check("data: {\"cut", false);
}

#[test]
fn an_event_can_be_closed() {
    let check = |stream: &str, closed: &str| {
        let event = read_all(stream).pop().unwrap();
        let data = event.data().map(<[u8]>::to_vec);
        let bytes = event.into_closed();
        assert_eq!(bytes, closed, "{stream:?}");
        let again = read_all(str::from_utf8(&bytes).unwrap());
        assert_eq!(again.len(), 1);
        assert!(again[0].is_complete());
        assert_eq!(again[0].data().map(<[u8]>::to_vec), data);
    };
    check("data: [DONE]\n\n", "data: [DONE]\n\n");
    check("data: [DONE]\n", "data: [DONE]\n\n");
    check("data: [DONE]", "data: [DONE]\n\n");
    check("data: [DONE]\r\n", "data: [DONE]\r\n\n");
    check("data: [DONE]\r", "data: [DONE]\r\n\n");
}

#[test]
fn an_event_of_a_mebibyte_is_read() {
    let event = format!("data: {}\n\n", "x".repeat(MAX_EVENT - 8));
    let mut reader = Reader::default();
    for piece in event.as_bytes().chunks(16 << 10) {
        assert_eq!(reader.next_event(), Ok(None));
        reader.feed(Bytes::copy_from_slice(piece));
    }
    assert_eq!(reader.next_event().unwrap().unwrap().into_raw(), event);
}

#[test]
fn whole_events_are_slices_of_the_chunk() {
    let chunk = Bytes::from("data: a\n\nevent: x\ndata: b\n\n".to_owned());
    let mut reader = Reader::default();
    reader.feed(chunk.clone());
    let mut at = chunk.as_ptr().addr();
    while let Some(event) = reader.next_event().unwrap() {
        assert_eq!(event.raw().as_ptr().addr(), at);
        at += event.raw().len();
    }
    assert_eq!(at, chunk.as_ptr_range().end.addr());
    assert!(reader.is_between_events());
}

#[test]
fn a_reader_between_events_holds_no_memory() {
    let mut reader = Reader::default();
    for piece in ["data: ", &"x".repeat(100_000), "\n"] {
        reader.feed(Bytes::from(piece.to_owned()));
        assert_eq!(reader.next_event(), Ok(None));
    }
    assert_eq!(reader.held(), 100_007);
    assert!(!reader.is_between_events());
    reader.feed(Bytes::from_static(b"\ndata"));
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!(event.data().map(<[u8]>::len), Some(100_000));
    assert_eq!(reader.carry.capacity(), 0);
    assert_eq!(reader.held(), 4);
}

#[test]
fn an_event_over_the_limit_ends_the_reading() {
    let check = |limit: usize, fits: bool| {
        let mut reader = Reader::new(limit);
        reader.feed(Bytes::from_static(b"data: 12345\n"));
        let first = reader.next_event();
        reader.feed(Bytes::from_static(b"\ndata: x\n\n"));
        let second = reader.next_event();
        if fits {
            assert_eq!(first, Ok(None));
            assert_eq!(second.unwrap().unwrap().data(), Some(b"12345".as_slice()));
            return;
        }
        let error = Err(EventTooLarge { limit });
        assert_eq!(second, error);
        // It stays broken and gives its memory back.
        reader.feed(Bytes::from_static(b"data: y\n\n"));
        assert_eq!(reader.next_event(), error);
        assert_eq!(reader.finish(), error);
        assert_eq!(reader.carry.capacity(), 0);
    };
    check(MAX_EVENT, true);
    check(13, true);
    check(12, false);
    check(3, false);
}

#[test]
fn feeding_before_all_was_taken_loses_nothing() {
    let mut reader = Reader::default();
    reader.feed(Bytes::from_static(b"data: a\n\ndata: b"));
    reader.feed(Bytes::from_static(b"c\n\n"));
    let first = reader.next_event().unwrap().unwrap();
    let second = reader.next_event().unwrap().unwrap();
    assert_eq!(
        (first.data(), second.data()),
        (Some(b"a".as_slice()), Some(b"bc".as_slice()))
    );
    assert_eq!(reader.next_event(), Ok(None));
}

/// All files under `folder` that hold event streams.
fn streams(folder: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(streams(&path.to_string_lossy()));
        } else if path.to_string_lossy().contains("stream") && name.ends_with(".txt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn recorded_streams_read_the_same_however_they_are_cut() {
    let fixtures = streams(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures"));
    assert!(fixtures.len() >= 15);
    for path in fixtures {
        let stream = Bytes::from(fs::read(&path).unwrap());
        let whole = read_all(str::from_utf8(&stream).unwrap());
        for at in 0..=stream.len() {
            let mut reader = Reader::default();
            let mut events = Vec::new();
            for piece in [stream.slice(..at), stream.slice(at..)] {
                reader.feed(piece);
                events.extend(std::iter::from_fn(|| reader.next_event().unwrap()));
            }
            events.extend(reader.finish().unwrap());
            assert_eq!(events, whole, "{} cut at {at}", path.display());
        }
    }
}

#[test]
fn all_captured_streams_are_read_like_by_a_plain_reader() {
    let captures = streams(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures"));
    if captures.is_empty() {
        println!("skipped: the captures are not here");
    }
    for path in captures {
        fuzz_sse(&fs::read(&path).unwrap());
    }
}
