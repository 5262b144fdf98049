//! Where the body of an answer ends (RFC 9112 sections 6 and 7), and what of its bytes is payload.
//!
//! Whoever reads an end where the sender did not put one takes the rest for the next answer, and gives it to another caller.
//! So nothing here is lenient: what is ambiguous is broken, and the connection with it.

use std::fmt;

use smallvec::SmallVec;

/// Bytes of chunk extensions and trailers that one body may have; all of them are dropped.
const EXTRAS_MAX: u32 = 16 << 10;

/// Payload found in one read, in order.
pub(crate) type Pieces<'a> = SmallVec<[&'a [u8]; 8]>;

/// Bytes that are no answer of HTTP/1, and what is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// How the end of a body is found, and how far it has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes are to come; never zero.
    Length(u64),
    /// In chunks.
    Chunked(Chunks),
    /// The connection ends with it.
    UntilClose,
    /// There is no more.
    Ended,
    /// There is no telling.
    Broken(Malformed),
}

impl Framing {
    /// A body of `length` bytes.
    pub(crate) const fn length(length: u64) -> Self {
        if length == 0 { Self::Ended } else { Self::Length(length) }
    }

    /// A body in chunks, from its start.
    pub(crate) const fn chunked() -> Self {
        Self::Chunked(Chunks {
            place: Place::FirstDigit,
            size: 0,
            extras: 0,
        })
    }

    /// Reads on, adds what is payload to `pieces`, and says how many bytes belong to the body.
    pub(crate) fn take<'a>(&mut self, input: &'a [u8], pieces: &mut Pieces<'a>) -> usize {
        match self {
            Self::Length(left) => {
                let taken = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                push(pieces, input.get(..taken).unwrap_or_default());
                *self = Self::length(*left - taken as u64);
                taken
            }
            Self::UntilClose => {
                push(pieces, input);
                input.len()
            }
            Self::Chunked(chunks) => match chunks.take(input, pieces) {
                Ok((taken, true)) => {
                    *self = Self::Ended;
                    taken
                }
                Ok((taken, false)) => taken,
                Err(malformed) => {
                    *self = Self::Broken(malformed);
                    input.len()
                }
            },
            Self::Ended | Self::Broken(_) => 0,
        }
    }

    /// The connection has ended: what that makes of the body.
    pub(crate) fn close(&mut self) {
        *self = match *self {
            Self::UntilClose | Self::Ended => Self::Ended,
            Self::Broken(malformed) => Self::Broken(malformed),
            Self::Length(_) | Self::Chunked(_) => Self::Broken(Malformed("the answer ended before its proper end")),
        };
    }
}

fn push<'a>(pieces: &mut Pieces<'a>, piece: &'a [u8]) {
    if !piece.is_empty() {
        pieces.push(piece);
    }
}

/// A body in chunks that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    place: Place,
    /// Of the chunk under way: its size while that is read, then what is to come of it.
    size: u64,
    /// Bytes of extensions and trailers so far.
    extras: u32,
}

/// Where in the chunks the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    FirstDigit,
    Size,
    /// White space after the size.
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a line after the last chunk.
    LineStart,
    Trailer,
    TrailerLf,
    EndLf,
}

impl Chunks {
    /// How many bytes were read, and whether the last of them is the body's last.
    fn take<'a>(&mut self, input: &'a [u8], pieces: &mut Pieces<'a>) -> Result<(usize, bool), Malformed> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if self.place == Place::Data {
                let rest = input.get(at..).unwrap_or_default();
                let piece = rest
                    .get(..usize::try_from(self.size).unwrap_or(usize::MAX))
                    .unwrap_or(rest);
                push(pieces, piece);
                at += piece.len();
                self.size -= piece.len() as u64;
                if self.size == 0 {
                    self.place = Place::DataCr;
                }
                continue;
            }
            at += 1;
            if self.place == Place::EndLf {
                return expect(byte, b'\n', Place::EndLf).map(|_| (at, true));
            }
            self.place = self.step(byte)?;
        }
        Ok((at, false))
    }

    /// Reads one byte that is not payload.
    fn step(&mut self, byte: u8) -> Result<Place, Malformed> {
        match self.place {
            Place::FirstDigit => self.digit(byte),
            Place::Size => match byte {
                b' ' | b'\t' | b';' | b'\r' => after_size(byte),
                _ => self.digit(byte),
            },
            Place::Blank => after_size(byte),
            Place::Extension => match byte {
                b'\r' => Ok(Place::SizeLf),
                b'\n' => Err(Malformed("a line of the chunked body ends without CR")),
                _ => self.extra(Place::Extension),
            },
            Place::SizeLf if self.size == 0 => expect(byte, b'\n', Place::LineStart),
            Place::SizeLf => expect(byte, b'\n', Place::Data),
            Place::DataCr => expect(byte, b'\r', Place::DataLf),
            Place::DataLf => {
                self.size = 0;
                expect(byte, b'\n', Place::FirstDigit)
            }
            Place::LineStart if byte == b'\r' => Ok(Place::EndLf),
            Place::LineStart | Place::Trailer => match byte {
                b'\r' => Ok(Place::TrailerLf),
                b'\n' => Err(Malformed("a line of the chunked body ends without CR")),
                _ => self.extra(Place::Trailer),
            },
            Place::TrailerLf => expect(byte, b'\n', Place::LineStart),
            // Both are read by `take` itself.
            Place::Data | Place::EndLf => Ok(self.place),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<Place, Malformed> {
        const BAD: Malformed = Malformed("a chunk has no size, or one that is not a number");
        let digit = char::from(byte).to_digit(16).ok_or(BAD)?;
        let size = self.size.checked_mul(16).ok_or(BAD)?;
        self.size = size | u64::from(digit);
        Ok(Place::Size)
    }

    fn extra(&mut self, place: Place) -> Result<Place, Malformed> {
        self.extras += 1;
        if self.extras > EXTRAS_MAX {
            return Err(Malformed("the chunked body has too many extensions or trailers"));
        }
        Ok(place)
    }
}

fn after_size(byte: u8) -> Result<Place, Malformed> {
    match byte {
        b' ' | b'\t' => Ok(Place::Blank),
        b';' => Ok(Place::Extension),
        b'\r' => Ok(Place::SizeLf),
        _ => Err(Malformed("a chunk has no size, or one that is not a number")),
    }
}

fn expect(byte: u8, expected: u8, next: Place) -> Result<Place, Malformed> {
    if byte == expected {
        Ok(next)
    } else {
        Err(Malformed("a chunk does not end where its size says"))
    }
}
