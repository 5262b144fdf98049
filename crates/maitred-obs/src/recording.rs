//! An anonymous recording of the traffic: when calls came, how long they were and what they shared, but none of their text.
//!
//! Each call is a line of JSON in the layout of the Mooncake traces (Qin et al., FAST 2025: `timestamp` in milliseconds from the
//! beginning, `input_length` and `output_length` in tokens, `hash_ids` of the prompt's blocks, the same id meaning the same text from
//! the first block on), with members of our own beside them. Every id is keyed with a secret that is made for the file and never
//! written (HMAC-SHA-256), so nobody can find out by guessing whether a text, a tenant or a session occurs.
//!
//! The data path hands over a call and goes on; hashing and writing are a thread's. What the thread cannot follow is counted and lost.

mod blocks;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use maitred_types::{ModelName, PromptChain, TenantId, Time, TokenCount};
use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;

use blocks::Blocks;

/// Calls that may wait for the thread.
const QUEUE: usize = 1 << 12;
/// Blocks of waiting calls, at eight bytes each. Beyond it further calls are lost, and counted.
const QUEUED_BLOCKS: usize = 1 << 20;

/// One call, as far as it is recorded.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// When it came.
    pub arrived: Time,
    /// The model as endpoints call it.
    pub model: ModelName,
    /// Who owns it.
    pub tenant: Option<TenantId>,
    /// What binds it to others of its conversation.
    pub session: Option<u64>,
    /// Prompt tokens, as counted or else as estimated.
    pub input: TokenCount,
    /// Prompt tokens that were cached, if the endpoint said.
    pub cached: Option<TokenCount>,
    /// Generated tokens.
    pub output: TokenCount,
    /// The prompt's blocks.
    pub chain: Option<PromptChain>,
}

/// What a recording is like.
#[derive(Clone, Copy, Debug)]
pub struct RecordingOptions {
    /// Most bytes that are written.
    pub max_bytes: u64,
    /// Tokens of a block in the file.
    pub block_tokens: u32,
    /// The file's secret.
    pub key: [u8; 32],
    /// When the recording begins.
    pub since: Time,
}

/// Takes calls without waiting for whoever writes them.
#[derive(Clone, Debug)]
pub struct Recording {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Option<SyncSender<RecordedCall>>>,
    queued_blocks: AtomicUsize,
    has_ended: Mutex<bool>,
    ended: Condvar,
    dropped: Counter,
}

impl Recording {
    /// Starts the thread that writes to `out`. `dropped` counts the calls that are not recorded.
    ///
    /// # Errors
    /// When the operating system refuses the thread.
    pub fn start(out: Box<dyn Write + Send>, options: RecordingOptions, dropped: Counter) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Some(sender)),
            queued_blocks: AtomicUsize::new(0),
            has_ended: Mutex::new(false),
            ended: Condvar::new(),
            dropped,
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("recording".into());
        // The thread is not joined: it says itself when it has ended, and it may be stuck in a write for ever.
        drop(thread.spawn(move || {
            for_thread.write_all(&receiver, out, options);
            *for_thread.has_ended.lock() = true;
            for_thread.ended.notify_all();
        })?);
        Ok(Self { shared })
    }

    /// Hands over a call, or counts it as lost when the thread is too far behind or the file is full.
    pub fn append(&self, call: RecordedCall) {
        let blocks = blocks_of(&call);
        let queued = self.shared.queued_blocks.fetch_add(blocks, Ordering::Relaxed);
        let sent = if queued + blocks > QUEUED_BLOCKS {
            Err(TrySendError::Full(call))
        } else {
            match &*self.shared.queue.lock() {
                Some(queue) => queue.try_send(call),
                None => Err(TrySendError::Disconnected(call)),
            }
        };
        if sent.is_err() {
            self.shared.queued_blocks.fetch_sub(blocks, Ordering::Relaxed);
            self.shared.dropped.inc();
        }
    }

    /// Writes what is left, for at most `limit`. Later calls are lost and counted. Blocks for as long.
    pub fn close(&self, limit: Duration) {
        *self.shared.queue.lock() = None;
        let mut has_ended = self.shared.has_ended.lock();
        let mut left = limit;
        while !*has_ended && !left.is_zero() {
            let waited = self.shared.ended.wait_for(&mut has_ended, left);
            left = if waited.timed_out() { Duration::ZERO } else { left };
        }
        if !*has_ended {
            tracing::error!("the rest of the recording could not be written in time");
        }
    }
}

impl Shared {
    /// Writes calls until the queue is closed. A call that the file has no room for, or that cannot be written, ends the recording:
    /// a trace with holes in its middle would be a wrong one.
    fn write_all(&self, calls: &Receiver<RecordedCall>, mut out: Box<dyn Write + Send>, options: RecordingOptions) {
        let mut lines = Lines {
            blocks: Blocks::new(options.key, options.block_tokens),
            since: options.since,
        };
        let (mut line, mut written, mut is_open) = (Vec::new(), 0_u64, true);
        while let Ok(call) = calls.recv() {
            self.queued_blocks.fetch_sub(blocks_of(&call), Ordering::Relaxed);
            line.clear();
            if is_open {
                lines.write(&call, &mut line);
            }
            if is_open && written + line.len() as u64 > options.max_bytes {
                is_open = false;
                tracing::warn!(
                    bytes = written,
                    "the recording has reached its size; nothing more is recorded"
                );
            }
            if is_open && let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
                is_open = false;
                tracing::error!(%error, "the recording cannot be written; nothing more is recorded");
            }
            if is_open {
                written += line.len() as u64;
            } else {
                self.dropped.inc();
            }
        }
    }
}

fn blocks_of(call: &RecordedCall) -> usize {
    call.chain.as_ref().map_or(0, PromptChain::blocks)
}

/// Makes lines of calls.
#[derive(Debug)]
struct Lines {
    blocks: Blocks,
    since: Time,
}

impl Lines {
    fn write(&mut self, call: &RecordedCall, line: &mut Vec<u8>) {
        let millis = (call.arrived - self.since).as_millis();
        let ids = self.blocks.ids(call);
        let listed: Vec<String> = ids.iter().map(u64::to_string).collect();
        let mut text = format!(
            r#"{{"timestamp":{millis},"input_length":{},"output_length":{},"hash_ids":[{}],"block_tokens":{},"model":{}"#,
            call.input,
            call.output,
            listed.join(","),
            self.blocks.tokens(),
            self.blocks.name(b"model", call.model.as_str().as_bytes()),
        );
        if let Some(cached) = call.cached {
            text.push_str(&format!(r#","cached_length":{cached}"#));
        }
        if let Some(tenant) = &call.tenant {
            // 32 bits: a label, not an address.
            let tenant = self.blocks.name(b"tenant", tenant.as_str().as_bytes()) & 0xffff_ffff;
            text.push_str(&format!(r#","tenant":{tenant}"#));
        }
        if let Some(session) = call.session {
            let session = self.blocks.name(b"session", &session.to_le_bytes());
            text.push_str(&format!(r#","session":{session}"#));
        }
        text.push_str("}\n");
        line.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
