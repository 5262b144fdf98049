//! The scanner of metrics pages, for every engine.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_engines::fuzzing::fuzz_page(data));
