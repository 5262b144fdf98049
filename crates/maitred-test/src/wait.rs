//! Waiting with an end to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpSocket;

/// How long anything in a test may take. Generous, since a busy machine is not a fault; nothing waits this long when it works.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How often [`eventually`] looks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The result of `future`, which must come before [`DEADLINE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {DEADLINE:?}"),
    }
}

/// Asks `probe` again and again until it gives something. For facts of another process that announces no change, such as
/// a number on its metrics page; where there is a line, a channel or an exit to wait for, wait for that instead.
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let polled = async {
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    within(what, polled).await
}

/// An address on which connections are refused for as long as this lives: bound, but not listening.
#[derive(Debug)]
pub struct RefusingPort {
    socket: TcpSocket,
}

impl RefusingPort {
    /// Takes a free loopback port.
    #[must_use]
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .expect("a free loopback port");
        Self { socket }
    }

    /// Where connections are refused.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("a bound socket has an address")
    }
}

impl Default for RefusingPort {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn eventually_asks_until_there_is_an_answer() {
        let mut asked = 0;
        let value = eventually("three", async || {
            asked += 1;
            (asked == 3).then_some(asked)
        });
        assert_eq!(value.await, 3);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "never: not within")]
    async fn what_never_comes_fails_by_name() {
        eventually("never", async || None::<()>).await;
    }

    #[tokio::test]
    async fn a_refusing_port_refuses() {
        let port = RefusingPort::new();
        let refused = tokio::net::TcpStream::connect(port.address()).await;
        assert_eq!(
            refused.map(drop).map_err(|error| error.kind()),
            Err(std::io::ErrorKind::ConnectionRefused)
        );
    }
}
