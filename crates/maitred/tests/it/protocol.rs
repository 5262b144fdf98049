//! What crosses the gateway, byte by byte, and how it ends.
