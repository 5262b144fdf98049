//! `cargo run -p xtask -- generate` writes the reference pages that are made from code, and `-- sbom FILE` the bill of materials.

use std::fs;

use anyhow::{Context as _, bail};
use xtask::{ERRORS_PAGE, project_root, render_errors_page};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["generate"] => generate(),
        ["sbom", file] => fs::write(file, xtask::sbom()?).with_context(|| format!("cannot write {file}")),
        _ => bail!("usage: cargo run -p xtask -- generate | sbom FILE"),
    }
}

fn generate() -> anyhow::Result<()> {
    let path = project_root().join(ERRORS_PAGE);
    fs::write(&path, render_errors_page()).with_context(|| format!("cannot write {}", path.display()))
}
