//! Connecting to where the configuration leads, and nowhere else.
//!
//! A name may resolve to anything, and to something else a moment later. So it is resolved here, what comes out is judged, and the
//! connection is made to an address that was judged: there is no second look-up that could give another one.

use std::io;
use std::net::{IpAddr, SocketAddr};

use maitred_config::Reach;
use tokio::net::TcpStream;

/// Connects to an endpoint at `HOST:PORT`.
///
/// # Errors
/// When it cannot be reached, or its name resolves to addresses only that no endpoint may have.
pub async fn dial_endpoint(address: &str) -> io::Result<TcpStream> {
    // What the file names by its address was judged with the file.
    if let Ok(address) = address.parse::<SocketAddr>() {
        return prompt(TcpStream::connect(address).await);
    }
    let (host, port) = parts(address)?;
    dial(host, port, Reach::Private).await
}

/// `HOST:PORT` with an address in place of the name.
pub(crate) async fn resolved(address: &str) -> io::Result<SocketAddr> {
    if let Ok(address) = address.parse() {
        return Ok(address);
    }
    let (host, port) = parts(address)?;
    let found = look_up(host, port).await?;
    within(host, found, Reach::Private)?
        .first()
        .copied()
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn parts(address: &str) -> io::Result<(&str, u16)> {
    let parts = address.rsplit_once(':');
    parts
        .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host.parse::<IpAddr>() {
        Ok(ip) => Ok(vec![SocketAddr::new(ip, port)]),
        Err(_) => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
    }
}

/// Connects to `host`, if it may be reached by `reach`.
pub(crate) async fn dial(host: &str, port: u16, reach: Reach) -> io::Result<TcpStream> {
    let found = look_up(host, port).await?;
    prompt(TcpStream::connect(within(host, found, reach)?.as_slice()).await)
}

/// What of `found` may be reached.
///
/// # Errors
/// When nothing of it may, or nothing was found.
pub(crate) fn within(host: &str, found: Vec<SocketAddr>, reach: Reach) -> io::Result<Vec<SocketAddr>> {
    let first = found.first().map(SocketAddr::ip);
    let allowed: Vec<_> = found.into_iter().filter(|address| reach.allows(address.ip())).collect();
    match first {
        _ if !allowed.is_empty() => Ok(allowed),
        None => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("`{host}` resolves to nothing"),
        )),
        Some(ip) => {
            let remedy = if Reach::Private.allows(ip) {
                "; `allow_private` would let it"
            } else {
                ""
            };
            let refusal = format!("`{host}` resolves to {ip}, where the gateway does not connect to{remedy}");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal))
        }
    }
}

fn prompt(connected: io::Result<TcpStream>) -> io::Result<TcpStream> {
    let stream = connected?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests;
