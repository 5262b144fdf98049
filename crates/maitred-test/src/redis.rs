//! A real Redis for one test.

use std::path::PathBuf;

use tokio::net::UnixStream;

use crate::{Child, Folder, Signal, Start, within};

/// A Redis server that listens on a socket in a folder of its own and keeps nothing on disk; gone when this is dropped.
///
/// A socket in the file system rather than a port, since Redis cannot be told to take a free one and say which.
#[derive(Debug)]
pub struct Redis {
    folder: Folder,
    child: Child,
}

impl Redis {
    /// Starts one and waits until it takes connections.
    pub async fn start() -> Self {
        let folder = Folder::new();
        let child = spawn(&folder).await;
        Self { folder, child }
    }

    /// Where clients find it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+unix://{}", socket(&self.folder).display())
    }

    /// Ends it, and waits until it has ended.
    pub async fn stop(&mut self, signal: Signal) {
        self.child.signal(signal);
        self.child.exit().await;
    }

    /// Starts it again at the same place, with nothing in it.
    pub async fn restart(&mut self) {
        self.child = spawn(&self.folder).await;
    }

    /// Sends it a signal: to freeze it, or to let it go on.
    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }
}

fn socket(folder: &Folder) -> PathBuf {
    folder.path().join("redis.sock")
}

async fn spawn(folder: &Folder) -> Child {
    let socket = socket(folder);
    let path = socket.to_string_lossy().into_owned();
    let arguments = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", &path];
    let mut child = Start::new("redis-server", "redis-server")
        .args(arguments)
        .folder(folder.path())
        .spawn();
    child.line("ready to accept connections").await;
    within("a connection to redis", UnixStream::connect(&socket))
        .await
        .expect("redis listens on its socket");
    child
}
