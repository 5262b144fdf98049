//! The frames around a payload, live and replayed.

/// The sequence number that ends a replay: all bits set.
pub const REPLAY_END: u64 = u64::MAX;

/// One message: a batch and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvMessage<'a> {
    /// The topic, where it is given.
    pub topic: &'a [u8],
    /// The batch's number; they are counted from 0 in each life of the engine.
    pub sequence: u64,
    /// The batch; empty at the end of a replay.
    pub payload: &'a [u8],
}

impl<'a> KvMessage<'a> {
    /// Reads the frames of a message: `topic, sequence, payload`. A replayed one begins with an empty frame, and older engines
    /// leave its topic out. `None` when the frames are none of these.
    #[must_use]
    pub fn read(frames: &[&'a [u8]]) -> Option<Self> {
        let (topic, sequence, payload): (&[u8], &[u8], &[u8]) = match *frames {
            [b"", topic, sequence, payload] | [topic, sequence, payload] => (topic, sequence, payload),
            [sequence, payload] => (&[], sequence, payload),
            _ => return None,
        };
        let sequence: [u8; 8] = sequence.try_into().ok()?;
        Some(Self {
            topic,
            sequence: u64::from_be_bytes(sequence),
            payload,
        })
    }

    /// Whether it says that a replay is over.
    #[must_use]
    pub const fn is_replay_end(&self) -> bool {
        self.sequence == REPLAY_END && self.payload.is_empty()
    }
}

/// The frames that ask the replay socket for everything from `first` on.
#[must_use]
pub fn replay_request(first: u64) -> [Vec<u8>; 2] {
    [Vec::new(), sequence_bytes(first).to_vec()]
}

/// A sequence number as its frame.
#[must_use]
pub const fn sequence_bytes(sequence: u64) -> [u8; 8] {
    sequence.to_be_bytes()
}
