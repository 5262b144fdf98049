//! The official SDKs, as their users run them.
