//! The names in a client's certificate.

use maitred_tenant::{CertificateName, CertificateNames, common_name};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The names in the certificate at the head of a chain that the handshake has checked.
#[must_use]
pub fn certificate_names(chain: &[CertificateDer<'_>]) -> Option<CertificateNames> {
    let certificate = EndEntityCert::try_from(chain.first()?).ok()?;
    let uris = certificate
        .valid_uri_names()
        .map(|uri| CertificateName::Uri(uri.to_owned()));
    let dns = certificate
        .valid_dns_names()
        .map(|name| CertificateName::Dns(name.to_owned()));
    let subject = common_name(certificate.subject()).map(CertificateName::CommonName);
    // The names before it may be as many as are kept.
    Some(CertificateNames::new(subject.into_iter().chain(uris).chain(dns)))
}
