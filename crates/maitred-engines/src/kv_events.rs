//! What engines publish of their KV caches: blocks stored, blocks removed, everything cleared.
//!
//! vLLM and SGLang publish batches of events over a ZeroMQ PUB socket, in three frames: a topic, a sequence number of eight
//! bytes in network order, and a `MessagePack` payload. PUB drops what a slow subscriber does not take, so the number tells
//! whether anything is missing; a second socket (ROUTER) plays recent batches again. [`KvBatch`] reads a payload, [`KvTrack`]
//! keeps what is known of one endpoint, and [`zmtp`] frames the bytes on the wire. How the bytes are fetched is not known here.
//!
//! Read from the output of vLLM 0.32.0 (the fixtures) and from its event classes, which SGLang shares.

mod batch;
mod frames;
mod msgpack;
mod track;
mod write;
pub mod zmtp;

pub use batch::{BlockHash, BlocksRemoved, BlocksStored, KvBatch, KvBatchError, KvEvent, Place};
pub use frames::{KvMessage, REPLAY_END, replay_request, sequence_bytes};
pub use msgpack::MsgpackError;
pub use track::{KvChange, KvTrack, Sequence};

#[cfg(test)]
mod tests;
