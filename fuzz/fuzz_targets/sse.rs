//! The reader of event streams, and what each engine's table makes of the events.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    maitred_llm::fuzzing::fuzz_sse(data);
    maitred_engines::fuzzing::fuzz_stream(data);
});
