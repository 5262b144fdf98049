//! Running over the inside of JSON strings, many bytes at a time.
//!
//! A string holds three things that matter: its closing quote, escapes, and control characters (which must not be there). All
//! else is skipped with ordinary integer arithmetic on eight bytes at once, and on plain stretches with a fold over blocks that
//! the compiler turns into vector instructions of whatever width the target has.

/// Bytes per word of the near search.
const WORD: usize = 8;
/// Words looked at one by one before blocks are tried: most strings of source code end or escape within so many.
const NEAR_WORDS: usize = 4;
/// Bytes per block of the far search.
const BLOCK: usize = 64;

const QUOTE: u64 = repeat(b'"');
const BACKSLASH: u64 = repeat(b'\\');
/// Flips quote (0x22) and space (0x20) with their neighbours, so that the quote falls just above the control characters.
const FOLD: u64 = repeat(0x02);
const ABOVE_FOLDED: u64 = repeat(0x21);
const ONES: u64 = repeat(0x01);
const HIGH: u64 = repeat(0x80);

const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; WORD])
}

/// Whether bytes of 0x80 and above stop the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// They do: nothing but ASCII has been seen so far.
    Ascii,
    /// They do not: the whole body is checked as UTF-8 anyway.
    Any,
}

/// How far a walk over the inside of a string came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// The offset of the byte it stopped at.
    pub(crate) at: usize,
    /// Whether it passed an escape.
    pub(crate) escaped: bool,
    /// Whether one of them was `\/`, the only one of two bytes that could have been left out.
    pub(crate) slashed: bool,
}

/// Runs over text and plain escapes from `at` on. Stops at a quote, a control character, a backslash that begins no escape of two
/// bytes, with [`Alphabet::Ascii`] at a byte of 0x80 or above, and at the end of `bytes`.
pub(crate) fn skip_text(bytes: &[u8], at: usize, alphabet: Alphabet) -> Stop {
    match alphabet {
        Alphabet::Ascii => skip::<true>(bytes, at),
        Alphabet::Any => skip::<false>(bytes, at),
    }
}

fn skip<const ASCII: bool>(bytes: &[u8], mut at: usize) -> Stop {
    let (mut escaped, mut slashed) = (false, false);
    loop {
        at = find::<ASCII>(bytes, at);
        match bytes.get(at..at + 2) {
            Some([b'\\', b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't']) => escaped = true,
            Some(b"\\/") => (escaped, slashed) = (true, true),
            _ => return Stop { at, escaped, slashed },
        }
        at += 2;
    }
}

/// The offset of the first byte at or after `at` that is a quote, a backslash, a control character or (with `ASCII`) not ASCII;
/// the length of `bytes` when there is none.
#[inline]
fn find<const ASCII: bool>(bytes: &[u8], mut at: usize) -> usize {
    loop {
        for _ in 0..NEAR_WORDS {
            let Some(word) = chunk_at::<WORD>(bytes, at) else {
                return find_in_tail::<ASCII>(bytes, at);
            };
            let stops = stops_in_word::<ASCII>(u64::from_le_bytes(*word));
            if stops != 0 {
                return at + (stops.trailing_zeros() / u8::BITS) as usize;
            }
            at += WORD;
        }
        while chunk_at::<BLOCK>(bytes, at).is_some_and(is_clear::<ASCII>) {
            at += BLOCK;
        }
    }
}

fn chunk_at<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// The high bit of each byte that stops the search. Bits above the lowest set one may be wrong (a borrow runs upwards), so only
/// the lowest means something.
const fn stops_in_word<const ASCII: bool>(word: u64) -> u64 {
    let folded = word ^ FOLD;
    let slashed = word ^ BACKSLASH;
    let below = folded.wrapping_sub(ABOVE_FOLDED);
    let zero = slashed.wrapping_sub(ONES);
    let stops = if ASCII {
        below | zero | word
    } else {
        (below & !folded) | (zero & !slashed)
    };
    stops & HIGH
}

fn is_clear<const ASCII: bool>(block: &[u8; BLOCK]) -> bool {
    let stops = block
        .iter()
        .fold(0_u8, |seen, &byte| seen | u8::from(is_stop::<ASCII>(byte)));
    stops == 0
}

const fn is_stop<const ASCII: bool>(byte: u8) -> bool {
    let folded = byte ^ 0x02;
    let below = if ASCII {
        folded.cast_signed() < 0x21
    } else {
        folded < 0x21
    };
    below | (byte == b'\\')
}

fn find_in_tail<const ASCII: bool>(bytes: &[u8], at: usize) -> usize {
    let tail = bytes.get(at..).unwrap_or_default();
    let found = tail.iter().position(|&byte| is_stop::<ASCII>(byte));
    found.map_or(bytes.len(), |offset| at + offset)
}

const _: () = assert!(
    QUOTE ^ FOLD == repeat(0x20),
    "the folded quote lies just below the bound"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(bytes: &[u8], at: usize, alphabet: Alphabet) -> usize {
        let stops =
            |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20 || (alphabet == Alphabet::Ascii && byte >= 0x80);
        (at..bytes.len()).find(|&at| stops(bytes[at])).unwrap_or(bytes.len())
    }

    fn check(bytes: &[u8], from: usize) {
        for alphabet in [Alphabet::Ascii, Alphabet::Any] {
            let found = match alphabet {
                Alphabet::Ascii => find::<true>(bytes, from),
                Alphabet::Any => find::<false>(bytes, from),
            };
            assert_eq!(found, slow(bytes, from, alphabet), "{bytes:?} from {from} {alphabet:?}");
        }
    }

    #[test]
    fn every_byte_at_every_place_is_found_or_passed() {
        for byte in 0..=u8::MAX {
            for place in 0..140 {
                let mut bytes = vec![b' '; 150];
                // The odd byte behind it must not be found first.
                bytes[place..place + 2].copy_from_slice(&[byte, 0xff]);
                check(&bytes, 0);
            }
        }
    }

    #[test]
    fn plain_escapes_are_passed() {
        let check = |text: &str, at: usize, escaped: bool| {
            for alphabet in [Alphabet::Ascii, Alphabet::Any] {
                let slashed = text.contains("\\/");
                let stop = Stop { at, escaped, slashed };
                assert_eq!(skip_text(text.as_bytes(), 0, alphabet), stop, "{text:?}");
            }
        };
        check("", 0, false);
        check("abc", 3, false);
        check("a\\\"b\"c", 4, true);
        check("\\\\\"", 2, true);
        check("\\b\\f\\n\\r\\t\\/x\n", 13, true);
        check("a\\u0041\"", 1, false);
        check("a\\n\\x\"", 3, true);
        check("a\\", 1, false);
        check(&"\\n".repeat(50), 100, true);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_the_slow_search(bytes: Vec<u8>, from: proptest::sample::Index) {
            check(&bytes, from.index(bytes.len() + 1));
        }
    }
}
