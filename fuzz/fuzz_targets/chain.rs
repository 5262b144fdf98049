//! Chains of block hashes: the same for every spelling of a body, and harmless for any answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_llm::fuzzing::fuzz_chain(data));
