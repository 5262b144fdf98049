//! TLS of the listeners.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use maitred_config::{Settings, TlsFiles};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config_file::beside;

/// Makes aws-lc-rs the one provider of this process.
pub(crate) fn install_provider() {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed before");
    }
}

/// The TLS settings of each listener, in order; `None` for clear text.
pub(crate) fn load(settings: &Settings, config: &Path) -> anyhow::Result<Vec<Option<Arc<ServerConfig>>>> {
    let listeners = settings.listeners.iter();
    listeners
        .map(|listener| listener.tls.as_ref().map(|files| server(files, config)).transpose())
        .collect()
}

fn server(files: &TlsFiles, config: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let (cert, key) = (beside(config, &files.cert), beside(config, &files.key));
    let chain: Vec<_> = CertificateDer::pem_file_iter(&cert)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read the certificate chain {}", cert.display()))?;
    let private =
        PrivateKeyDer::from_pem_file(&key).with_context(|| format!("cannot read the private key {}", key.display()))?;
    let mut server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{} and {} do not fit together", cert.display(), key.display()))?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}
