//! Bodies of the fuzz targets. They are shared by the fuzzer, by the tests that run the seeds in `corpus/`, and by the property
//! tests; each panics when a promise of this crate is broken. None of this is for use in the gateway.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::sse::{Event, Reader};
use crate::{
    AnswerTap, BodyError, BodyView, CallKind, ChainRule, Edits, MAX_DEPTH, MAX_MEMBER, PromptText, Spliced, UsageAsk,
    estimate_tokens, scan,
};

/// A name that needs escapes.
const NEW_MODEL: &str = "acme/\"tiny\"\n\u{e9}";

/// The request scanner accepts what `serde_json` accepts and reads the same from it, and its splices change what they should and
/// nothing else.
pub fn fuzz_request_scanner(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    let is_sound = str::from_utf8(data).is_ok()
        && data.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<IgnoredAny>(data).is_ok();
    match scan(&body) {
        Ok(view) => {
            assert!(is_sound, "accepted what is no JSON object");
            check_splice(&view);
            // Lone surrogates and numbers beyond every type are JSON, but no tree can hold them.
            if let Ok(tree) = serde_json::from_slice::<Value>(data) {
                check_fields(&view, &tree);
                check_edited(&view, tree);
            }
        }
        Err(error) => check_refusal(&error, data, is_sound),
    }
}

fn check_refusal(error: &BodyError, data: &[u8], is_sound: bool) {
    match error {
        BodyError::Utf8 { at } => {
            let bad = str::from_utf8(data).err().map(|error| error.valid_up_to());
            assert_eq!(bad, Some(*at));
        }
        BodyError::Syntax { expected, .. } => {
            assert!(!is_sound || expected.contains("surrogates"), "refused a JSON object");
        }
        BodyError::TooDeep { .. } => {
            let opened = data.iter().filter(|byte| b"{[".contains(byte)).count();
            assert!(opened > MAX_DEPTH as usize, "found depth where there is none");
        }
        // These are found on the way, so they say nothing about the rest.
        BodyError::Field { at, .. } | BodyError::Duplicate { at, .. } => assert!(*at < data.len()),
        BodyError::MissingModel => assert!(data.is_empty(), "the scanner itself does not ask for a model"),
    }
}

fn check_fields(view: &BodyView, tree: &Value) {
    assert_eq!(view.model(), tree["model"].as_str());
    assert_eq!(view.user().as_deref(), tree["user"].as_str());
    assert_eq!(view.wants_stream(), tree["stream"] == true);
    assert_eq!(view.wants_usage(), tree["stream_options"]["include_usage"] == true);
    let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let said = limits.iter().filter_map(|name| tree[name].as_u64()).max();
    if limits.iter().all(|name| tree[name].is_null() || tree[name].is_u64()) {
        assert_eq!(view.output_limit(CallKind::Other), said);
    }
    if tree["n"].is_u64() && tree.get("best_of").is_none() {
        let prompts = tree["prompt"].as_array().map_or(1, Vec::len) as u64;
        let each = tree["n"].as_u64().unwrap_or(1).max(1);
        assert!(
            (each..=each.saturating_mul(prompts.max(1))).contains(&view.choices())
                || tree.get("prompt_embeds").is_some()
        );
    }
    let spans = [
        ("messages", view.messages()),
        ("prompt", view.prompt()),
        ("input", view.input()),
        ("tools", view.tools()),
    ];
    for (name, span) in spans {
        let found = span.map(|span| serde_json::from_slice::<Value>(view.raw(span)).ok());
        assert_eq!(found, tree.get(name).cloned().map(Some), "{name}");
    }
    let tokens = estimate_tokens(view).get() as usize;
    assert!(
        tokens <= 2 * view.body().len(),
        "no token without a byte, nor media without a kilobyte"
    );
}

