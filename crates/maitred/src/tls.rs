//! TLS of the listeners. Certificates are read again while the gateway runs, since they expire sooner than it is restarted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use maitred_config::{Settings, TlsFiles};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::config_file::beside;

/// Makes aws-lc-rs the one provider of this process.
pub(crate) fn install_provider() {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed before");
    }
}

/// The certificates of all listeners; `None` for clear text.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    /// Those of the listeners for clients, in order.
    listeners: Vec<Option<Arc<Certificate>>>,
    admin: Option<Arc<Certificate>>,
}

impl Certificates {
    /// Reads them.
    pub(crate) fn load(settings: &Settings, config: &Path) -> anyhow::Result<Self> {
        let load = |files: Option<&TlsFiles>| {
            let loaded = files.map(|files| Certificate::load(files, config).map(Arc::new));
            loaded.transpose()
        };
        let listeners = settings.listeners.iter();
        Ok(Self {
            listeners: listeners
                .map(|listener| load(listener.tls.as_ref()))
                .collect::<anyhow::Result<_>>()?,
            admin: load(settings.admin.tls.as_ref())?,
        })
    }

    /// The TLS settings of each listener.
    pub(crate) fn servers(&self) -> Vec<Option<Arc<ServerConfig>>> {
        let protocols = [b"h2".as_slice(), b"http/1.1"];
        let of = |certificate: &Arc<Certificate>| server(certificate, &protocols);
        self.listeners
            .iter()
            .map(|certificate| certificate.as_ref().map(of))
            .collect()
    }

    /// The TLS settings of the administrative listener.
    pub(crate) fn admin(&self) -> Option<Arc<ServerConfig>> {
        self.admin
            .as_ref()
            .map(|certificate| server(certificate, &[b"http/1.1"]))
    }

    /// Reads the files again. New connections get what is new; a file that is broken changes nothing.
    pub(crate) fn refresh(&self) {
        for certificate in self.listeners.iter().flatten().chain(&self.admin) {
            match certificate.refresh() {
                Ok(true) => tracing::info!(file = %certificate.cert.display(), "the certificate is renewed"),
                Ok(false) => {}
                Err(error) => tracing::error!("the old certificate stays in use: {error:#}"),
            }
        }
    }
}

fn server(certificate: &Arc<Certificate>, protocols: &[&[u8]]) -> Arc<ServerConfig> {
    let resolver: Arc<dyn ResolvesServerCert> = Arc::<Certificate>::clone(certificate);
    let builder = ServerConfig::builder();
    let mut server = match &certificate.clients {
        None => builder.with_no_client_auth().with_cert_resolver(resolver),
        Some(verifier) => {
            let verifier = Arc::clone(verifier);
            let mut server = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
            // Whoever comes back shows the certificate again, so that one that has expired meanwhile is not let in.
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
            server
        }
    };
    server.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(server)
}

/// One listener's certificate chain and private key, and who checks the certificates of its clients.
#[derive(Debug)]
struct Certificate {
    clients: Option<Arc<dyn ClientCertVerifier>>,
    cert: PathBuf,
    key: PathBuf,
    current: ArcSwap<CertifiedKey>,
}

impl Certificate {
    fn load(files: &TlsFiles, config: &Path) -> anyhow::Result<Self> {
        let (cert, key) = (beside(config, &files.cert), beside(config, &files.key));
        let current = ArcSwap::from_pointee(read(&cert, &key)?);
        let clients = files
            .client_ca
            .as_ref()
            .map(|ca| verifier(&beside(config, ca), files.client_required));
        Ok(Self {
            clients: clients.transpose()?,
            cert,
            key,
            current,
        })
    }

    /// Whether there is something new.
    fn refresh(&self) -> anyhow::Result<bool> {
        let read = read(&self.cert, &self.key)?;
        if read.cert == self.current.load().cert {
            return Ok(false);
        }
        self.current.store(Arc::new(read));
        Ok(true)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// Who checks the certificates of clients, by those of the issuers in `file`.
fn verifier(file: &Path, is_required: bool) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let unreadable = || {
        format!(
            "cannot read the certificates of those who issue clients' certificates in {}",
            file.display()
        )
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).with_context(unreadable)? {
        roots
            .add(certificate.with_context(unreadable)?)
            .with_context(unreadable)?;
    }
    let builder = WebPkiClientVerifier::builder(Arc::new(roots));
    let builder = if is_required {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    builder.build().with_context(unreadable)
}

fn read(cert: &Path, key: &Path) -> anyhow::Result<CertifiedKey> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read the certificate chain {}", cert.display()))?;
    let private =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("cannot read the private key {}", key.display()))?;
    let provider = CryptoProvider::get_default().context("no TLS provider is installed")?;
    CertifiedKey::from_der(chain, private, provider)
        .with_context(|| format!("{} and {} do not fit together", cert.display(), key.display()))
}
