//! TLS to servers outside: of hosted APIs, and of issuers' keys.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Most bytes of certificates that are read of a file.
const CA_LEN_MAX: u64 = 4 << 20;

/// What makes connections to servers that the certificates in the file `ca`, or those of the system, vouch for. Always HTTP/1.1.
pub(crate) fn connector(ca: Option<&str>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let pem = read_at_most(path, CA_LEN_MAX)?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| format!("{path}: {error}"))?;
                roots.add(certificate).map_err(|error| format!("{path}: {error}"))?;
            }
        }
    }
    if roots.is_empty() {
        return Err("there are no certificates of those who may vouch for the server".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The bytes of a file, up to `most`.
pub(crate) fn read_at_most(path: &str, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| format!("{path}: {error}"))?;
    Ok(bytes)
}