/// The bytes that were there before are the same bytes, at the same place in memory, and only what was replaced is missing.
fn check_splice(view: &BodyView) {
    let mut edits = Edits::new(view);
    assert!(edits.is_empty());
    assert_eq!(join(&edits.apply()), *view.body());
    edits.set_model(NEW_MODEL);
    edits.ask_for_usage(CallKind::Chat);
    let spliced = edits.apply();
    assert_eq!(spliced.len(), join(&spliced).len());
    let old = view.body().as_ptr_range();
    let kept = |segment: &&Bytes| old.contains(&segment.as_ptr());
    let kept: Vec<_> = spliced.segments().iter().filter(kept).collect();
    let mut from = 0;
    for segment in &kept {
        let place = segment.as_ptr().addr() - old.start.addr();
        assert!(place >= from, "pieces out of order");
        from = place + segment.len();
    }
    let lost = view.body().len() - kept.iter().map(|segment| segment.len()).sum::<usize>();
    let model = view.model_span().map_or(0, crate::Span::len);
    assert!(lost <= model + "false".len(), "lost {lost} bytes");
}

fn check_edited(view: &BodyView, mut tree: Value) {
    let mut edits = Edits::new(view);
    edits.set_model(NEW_MODEL);
    let ask = edits.ask_for_usage(CallKind::Chat);
    if tree.get("model").is_some() {
        tree["model"] = NEW_MODEL.into();
    }
    if ask == UsageAsk::ByGateway {
        tree["stream_options"]["include_usage"] = true.into();
    }
    let edited = join(&edits.apply());
    assert_eq!(serde_json::from_slice::<Value>(&edited).ok(), Some(tree));
}

fn join(spliced: &Spliced) -> Vec<u8> {
    spliced.segments().concat()
}

/// The events are the same for every way to cut a stream, they are those of a plain reading of the grammar, and joined they are the
/// stream. The first byte of `data` seeds the cuts.
pub fn fuzz_sse(data: &[u8]) {
    let (seed, stream) = data.split_first().map_or((0, data), |(seed, rest)| (*seed, rest));
    let (whole, error) = read(stream, usize::MAX, |_| usize::MAX);
    assert!(!error);
    let joined: Vec<u8> = whole.iter().flat_map(|event| event.raw().to_vec()).collect();
    assert_eq!(joined, stream);
    assert_eq!(whole.len(), check_reference(&whole, stream));
    for limit in [usize::MAX, 40] {
        let expected: Vec<_> = whole.iter().take_while(|event| event.raw().len() <= limit).collect();
        let too_large = expected.len() < whole.len();
        let mut random = u64::from(seed) + 1;
        let cuts: [&mut dyn FnMut(usize) -> usize; 4] = [&mut |_| usize::MAX, &mut |_| 1, &mut |_| 2, &mut |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::from(random.to_be_bytes()[0] % 60) + 1
        }];
        for cut in cuts {
            let (events, error) = read(stream, limit, cut);
            assert_eq!(events.iter().collect::<Vec<_>>(), expected);
            assert_eq!(error, too_large);
        }
    }
}

/// All events of a stream that is fed in pieces, and whether reading ended with an error.
fn read(stream: &[u8], limit: usize, mut piece_len: impl FnMut(usize) -> usize) -> (Vec<Event>, bool) {
    let mut reader = Reader::new(limit);
    let mut events = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let len = piece_len(at).min(stream.len() - at);
        reader.feed(Bytes::copy_from_slice(&stream[at..at + len]));
        at += len;
        loop {
            match reader.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, true),
            }
        }
        assert!(reader.held() <= limit);
    }
    let last = reader.finish();
    let failed = last.is_err();
    events.extend(last.ok().flatten());
    (events, failed)
}

