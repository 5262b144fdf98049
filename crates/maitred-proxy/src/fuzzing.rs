//! The body of a fuzz target. The fuzzer, the tests that run the seeds in `corpus/` and the property tests share it; it panics
//! when a promise of this crate is broken. None of this is for use in the gateway.

use crate::answer::{AnswerReader, Asked};
use crate::framing::Framing;

/// Name and value of a header.
type Field = (String, Vec<u8>);

/// Everything that can be read of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Transcript {
    /// `None` when there was no well-formed head.
    pub(crate) head: Option<(u16, Vec<Field>)>,
    pub(crate) payload: Vec<u8>,
    pub(crate) is_complete: bool,
    pub(crate) is_reusable: bool,
}

/// Reads the bytes of a connection to its end.
pub(crate) fn transcribe<'a>(asked: Asked, reads: impl Iterator<Item = &'a [u8]>) -> Transcript {
    let mut reader = AnswerReader::new();
    reader.expect(asked);
    let mut transcript = Transcript {
        head: None,
        payload: Vec::new(),
        is_complete: false,
        is_reusable: false,
    };
    for read in reads.filter(|read| !read.is_empty()) {
        if transcript.head.is_some() {
            let payload = reader.body(read);
            transcript.payload.extend_from_slice(&payload);
            continue;
        }
        match reader.head(read) {
            Ok(Some(head)) => {
                let fields = head.headers.iter();
                let fields = fields.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
                transcript.head = Some((head.status.as_u16(), fields.collect()));
                transcript.payload.extend_from_slice(&reader.take_ready());
            }
            Ok(None) => {}
            Err(_malformed) => return transcript,
        }
    }
    transcript.is_reusable = reader.is_between_answers();
    reader.close();
    transcript.is_complete = transcript.head.is_some() && *reader.framing() == Framing::Ended;
    transcript
}

/// Cuts `bytes` into short reads, as `seed` says.
fn cuts(mut bytes: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(seed);
    std::iter::from_fn(move || {
        // A linear congruential step (Numerical Recipes' constants); the high bits are the good ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = 1 + (state >> 27) as usize;
        let (read, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
        bytes = rest;
        (!read.is_empty()).then_some(read)
    })
}

/// An answer is read alike however its bytes are cut, and no payload is invented. The first byte seeds the cuts; the rest is
/// what the connection gives.
pub fn fuzz_answer(data: &[u8]) {
    let (seed, bytes) = data.split_first().unwrap_or((&0, &[]));
    for asked in [Asked::Whole, Asked::Head] {
        let whole = transcribe(asked, std::iter::once(bytes));
        let single = transcribe(asked, bytes.chunks(1));
        assert_eq!(whole, single, "{asked:?}, byte by byte");
        let cut = transcribe(asked, cuts(bytes, *seed));
        assert_eq!(whole, cut, "{asked:?}, cut by seed {seed}");
        assert!(whole.payload.len() <= bytes.len(), "payload out of nothing");
        assert!(
            whole.head.is_some() || whole.payload.is_empty(),
            "a body without a head"
        );
        assert!(
            asked == Asked::Whole || whole.payload.is_empty(),
            "a body nobody asked for"
        );
    }
}
