//! The configuration's reader: mistakes can be drawn, and what is accepted prints to something that is accepted too.
#![no_main]

use maitred_config::{load, render};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match load("fuzz.yaml", text, &|_| Ok("secret".to_owned())) {
        Err(diagnostics) => drop(render(&diagnostics, text)),
        Ok(loaded) => {
            let effective = loaded.effective();
            let again = load("effective.yaml", &effective, &|_| Ok("secret".to_owned()));
            assert_eq!(again.map(|again| again.effective()).ok(), Some(effective));
        }
    }
});
