//! Listeners with TLS and with HTTP/2.
