//! Lines of traces, in both formats.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_sim::fuzzing::fuzz_trace(data));
