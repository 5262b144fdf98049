//! Batches of KV events, and the wire that they come over.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_engines::fuzzing::fuzz_kv_events(data));
