//! What other gateways change, as it is read from the stream that they share.

use maitred_store::LogError;
use maitred_store::journal::SharedJournal;
use tokio::sync::mpsc;

use super::RETRY;

/// What is heard.
#[derive(Debug)]
pub(super) enum News {
    /// A line of the stream.
    Line(Vec<u8>),
    /// The stream's line with this number is another than this gateway's.
    Differs(u64),
    /// The server answers, and all it had has been handed on.
    Reached,
}

/// Reads what other gateways change.
pub(super) struct Listener {
    pub(super) shared: SharedJournal,
    /// The lines of this gateway's journal.
    pub(super) own: Vec<Vec<u8>>,
}

impl Listener {
    pub(super) async fn listen(mut self, news: mpsc::Sender<News>) {
        loop {
            let Err(error) = self.listen_until_error(&news).await else {
                return;
            };
            tracing::warn!(%error, "changes of other gateways cannot be read; going on with those that are known");
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn listen_until_error(&mut self, news: &mpsc::Sender<News>) -> Result<(), LogError> {
        // A server that has lost its memory gets back what is known here. Others do the same; it takes each number once.
        let differs = self.shared.give_back(&self.own).await?;
        if let Some(number) = differs
            && news.send(News::Differs(number)).await.is_err()
        {
            return Ok(());
        }
        // Of other gateways' chain the whole is read: its revocations hold here too.
        let after = differs.map_or(self.own.len() as u64, |_| 0);
        let mut reader = self.shared.reader(after).await?;
        loop {
            let lines = reader.next().await?;
            if differs.is_none() {
                self.own.extend(lines.iter().cloned());
            }
            let reached = (lines.is_empty() && differs.is_none()).then_some(News::Reached);
            for item in lines.into_iter().map(News::Line).chain(reached) {
                if news.send(item).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
