//! Client certificates: the names that one proves, and what they grant.

use std::sync::Arc;

use maitred_types::TenantId;

use crate::{ModelGrant, OnBehalf, UserId};

/// A name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// A URI among its alternative names, such as a SPIFFE id.
    Uri(String),
    /// A DNS name among its alternative names.
    Dns(String),
    /// The common name of its subject.
    CommonName(String),
}

/// What a certificate grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateGrant {
    /// The name that it must have.
    pub name: CertificateName,
    /// Who owns the calls.
    pub tenant: TenantId,
    /// Who makes them.
    pub user: Option<UserId>,
    /// For whom else the caller may make calls.
    pub on_behalf: OnBehalf,
    /// Which models may be used.
    pub models: ModelGrant,
}

/// The names of a certificate whose chain has been checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    names: Vec<CertificateName>,
}

impl CertificateNames {
    /// Most names of one certificate that are kept.
    pub const MAX: usize = 64;

    /// The first of these names.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = CertificateName>) -> Self {
        Self {
            names: names.into_iter().take(Self::MAX).collect(),
        }
    }

    /// Whether `name` is one of them.
    #[must_use]
    pub fn has(&self, name: &CertificateName) -> bool {
        self.names.iter().any(|own| own.is_same(name))
    }

    /// The first of `grants` that is for one of the names.
    #[must_use]
    pub fn grant<'g>(&self, grants: &'g [Arc<CertificateGrant>]) -> Option<&'g Arc<CertificateGrant>> {
        grants.iter().find(|grant| self.has(&grant.name))
    }
}

impl CertificateName {
    /// Whether both are one name. DNS names have no case; the others are compared byte by byte.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dns(one), Self::Dns(two)) => one.eq_ignore_ascii_case(two),
            _ => self == other,
        }
    }
}

/// Tag and content of the first DER element, and what follows it (X.690, section 8.1). Lengths up to 65,535 only.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (
            usize::from(*rest.first()?) << 8 | usize::from(*rest.get(1)?),
            rest.get(2..)?,
        ),
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The common name in a subject: the content of the certificate's `Name` (RFC 5280, section 4.1.2.4). `None` where there is
/// none, or more than one, since then nobody can say which is meant.
#[must_use]
pub fn common_name(subject: &[u8]) -> Option<String> {
    /// `2.5.4.3`, as DER has it.
    const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const UTF8: u8 = 0x0c;
    const PRINTABLE: u8 = 0x13;

    let mut found = None;
    let mut sets = subject;
    while !sets.is_empty() {
        let (tag, mut pairs, rest) = element(sets)?;
        sets = rest;
        while tag == SET && !pairs.is_empty() {
            let (tag, pair, rest) = element(pairs)?;
            pairs = rest;
            let (_, name, value) = element(pair)?;
            if tag != SEQUENCE || name != COMMON_NAME {
                continue;
            }
            let (kind, text, _) = element(value)?;
            let text = [UTF8, PRINTABLE]
                .contains(&kind)
                .then(|| std::str::from_utf8(text).ok())??;
            if found.replace(text.to_owned()).is_some() {
                return None;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn pair(oid: &[u8], text: &str) -> Vec<u8> {
        tlv(0x31, &tlv(0x30, &[tlv(6, oid), tlv(0x0c, text.as_bytes())].concat()))
    }

    #[test]
    fn the_common_name_is_found_if_there_is_one() {
        let (organisation, common) = ([0x55, 4, 10], [0x55, 4, 3]);
        let subject = [pair(&organisation, "Acme"), pair(&common, "agent")].concat();
        assert_eq!(common_name(&subject).as_deref(), Some("agent"));
        assert_eq!(common_name(&pair(&organisation, "agent")), None);
        let twice = [pair(&common, "agent"), pair(&common, "admin")].concat();
        assert_eq!(common_name(&twice), None);
        assert_eq!(common_name(&[]), None);
        for length in 0..subject.len() {
            assert_ne!(common_name(&subject[..length]).as_deref(), Some("agent"), "{length}");
        }
    }

    #[test]
    fn a_grant_is_for_a_name_of_its_kind() {
        let grant = |name| {
            Arc::new(CertificateGrant {
                name,
                tenant: TenantId::from("acme"),
                user: None,
                on_behalf: OnBehalf::Nobody,
                models: ModelGrant::All,
            })
        };
        let dns = |name: &str| CertificateName::Dns(name.to_owned());
        let cn = |name: &str| CertificateName::CommonName(name.to_owned());
        let check = |shown: CertificateName, wanted: CertificateName, fits: bool| {
            let names = CertificateNames::new([shown]);
            assert_eq!(names.grant(&[grant(wanted)]).is_some(), fits, "{names:?}");
        };
        check(dns("a.example"), dns("A.example"), true);
        check(dns("a.example"), cn("a.example"), false);
        check(cn("agent"), cn("agent"), true);
        check(cn("agent"), cn("Agent"), false);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_subject_or_none(bytes: Vec<u8>) {
            std::hint::black_box(common_name(&bytes));
        }
    }
}
