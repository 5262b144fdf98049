use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::fuzzing::{Transcript, fuzz_answer, transcribe};

fn read(bytes: &str) -> Transcript {
    transcribe(Asked::Whole, std::iter::once(bytes.as_bytes()))
}

/// What is expected of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    /// The payload, and whether the connection can be used again.
    Complete(&'static str, Reuse),
    /// It breaks off after this payload.
    Broken(&'static str),
    /// There is no head.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reuse {
    Yes,
    No,
}

use Expected::{Broken, Complete, Refused};

/// Answers that hyper's client reads alike.
const AGREED: &[(&str, Expected)] = &[
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        Complete("hello", Reuse::Yes),
    ),
    ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Complete("", Reuse::Yes)),
    (
        "HTTP/1.1 200\r\nContent-Length:5\r\n\r\nhello",
        Complete("hello", Reuse::Yes),
    ),
    ("HTTP/1.1 200 OK\ncontent-length: 2\n\nok", Complete("ok", Reuse::Yes)),
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello",
        Complete("hello", Reuse::Yes),
    ),
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
        Complete("hello", Reuse::No),
    ),
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
        Complete("ok", Reuse::No),
    ),
    (
        "HTTP/1.1 200 OK\r\n\r\nuntil the end",
        Complete("until the end", Reuse::No),
    ),
    (
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        Complete("ok", Reuse::No),
    ),
    (
        "HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok",
        Complete("ok", Reuse::Yes),
    ),
    ("HTTP/1.1 204 No Content\r\n\r\n", Complete("", Reuse::Yes)),
    (
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n",
        Complete("", Reuse::Yes),
    ),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        Complete("ok", Reuse::Yes),
    ),
    (
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        Complete("", Reuse::Yes),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Complete("hello", Reuse::Yes),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        Complete("hello world", Reuse::Yes),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;name=value\r\nhello\r\n000;last\r\n\r\n",
        Complete("hello", Reuse::Yes),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5  \r\nhello\r\n0\r\n\r\n",
        Complete("hello", Reuse::Yes),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",
        Complete("0123456789", Reuse::Yes),
    ),
    // An end that is missing.
    ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", Broken("hell")),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        Broken("hel"),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        Broken("hello"),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        Broken("hello"),
    ),
    // Chunks that are none.
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        Broken(""),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
        Broken(""),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        Broken(""),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        Broken(""),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
        Broken(""),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
        Broken("hello"),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\n\n0\r\n\r\n",
        Broken("hello"),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
        Broken(""),
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\rhello\r\n0\r\n\r\n",
        Broken(""),
    ),
    // Heads that are none.
    ("", Refused),
    ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n", Refused),
    ("HTTP/2.0 200 OK\r\n\r\n", Refused),
    ("SSH-2.0-OpenSSH_9.2\r\n", Refused),
    ("HTTP/1.1 20x OK\r\n\r\n", Refused),
    (
        "HTTP/1.1 200 OK\r\nx: a\r\n folded\r\ncontent-length: 0\r\n\r\n",
        Refused,
    ),
    ("HTTP/1.1 200 OK\r\nx: a\rb\r\ncontent-length: 0\r\n\r\n", Refused),
    ("HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n", Refused),
    ("HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n", Refused),
    ("HTTP/1.1 200 OK\r\n: 0\r\n\r\n", Refused),
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        Refused,
    ),
    ("HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello", Refused),
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nhello",
        Refused,
    ),
    (
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused,
    ),
];

/// Answers that hyper's client reads in some way, and that are ambiguous or unasked for.
const STRICTER: &[&str] = &[
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello",
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
];

#[test]
fn an_answer_ends_where_its_framing_says() {
    for (bytes, expected) in AGREED {
        let found = read(bytes);
        let payload = String::from_utf8(found.payload).unwrap();
        let (is_complete, is_reusable) = (found.is_complete, found.is_reusable);
        let as_expected = match *expected {
            Complete(text, reuse) => is_complete && payload == text && is_reusable == (reuse == Reuse::Yes),
            Broken(text) => found.head.is_some() && !is_complete && !is_reusable && payload == text,
            Refused => found.head.is_none() && !is_complete && !is_reusable && payload.is_empty(),
        };
        assert!(
            as_expected,
            "{bytes:?}: expected {expected:?}, found {payload:?}, complete {is_complete}, reusable {is_reusable}"
        );
    }
}

#[test]
fn an_ambiguous_answer_is_refused() {
    for bytes in STRICTER {
        assert_eq!(read(bytes).head, None, "{bytes:?}");
    }
}

