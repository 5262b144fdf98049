//! The configuration file as commands use it: read, checked, and complained about.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use maitred_config::{Loaded, SecretRef, load, render};

/// Reads and checks the file.
///
/// # Errors
/// With everything that is wrong with it, drawn for a person.
pub(crate) fn read(path: &Path) -> anyhow::Result<(String, Loaded)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    match load(&path.display().to_string(), &text, &|reference| secret(path, reference)) {
        Ok(mut loaded) => {
            let settings = &mut loaded.settings;
            settings.resolve_files(&|named| beside(path, named).to_string_lossy().into_owned());
            loaded.warn_as_of(crate::ledger::now());
            Ok((text, loaded))
        }
        Err(diagnostics) => bail!("the configuration is not valid\n\n{}", render(&diagnostics, &text)),
    }
}

/// Reads a secret from where the configuration says it is. The place is named by whoever reports the error.
fn secret(config: &Path, reference: &SecretRef) -> Result<String, String> {
    match reference {
        SecretRef::Env(name) => {
            #[expect(
                clippy::disallowed_methods,
                reason = "the configuration names the variable; this is the edge"
            )]
            let value = std::env::var(name.as_str());
            value.map_err(|error| error.to_string())
        }
        SecretRef::File(path) => {
            let text = std::fs::read_to_string(beside(config, path.as_str())).map_err(|error| error.to_string())?;
            Ok(text.trim_end().to_owned())
        }
    }
}

/// A path relative to the file that names it, as users expect.
pub(crate) fn beside(config: &Path, named: &str) -> PathBuf {
    let named = Path::new(named);
    match config.parent() {
        Some(folder) if named.is_relative() => folder.join(named),
        _ => named.to_owned(),
    }
}
