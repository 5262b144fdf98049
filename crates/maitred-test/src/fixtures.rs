//! Captures of real servers that lie beside the project on some machines.

use std::path::PathBuf;

/// The folder `name` of the captures beside the project. Where they are absent the skip is printed, and the test that
/// asked should return: the excerpts in the crates' own `fixtures/` folders cover the same ground.
#[must_use]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn captures(name: &str) -> Option<PathBuf> {
    let all = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures");
    let folder = PathBuf::from(all).join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no captures of {name} beside the project");
    None
}
