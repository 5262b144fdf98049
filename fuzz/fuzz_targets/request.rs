//! The request scanner and its splices, against `serde_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_llm::fuzzing::fuzz_request_scanner(data));
