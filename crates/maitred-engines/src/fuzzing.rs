//! Bodies of the fuzz targets. Plain functions, so that a fuzzer and the corpus test run the same code.

use crate::{BodyEnd, Engine, Figure, Scanner, StreamJudge, UpstreamErrorBody, judge_body, judge_models};

/// Any bytes as a metrics page, for every engine: no panic, and the second scan of a scanner says what the first said.
pub fn fuzz_page(data: &[u8]) {
    for &engine in Engine::ALL {
        let mut scanner = Scanner::new(&engine.mapping());
        let first = scanner.scan(data);
        assert_eq!(first, scanner.scan(data), "{engine}");
    }
}

/// Any bytes as the events of a stream, one a line: no panic, and a judge that has seen an error never says "complete".
pub fn fuzz_stream(data: &[u8]) {
    let mut judge = StreamJudge::new(Engine::Vllm);
    let mut failed = false;
    for line in data.split(|byte| *byte == b'\n') {
        let verdict = judge.judge_event(line);
        failed |= matches!(verdict, crate::EventVerdict::Error(_) | crate::EventVerdict::Aborted);
    }
    let complete = judge.end(BodyEnd::Clean) == crate::EndVerdict::Complete;
    assert!(!(failed && complete), "a failed stream passed for a complete one");
}

/// Any bytes as a body: no panic, and whatever is kept is bounded.
pub fn fuzz_body(data: &[u8]) {
    let read = UpstreamErrorBody::read(data);
    assert!(read.message.len() <= crate::MAX_EXCERPT);
    std::hint::black_box((judge_body(data), judge_models(data, "tiny").is_ok()));
}

/// Any text as a figure: no panic, and what is read prints to something that reads the same.
pub fn fuzz_figure(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(figure) = Figure::parse(text) {
        assert_eq!(Figure::parse(&figure.to_string()), Ok(figure));
    }
}

/// Any bytes as a batch of KV events, and as what comes in over the wire: no panic, what was read is written and read the same,
/// and no more blocks are known than were told.
pub fn fuzz_kv_events(data: &[u8]) {
    use crate::kv_events::{KvBatch, KvEvent, KvMessage, KvTrack, zmtp};
    if let Ok(batch) = KvBatch::read(data) {
        let told = batch.events.iter().map(|event| match event {
            KvEvent::Stored(stored) => stored.hashes.len(),
            KvEvent::Removed(_) | KvEvent::Cleared => 0,
        });
        let told: usize = told.sum();
        let mut track = KvTrack::new();
        let change = track.take(1, &batch);
        assert!(track.known() <= told && change.stored as usize <= told);
        let known = KvBatch {
            passed_over: 0,
            at: batch.at.filter(|at| !at.is_nan()),
            ..batch
        };
        let again = KvBatch::read(&known.write()).map(|again| again.events.len());
        assert_eq!(again, Ok(known.events.len()));
    }
    let mut decoder = zmtp::Decoder::new(1 << 16);
    decoder.feed(data);
    while let Ok(Some(incoming)) = decoder.poll() {
        std::hint::black_box(incoming.reply());
        if let zmtp::Incoming::Message(frames) = incoming {
            let frames: Vec<_> = frames.iter().map(Vec::as_slice).collect();
            std::hint::black_box(KvMessage::read(&frames));
        }
    }
}
