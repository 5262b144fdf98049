//! Snapshots of the prefix index.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_sched::fuzzing::fuzz_snapshot(data));
