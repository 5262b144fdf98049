//! Checks of `auth.issuers` and `auth.certificates`.

use std::sync::Arc;
use std::time::Duration;

use maitred_tenant::{CertificateGrant, CertificateName, ClaimPath, IssuerRules, OnBehalf, TenantSource, UserId};
use maitred_types::TenantId;

use super::Checker;
use super::access::models;
use crate::path::Path;
use crate::raw;
use crate::reach::Reach;
use crate::settings::{IssuerSettings, JwksLocation};

/// Most issuers: each costs every unknown token a look.
const ISSUERS_MAX: usize = 32;
/// The most that clocks may be thought to differ. More would keep tokens alive that are long dead.
const LEEWAY_MAX: Duration = Duration::from_secs(300);
/// The least time between two readings of keys.
const COOLDOWN_MIN: Duration = Duration::from_millis(100);

impl Checker<'_> {
    pub(super) fn issuers(&mut self, file: &raw::File) -> Vec<Arc<IssuerSettings>> {
        let issuers = &file.auth.issuers;
        let path = Path::top("auth").key("issuers");
        let names = issuers.iter().enumerate();
        self.unique(
            "issuer",
            names.map(|(index, issuer)| (issuer.issuer.as_str().to_owned(), path.index(index).key("issuer"))),
        );
        if issuers.len() > ISSUERS_MAX {
            self.error(
                &path,
                format!("there are {} issuers", issuers.len()),
                format!("there may be {ISSUERS_MAX} at most"),
            );
        }
        for (index, issuer) in issuers.iter().enumerate() {
            self.issuer(issuer, &path.index(index));
        }
        let kept = claims_of_rules(&file.routes);
        let settings = |issuer| Arc::new(settings(issuer, &kept));
        issuers.iter().map(settings).collect()
    }

    fn issuer(&mut self, issuer: &raw::Issuer, path: &Path) {
        if issuer.leeway.get() > LEEWAY_MAX {
            self.error(
                &path.key("leeway"),
                format!("clocks that differ by {} are broken", issuer.leeway),
                "say at most `5m`, and set the clocks right",
            );
        }
        if issuer.cooldown.get() < COOLDOWN_MIN || issuer.cooldown.get() > issuer.refresh.get() {
            self.error(
                &path.key("cooldown"),
                format!("keys cannot be read again after {}", issuer.cooldown),
                "say from `100ms` to as long as `refresh`",
            );
        }
        if issuer.max_age.get() < issuer.refresh.get() {
            self.error(
                &path.key("max_age"),
                format!(
                    "keys would not count any more after {}, before they are read again",
                    issuer.max_age
                ),
                "it must be at least as long as `refresh`; how long may tokens be accepted while the issuer cannot be reached?",
            );
        }
        if matches!(issuer.claims.tenant, raw::TenantClaim::Is(_)) && !issuer.tenants.is_empty() {
            self.error(
                &path.key("tenants"),
                "the tenant is always the same, so there is nothing to choose from",
                "remove `tenants`, or name the claim that holds the tenant",
            );
        }
        self.issuer_address(issuer, path);
        if issuer.ca.is_some() && !matches!(&issuer.jwks, raw::JwksSource::Url(url) if url.is_tls()) {
            self.error(
                &path.key("ca"),
                "nobody vouches for keys that do not come over TLS",
                "remove `ca`, or read the keys from an `https://` URL",
            );
        }
    }

    /// An address in the place of a name must be one that may be connected to.
    fn issuer_address(&mut self, issuer: &raw::Issuer, path: &Path) {
        let raw::JwksSource::Url(url) = &issuer.jwks else {
            return;
        };
        if let Some(ip) = url.ip().filter(|ip| !reach(issuer).allows(*ip)) {
            let help = if Reach::Private.allows(ip) {
                "write `allow_private: true` if that is what you mean"
            } else {
                "clouds serve credentials there, or nobody is there; write the name or the address of the issuer"
            };
            self.error(
                &path.key("jwks"),
                format!("{ip} is no address that issuers' keys are read from"),
                help,
            );
        }
    }

    pub(super) fn certificates(&mut self, raw: &raw::File) -> Vec<Arc<CertificateGrant>> {
        let path = Path::top("auth").key("certificates");
        let models_known = self.model_names();
        let certificates = &raw.auth.certificates;
        for (index, certificate) in certificates.iter().enumerate() {
            self.key_models(&certificate.models, &models_known, &path.index(index).key("models"));
        }
        let asks = |listener: &raw::Listener| listener.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !certificates.is_empty() && !raw.listeners.iter().any(asks) {
            self.error(
                &path,
                "no listener asks for certificates",
                "name in `listeners[].tls.client_ca` who issues them",
            );
        }
        certificates
            .iter()
            .map(|certificate| Arc::new(grant(certificate)))
            .collect()
    }
}

