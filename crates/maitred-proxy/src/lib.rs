//! The data path: listeners, the call's pipeline, upstream pools, attempts and relay.
