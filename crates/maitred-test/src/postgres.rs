//! A real PostgreSQL for one test.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use tokio::net::{TcpSocket, TcpStream};

use crate::{Child, Folder, Signal, Start, eventually};

/// Where Debian keeps the programs, by version, out of the search path.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The server refuses to run as root; this is `nobody` and `nogroup` on Debian.
const NOBODY: u32 = 65_534;
const USER: &str = "maitred";
const PASSWORD: &str = "pg-secret";

/// A PostgreSQL server on a loopback port, with data of its own and one database; gone when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    /// Bound and not listening, so that nobody else is given the port while the server is down.
    port: TcpSocket,
    programs: PathBuf,
    folder: Folder,
}

impl Postgres {
    /// Makes a database and starts a server for it.
    pub async fn start() -> Self {
        let folder = Folder::new();
        let programs = programs();
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("giving the folder to the server's user");
        }
        let password = folder.write("password", PASSWORD);
        let data = folder.path().join("data");
        let arguments = ["--no-sync", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256"];
        let made = as_server(Start::new("initdb", programs.join("initdb")))
            .args(arguments)
            .args([format!("--username={USER}"), format!("--pwfile={}", password.display())])
            .args(["-D".as_ref(), data.as_os_str()])
            .folder(folder.path())
            .spawn()
            .exit()
            .await;
        assert!(made.success(), "initdb ended with {made}");
        let port = TcpSocket::new_v4().expect("a socket");
        port.set_reuseaddr(true).expect("sharing the port with the server");
        port.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .expect("a free loopback port");
        let child = spawn(&programs, folder.path(), &port).await;
        Self {
            child,
            port,
            programs,
            folder,
        }
    }

    /// Where clients find its database, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@{}/postgres", address(&self.port))
    }

    /// Ends it, and waits until it has ended. Killed, it leaves what a machine's crash leaves.
    pub async fn stop(&mut self, signal: Signal) {
        self.child.signal(signal);
        self.child.exit().await;
    }

    /// Starts it again at the same place, with the data that it had.
    pub async fn restart(&mut self) {
        self.child = spawn(&self.programs, self.folder.path(), &self.port).await;
    }
}

fn address(port: &TcpSocket) -> SocketAddr {
    port.local_addr().expect("a bound socket has an address")
}

async fn spawn(programs: &Path, folder: &Path, port: &TcpSocket) -> Child {
    let address = address(port);
    // The processes of a server that was killed take a moment to see it, and hold its data as long.
    let data = folder.join("data");
    let lock = data.join("postmaster.pid");
    let options = [
        format!("listen_addresses={}", address.ip()),
        format!("port={}", address.port()),
        format!("unix_socket_directories={}", folder.display()),
        "fsync=off".to_owned(),
        "max_connections=30".to_owned(),
        "shared_buffers=16MB".to_owned(),
    ];
    eventually("a PostgreSQL server", async || {
        let mut child = as_server(Start::new("postgres", programs.join("postgres")))
            .args(["-D".as_ref(), data.as_os_str()])
            .args(options.iter().flat_map(|option| ["-c", option]))
            .folder(folder)
            .spawn();
        let started = eventually("PostgreSQL to start or to end", async || {
            let output = child.output();
            if output.contains("ready to accept connections") && TcpStream::connect(address).await.is_ok() {
                return Some(true);
            }
            output.contains("pre-existing shared memory block").then_some(false)
        });
        if started.await {
            return Some(child);
        }
        child.exit().await;
        fs::remove_file(&lock).ok();
        None
    })
    .await
}

fn as_server(start: Start) -> Start {
    if is_root() { start.user(NOBODY, NOBODY) } else { start }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The folder of the newest version's programs.
fn programs() -> PathBuf {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|version| Some((version.file_name().to_str()?.parse::<u32>().ok()?, version.path())))
        .max();
    newest.map_or_else(PathBuf::new, |(_, version)| version.join("bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_starts_is_killed_and_starts_again_at_the_same_place() {
        let mut server = Postgres::start().await;
        let url = server.url();
        server.stop(Signal::Kill).await;
        assert!(TcpStream::connect(address(&server.port)).await.is_err());
        server.restart().await;
        assert_eq!(server.url(), url);
        server.stop(Signal::Interrupt).await;
    }
}
