//! What a child prints, kept within bounds and waited for by line.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::watch;

/// Lines kept for messages and for later waits; older ones are forgotten.
const KEPT_LINES_MAX: usize = 2_000;
/// Characters kept of one line.
const KEPT_LINE_MAX: usize = 16 << 10;

/// Lines of a child's output streams in the order in which they were read.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    kept: Arc<Mutex<Kept>>,
    /// How many lines were read so far; a wait for the next line hangs on it.
    read: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    /// How many lines were forgotten.
    forgotten: u64,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            kept: Arc::default(),
            read: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Reads `stream` to its end.
    pub(crate) async fn drain(self, stream: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
            let text: String = String::from_utf8_lossy(&line)
                .trim_end()
                .chars()
                .take(KEPT_LINE_MAX)
                .collect();
            self.push(text);
            line.clear();
        }
    }

    fn push(&self, line: String) {
        let mut kept = self.kept.lock();
        if kept.lines.len() == KEPT_LINES_MAX {
            kept.lines.pop_front();
            kept.forgotten += 1;
        }
        kept.lines.push_back(line);
        drop(kept);
        self.read.send_modify(|read| *read += 1);
    }

    /// The first line from number `from` on that is `wanted`, and the number of the line after it.
    pub(crate) async fn line(&self, from: u64, wanted: impl Fn(&str) -> bool) -> (String, u64) {
        let mut read = self.read.subscribe();
        loop {
            read.mark_unchanged();
            if let Some(found) = self.find(from, &wanted) {
                return found;
            }
            if read.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn find(&self, from: u64, wanted: &impl Fn(&str) -> bool) -> Option<(String, u64)> {
        let kept = self.kept.lock();
        let numbered = (kept.forgotten..).zip(&kept.lines);
        let mut later = numbered.skip_while(|(number, _)| *number < from);
        later
            .find(|(_, line)| wanted(line))
            .map(|(number, line)| (line.clone(), number + 1))
    }

    /// All that is kept.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock();
        let mut text = String::new();
        if kept.forgotten > 0 {
            text = format!("({} earlier lines forgotten)\n", kept.forgotten);
        }
        for line in &kept.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_found_in_order_and_old_ones_forgotten() {
        let output = Output::new();
        let text: String = (0..KEPT_LINES_MAX + 5)
            .map(|number| format!("line {number}\n"))
            .collect();
        output.clone().drain(text.as_bytes()).await;
        let (line, next) = output.line(0, |line| line.starts_with("line ")).await;
        assert_eq!((line.as_str(), next), ("line 5", 6));
        let (line, _) = output.line(next, |line| line.starts_with("line ")).await;
        assert_eq!(line, "line 6");
        assert!(output.text().starts_with("(5 earlier lines forgotten)\nline 5\n"));
    }

    #[tokio::test]
    async fn a_wait_ends_with_a_line_that_comes_later() {
        let output = Output::new();
        let waiting = output.line(0, |line| line == "ready");
        let printing = output.clone().drain(&b"starting\nready\n"[..]);
        let ((line, _), ()) = tokio::join!(waiting, printing);
        assert_eq!(line, "ready");
    }
}
