//! The reader of endpoints' answers: HTTP/1 off the wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_proxy::fuzzing::fuzz_answer(data));
