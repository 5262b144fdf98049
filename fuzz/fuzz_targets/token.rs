//! Tokens as callers send them, and key sets as issuers publish them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_tenant::fuzzing::fuzz_token(data));