/// The claims that rules look at.
fn claims_of_rules(routes: &[raw::Route]) -> Vec<ClaimPath> {
    let rules = routes.iter().flat_map(|route| &route.rules);
    let mut claims: Vec<ClaimPath> = rules
        .flat_map(|rule| &rule.when.claims)
        .map(|claim| claim.name.get().clone())
        .collect();
    claims.sort_by(|one, two| one.as_str().cmp(two.as_str()));
    claims.dedup();
    claims
}

fn settings(issuer: &raw::Issuer, kept: &[ClaimPath]) -> IssuerSettings {
    let claims = &issuer.claims;
    IssuerSettings {
        rules: IssuerRules {
            issuer: Arc::from(issuer.issuer.as_str()),
            audiences: issuer.audiences.iter().map(|name| name.as_str().to_owned()).collect(),
            algorithms: issuer.algorithms.iter().map(|word| word.0).collect(),
            tenant: match &claims.tenant {
                raw::TenantClaim::Claim(claim) => TenantSource::Claim(claim.get().clone()),
                raw::TenantClaim::Is(tenant) => TenantSource::Is(TenantId::from(tenant.as_str())),
            },
            tenants: issuer
                .tenants
                .iter()
                .map(|name| TenantId::from(name.as_str()))
                .collect(),
            user: claims.user.get().clone(),
            models: claims.models.as_ref().map(|claim| claim.get().clone()),
            groups: claims.groups.as_ref().map(|claim| claim.get().clone()),
            kept: kept.to_vec(),
            task: claims.task.as_ref().map(|claim| claim.get().clone()),
            leeway: issuer.leeway.get(),
        },
        jwks: match &issuer.jwks {
            raw::JwksSource::Url(url) => JwksLocation::Url(url.clone()),
            raw::JwksSource::File(path) => JwksLocation::File(path.as_str().to_owned()),
        },
        ca: issuer.ca.as_ref().map(|path| path.as_str().to_owned()),
        reach: reach(issuer),
        refresh: issuer.refresh.get(),
        cooldown: issuer.cooldown.get(),
        max_age: issuer.max_age.get(),
        cache_tokens: issuer.cache.tokens,
        cache_life: issuer.cache.life.get(),
    }
}

fn reach(issuer: &raw::Issuer) -> Reach {
    let is_loopback = matches!(&issuer.jwks, raw::JwksSource::Url(url) if url.is_loopback());
    Reach::of(issuer.allow_private || is_loopback)
}

pub(super) fn certificate_name(name: &raw::CertificateName) -> CertificateName {
    match name {
        raw::CertificateName::Uri(name) => CertificateName::Uri(name.as_str().to_owned()),
        raw::CertificateName::Dns(name) => CertificateName::Dns(name.as_str().to_owned()),
        raw::CertificateName::CommonName(name) => CertificateName::CommonName(name.as_str().to_owned()),
    }
}

fn grant(certificate: &raw::ClientCertificate) -> CertificateGrant {
    CertificateGrant {
        name: certificate_name(&certificate.name),
        tenant: TenantId::from(certificate.tenant.as_str()),
        user: certificate.user.as_ref().map(|user| UserId::from(user.as_str())),
        on_behalf: on_behalf(certificate.on_behalf),
        models: models(&certificate.models),
    }
}

pub(super) const fn on_behalf(raw: raw::OnBehalf) -> OnBehalf {
    match raw {
        raw::OnBehalf::Nobody => OnBehalf::Nobody,
        raw::OnBehalf::Signed => OnBehalf::Signed,
        raw::OnBehalf::Named => OnBehalf::Named,
    }
}
