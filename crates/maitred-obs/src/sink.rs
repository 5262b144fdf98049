//! Where access records go: a bounded buffer that the data path appends to and one thread empties.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;

/// Bytes that may wait for a slow reader. Beyond it records are lost, and counted.
const CAP: usize = 16 << 20;
/// How long lines gather before they are written together.
const GATHER: Duration = Duration::from_millis(20);

/// Takes finished lines without waiting for whoever reads them.
#[derive(Clone, Debug)]
pub struct RecordSink {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    ended: Condvar,
    dropped: Counter,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    /// Lines that the thread is writing.
    in_writing: u64,
    is_closed: bool,
    has_ended: bool,
}

impl RecordSink {
    /// Starts the thread that writes to `out`. `dropped` counts the lines that are lost.
    ///
    /// # Errors
    /// When the operating system refuses the thread.
    pub fn start(out: Box<dyn Write + Send>, dropped: Counter) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            filled: Condvar::new(),
            ended: Condvar::new(),
            dropped,
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("records".into());
        // The thread is not joined: it says itself when it has ended, and it may be stuck in a write for ever.
        drop(thread.spawn(move || {
            for_thread.write_until_closed(out);
            for_thread.state.lock().has_ended = true;
            for_thread.ended.notify_all();
        })?);
        Ok(Self { shared })
    }

    /// Appends one finished line, or counts it as lost when the reader is too far behind.
    pub fn append(&self, line: &[u8]) {
        let mut state = self.shared.state.lock();
        if state.is_closed || state.lines.len() + line.len() > CAP {
            drop(state);
            self.shared.dropped.inc();
            return;
        }
        let was_empty = state.lines.is_empty();
        state.lines.extend_from_slice(line);
        drop(state);
        // The thread is woken once per gathering, not once per line.
        if was_empty {
            self.shared.filled.notify_one();
        }
    }

    /// Writes what is left and ends the thread, if its reader takes it within `limit`; what it does not take is counted as lost.
    /// Blocks for as long. Later lines are counted as lost too.
    pub fn close(&self, limit: Duration) {
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        self.shared.filled.notify_all();
        let mut left = limit;
        while !state.has_ended && !left.is_zero() {
            let waited = self.shared.ended.wait_for(&mut state, left);
            left = if waited.timed_out() { Duration::ZERO } else { left };
        }
        if !state.has_ended {
            let lost = lines(&state.lines) + state.in_writing;
            self.shared.dropped.inc_by(lost);
            tracing::error!(lost, "the reader of access records does not take them");
        }
    }
}

impl Shared {
    fn write_until_closed(&self, mut out: Box<dyn Write + Send>) {
        let mut batch = Vec::new();
        loop {
            let is_closed = self.take(&mut batch);
            let lines = lines(&batch);
            if let Err(error) = out.write_all(&batch).and_then(|()| out.flush()) {
                self.dropped.inc_by(lines);
                tracing::error!(%error, lines, "access records could not be written");
            }
            batch.clear();
            batch.shrink_to(1 << 20);
            if is_closed {
                return;
            }
        }
    }

    /// Waits for lines, lets some more gather, and takes them all. Says whether the sink is closed.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let mut state = self.state.lock();
        while state.lines.is_empty() && !state.is_closed {
            self.filled.wait(&mut state);
        }
        if !state.is_closed {
            // A close cuts the gathering short; a further line does not, for the buffer is no longer empty.
            self.filled.wait_for(&mut state, GATHER);
        }
        std::mem::swap(&mut state.lines, batch);
        state.in_writing = lines(batch);
        state.is_closed
    }
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_lost_between_threads_and_close_writes_the_rest() {
        let (out, dropped) = (Memory::default(), Counter::default());
        let sink = RecordSink::start(Box::new(out.clone()), dropped.clone()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| sink.append(b"line\n")));
            }
        });
        sink.close(Duration::from_secs(10));
        assert_eq!(out.0.lock().len(), 4 * 1_000 * 5);
        assert_eq!(dropped.get(), 0);
        sink.append(b"late\n");
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn a_reader_that_takes_nothing_does_not_hold_up_the_end() {
        struct Stuck(std::sync::mpsc::Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                // Ends when the test does.
                self.0.recv().map(|()| bytes.len()).map_err(std::io::Error::other)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (_release, stuck) = std::sync::mpsc::sync_channel(0);
        let dropped = Counter::default();
        let sink = RecordSink::start(Box::new(Stuck(stuck)), dropped.clone()).unwrap();
        sink.append(b"one\n");
        sink.append(b"two\n");
        sink.close(Duration::from_millis(100));
        assert_eq!(dropped.get(), 2);
    }

    #[test]
    fn a_line_beyond_the_cap_is_counted_not_kept() {
        let dropped = Counter::default();
        let sink = RecordSink::start(Box::new(Memory::default()), dropped.clone()).unwrap();
        sink.append(&vec![b'x'; CAP + 1]);
        assert_eq!(dropped.get(), 1);
        sink.close(Duration::from_secs(10));
    }
}