/// Status and payload as hyper's client reads them from a connection; `None` for the status when it gives no answer, and for the
/// payload when it breaks off.
async fn hyper_reads(bytes: &str) -> (Option<u16>, Option<Vec<u8>>) {
    use http_body_util::{BodyExt as _, Empty};
    let (near, mut far) = tokio::io::duplex(64 << 10);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    let request = http::Request::get("/").body(Empty::<Bytes>::new()).unwrap();
    let exchange = async {
        let response = sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut payload = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => payload.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(_broken) => return Some((status, None)),
            }
        }
        Some((status, Some(payload)))
    };
    let endpoint = async {
        // Not before the request: what comes earlier is nobody's answer.
        let mut asked = [0; 4];
        far.read_exact(&mut asked).await.unwrap();
        far.write_all(bytes.as_bytes()).await.unwrap();
        drop(far);
    };
    let (_ended, answer, ()) = tokio::join!(connection, exchange, endpoint);
    match answer {
        Some((status, payload)) => (Some(status), payload),
        None => (None, None),
    }
}

#[tokio::test]
async fn hyper_reads_the_same_answers() {
    for (bytes, expected) in AGREED {
        let (status, payload) = hyper_reads(bytes).await;
        let own = read(bytes);
        assert_eq!(status, own.head.map(|(status, _)| status), "{bytes:?}: {expected:?}");
        assert_eq!(
            payload,
            own.is_complete.then_some(own.payload),
            "{bytes:?}: {expected:?}"
        );
    }
    // The negative control: where the two are meant to differ, this test would see it.
    for bytes in STRICTER {
        assert!(
            hyper_reads(bytes).await.0.is_some(),
            "hyper refuses this too: {bytes:?}"
        );
    }
}

#[test]
fn an_answer_to_a_question_for_the_head_has_no_body() {
    let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    let found = transcribe(Asked::Head, std::iter::once(&bytes[..]));
    assert!(found.is_complete && found.is_reusable);
    assert!(!transcribe(Asked::Whole, std::iter::once(&bytes[..])).is_complete);
}

#[test]
fn everything_from_outside_has_a_bound() {
    let long = |count: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n",
            "a".repeat(count)
        )
    };
    let many = |count: usize| {
        format!(
            "HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n",
            "x: a\r\n".repeat(count)
        )
    };
    let extended = |count: usize| {
        let extension = "e".repeat(count);
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;{extension}\r\na\r\n0\r\n\r\n")
    };
    let check = |bytes: &str, is_complete: bool| {
        assert_eq!(read(bytes).is_complete, is_complete, "{} bytes", bytes.len());
        let cut = transcribe(Asked::Whole, bytes.as_bytes().chunks(1000));
        assert_eq!(cut.is_complete, is_complete, "{} bytes in pieces", bytes.len());
    };
    check(&long(HEAD_MAX - 100), true);
    check(&long(HEAD_MAX), false);
    check(&many(FIELDS_MAX - 1), true);
    check(&many(FIELDS_MAX), false);
    check(&"HTTP/1.1 100 Continue\r\n\r\n".repeat(HEAD_MAX / 10), false);
    check(&extended(16 << 10), true);
    check(&extended((16 << 10) + 1), false);
}

#[test]
fn the_seeds_of_the_fuzzer_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/response");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        fuzz_answer(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 10, "{count} seeds");
    for (bytes, _) in AGREED {
        fuzz_answer(format!("7{bytes}").as_bytes());
    }
}

/// Pieces of answers, sound and not, from which every confusion can be put together.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => proptest::sample::select(vec![
            "HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 204 No\r\n",
            "content-length: 5\r\n", "content-length: 0\r\n", "transfer-encoding: chunked\r\n", "connection: close\r\n",
            "x: y\r\n", "\r\n", "\r", "\n", "5\r\nhello\r\n", "5;e=1\r\nhello\r\n", "0\r\n\r\n", "0\r\nx: y\r\n\r\n",
            "hello", "ffffffffffffffff\r\n", " ", "3\r\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    let begin = proptest::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "",
    ]);
    (begin, proptest::collection::vec(part, 0..16))
        .prop_map(|(begin, parts)| [begin.as_bytes(), &parts.concat()].concat())
}

proptest! {
    #[test]
    fn however_bytes_are_cut_the_answer_is_the_same(seed in any::<u8>(), bytes in answers()) {
        fuzz_answer(&[&[seed][..], &bytes].concat());
    }

    #[test]
    fn any_payload_in_any_chunks_is_read_back(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..12),
        seed in any::<u8>(),
    ) {
        let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for chunk in &chunks {
            bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        let found = transcribe(Asked::Whole, bytes.chunks(1 + usize::from(seed)));
        prop_assert!(found.is_complete && found.is_reusable);
        prop_assert_eq!(found.payload, chunks.concat());
    }
}