/// Compares with a reading of the grammar line by line. Returns the number of events there should be.
fn check_reference(events: &[Event], stream: &[u8]) -> usize {
    let mut count = 0;
    let mut at = 0;
    while at < stream.len() {
        let mut data: Option<Vec<u8>> = None;
        let mut name: Option<Vec<u8>> = None;
        let mut is_complete = false;
        let start = at;
        while at < stream.len() && !is_complete {
            let (mut line, next) = next_line(stream, at);
            is_complete = line.is_empty() && next > at;
            if at == 0 {
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            at = next;
            let colon = line.iter().position(|byte| *byte == b':');
            let (key, value) = line.split_at(colon.unwrap_or(line.len()));
            let value = value.strip_prefix(b":").unwrap_or(value);
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match (key, &mut data) {
                (b"data", None) => data = Some(value.to_vec()),
                (b"data", Some(data)) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                (b"event", _) => name = Some(value.to_vec()),
                _ => {}
            }
        }
        let event = events.get(count);
        assert_eq!(event.map(|event| event.raw().as_ref()), stream.get(start..at));
        assert_eq!(event.and_then(Event::data), data.as_deref());
        assert_eq!(event.and_then(Event::name), name.as_deref());
        assert_eq!(event.map(Event::is_complete), Some(is_complete));
        count += 1;
    }
    count
}

fn next_line(stream: &[u8], at: usize) -> (&[u8], usize) {
    let mut end = at;
    while end < stream.len() && !b"\r\n".contains(&stream[end]) {
        end += 1;
    }
    let terminator = match stream.get(end..) {
        Some([b'\r', b'\n', ..]) => 2,
        Some([_, ..]) => 1,
        _ => 0,
    };
    (&stream[at..end], end + terminator)
}

/// What the answer tap finds does not depend on how an answer is cut, and is what `serde_json` finds.
pub fn fuzz_answer(data: &[u8]) {
    let mut whole = AnswerTap::new();
    whole.feed(data);
    for len in [1, 3, 37] {
        let mut cut = AnswerTap::new();
        for piece in data.chunks(len) {
            cut.feed(piece);
        }
        assert_eq!(cut.reported(), whole.reported());
        assert_eq!(cut.error(), whole.error());
        assert_eq!(cut.model(), whole.model());
        assert_eq!(cut.len(), whole.len());
    }
    // The tap knows keys by their bytes, and caps what it keeps.
    if data.contains(&b'\\') || data.len() > MAX_MEMBER {
        return;
    }
    if let Ok(tree) = serde_json::from_slice::<Value>(data) {
        let error = whole.error().map(|error| serde_json::from_slice(error).ok());
        assert_eq!(error.unwrap_or(Some(Value::Null)).as_ref(), Some(&tree["error"]));
        assert_eq!(whole.model().as_deref(), tree["model"].as_str());
    }
}

/// A body has the same chain however it is spelled, and any bytes are an answer that does no harm.
pub fn fuzz_chain(data: &[u8]) {
    let seed = data.len().to_le_bytes()[0];
    let chain = |body: Vec<u8>, kind| {
        let view = scan(&Bytes::from(body)).ok()?;
        PromptText::read(&view, kind, ChainRule::new("m", None, 2))
    };
    for kind in CallKind::ALL {
        let Some(mut text) = chain(data.to_vec(), kind) else {
            continue;
        };
        let respelled = chain(respell(data, seed), kind).map(|text| text.chain(crate::TokenRatio::default()));
        assert_eq!(respelled, Some(text.chain(crate::TokenRatio::default())), "{kind:?}");
        let Some(mut reply) = text.take_reply() else { continue };
        let mut stream = reply.clone();
        reply.whole(data);
        for event in read(data, usize::MAX, |_| usize::MAX).0 {
            stream.event(&event);
        }
        for extended in [reply.finish(1.0), stream.finish(1.0)].into_iter().flatten() {
            let prompt = text.chain(crate::TokenRatio::default());
            assert!(extended.hashes().starts_with(prompt.hashes()));
        }
    }
}

/// The same JSON with other whitespace and other escapes.
pub(crate) fn respell(json: &[u8], seed: u8) -> Vec<u8> {
    let mut spelled = Vec::new();
    let mut at = 0;
    let mut random = seed;
    while let Some(byte) = json.get(at) {
        random = random.wrapping_mul(77).wrapping_add(13);
        if *byte != b'"' {
            if b"{}[]:,".contains(byte) && random & 64 != 0 {
                spelled.extend_from_slice(if random & 32 != 0 { b" " } else { b"\n\t" });
            }
            spelled.push(*byte);
            at += 1;
            continue;
        }
        let start = at;
        at += 1;
        while json.get(at).is_some_and(|byte| *byte != b'"') {
            at += if json[at] == b'\\' { 2 } else { 1 };
        }
        at = (at + 1).min(json.len());
        let raw = &json[start..at];
        match serde_json::from_slice::<String>(raw) {
            Ok(text) => {
                let units: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
                let escaped = format!("\"{}\"", units.concat());
                spelled.extend_from_slice(if random & 16 != 0 { escaped.as_bytes() } else { raw });
            }
            Err(_) => spelled.extend_from_slice(raw),
        }
    }
    spelled
}

#[cfg(test)]
mod tests;
