//! `auth`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use maitred_tenant::Algorithm;

use super::word::Word;
use crate::forms::{ClaimText, FilePath, HeaderName, KeyHashText, ModelPatternText, Moment, Name, TimeSpan, WebUrl};

/// Who may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Auth {
    /// The keys that are accepted, as hashes. Several keys of one tenant may be valid at one time, so a key is replaced
    /// by adding the new one, moving the callers over and removing the old one.
    pub(crate) keys: Vec<Key>,
    /// A secret of at least 16 bytes that the hashes are keyed with, so that the file alone does not tell which keys are
    /// right. `maitred keys new` must be given the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pepper: Option<SecretRef>,
    /// Whose signed tokens (JWT, as OpenID Connect providers issue them) are accepted as `Authorization: Bearer TOKEN`.
    pub(crate) issuers: Vec<Issuer>,
    /// Whose client certificates are accepted, on listeners with `tls.client_ca`. The first that fits counts; a key or
    /// token that is sent as well counts before the certificate.
    pub(crate) certificates: Vec<ClientCertificate>,
    /// Refuses calls of which no user is known, such as those of services that name none, but for keys that are marked `shared`.
    pub(crate) require_user: bool,
    /// The header in which services that are trusted to (`on_behalf: named`) name the user that they act for.
    pub(crate) user_header: HeaderName,
    /// Accepts calls without a key. Only for listeners on loopback addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) anonymous: Option<Anonymous>,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            pepper: None,
            issuers: Vec::new(),
            certificates: Vec::new(),
            require_user: false,
            user_header: HeaderName::new("x-maitred-user"),
            anonymous: None,
        }
    }
}

/// One key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// The hash that `maitred keys new` prints beside the key. The key itself never stands in this file.
    #[schemars(extend("x-secret" = true))]
    pub(crate) hash: KeyHashText,
    /// Who owns the key.
    pub(crate) tenant: Name,
    /// The user of the tenant on whose behalf the key is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<Name>,
    /// For which users a service with this key may make calls besides.
    #[serde(default)]
    pub(crate) on_behalf: OnBehalf,
    /// Says that several share the key, so that nobody can tell who has made a call; the audit marks its calls. Needed where
    /// the key has neither `user` nor `on_behalf`.
    #[serde(default)]
    pub(crate) shared: bool,
    /// The models that the key may use, as clients name them. A `*` at the end stands for any ending.
    #[serde(default = "all_models")]
    #[schemars(length(min = 1))]
    pub(crate) models: Vec<ModelPatternText>,
    /// The class of its calls, and the highest that their header `x-maitred-class` may name; the default class if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Name>,
    /// When the key begins to be valid: a date (its first instant in UTC) or a time with an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<Moment>,
    /// When the key ceases to be valid: a date (its first instant in UTC) or a time with an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Moment>,
}

impl Key {
    /// Whether nobody can tell who makes calls with it, and nobody has said that this is meant.
    pub(crate) fn is_nobodys(&self) -> bool {
        self.user.is_none() && self.on_behalf == OnBehalf::Nobody && !self.shared
    }
}

fn all_models() -> Vec<ModelPatternText> {
    vec![ModelPatternText::all()]
}

/// For which users a service may make calls. Quotas and records then see the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnBehalf {
    /// For none.
    #[default]
    Nobody,
    /// For users of its tenant whose token of one of `issuers` it sends in `x-maitred-user-token`.
    Signed,
    /// Also for users that it merely names in `user_header`. Only for services that check themselves who their users are.
    Named,
}

/// One issuer of tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Issuer {
    /// Its name, just as tokens give it in `iss`.
    pub(crate) issuer: Name,
    /// Whom its tokens must be meant for (`aud`): one of these.
    #[schemars(length(min = 1))]
    pub(crate) audiences: Vec<Name>,
    /// Where its public keys are.
    pub(crate) jwks: JwksSource,
    /// A file with the certificates in PEM of those who may vouch for the server of `jwks`; those of the system if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<FilePath>,
    /// Connects to the server of `jwks` also if its name resolves to a private or loopback address. Link-local addresses, where clouds
    /// hand out the machine's own credentials, are never connected to. A loopback address that stands in the URL needs no permission.
    #[serde(default)]
    pub(crate) allow_private: bool,
    /// How its tokens may be signed.
    #[serde(default = "algorithms")]
    #[schemars(length(min = 1))]
    pub(crate) algorithms: Vec<Word<Algorithm>>,
    /// What its tokens' claims mean.
    pub(crate) claims: Claims,
    /// The tenants that its tokens may name; any if there are none.
    #[serde(default)]
    pub(crate) tenants: Vec<Name>,
    /// How far its clock and ours may differ.
    #[serde(default = "leeway")]
    pub(crate) leeway: TimeSpan,
    /// How often its keys are read again.
    #[serde(default = "refresh")]
    pub(crate) refresh: TimeSpan,
    /// How soon they are read again at the earliest, after a failure or when a token names a key that is not among them.
    #[serde(default = "cooldown")]
    pub(crate) cooldown: TimeSpan,
    /// How long the last good keys count while they cannot be read anew.
    #[serde(default = "max_age")]
    pub(crate) max_age: TimeSpan,
    /// What is remembered of tokens whose signature has been checked.
    #[serde(default)]
    pub(crate) cache: TokenCache,
}

fn algorithms() -> Vec<Word<Algorithm>> {
    [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa].map(Word).into()
}

fn leeway() -> TimeSpan {
    TimeSpan::secs(60)
}

fn refresh() -> TimeSpan {
    TimeSpan::secs(300)
}

fn cooldown() -> TimeSpan {
    TimeSpan::secs(10)
}

fn max_age() -> TimeSpan {
    TimeSpan::secs(86_400)
}

/// Where an issuer's public keys (a JSON Web Key Set) are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JwksSource {
    /// A URL that is read in the background. Redirects are not followed. Clear text is for loopback only.
    Url(WebUrl),
    /// A file.
    File(FilePath),
}

/// What the claims of an issuer's tokens mean. A claim is named by its name, or by `/group/name` if it stands inside another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    /// Who owns the calls.
    pub(crate) tenant: TenantClaim,
    /// The claim that names the user.
    #[serde(default = "ClaimText::subject")]
    pub(crate) user: ClaimText,
    /// The claim that lists the models that may be used, as a list or with blanks between them; a token without it may use
    /// none. All models, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<ClaimText>,
    /// The claim that lists the groups of the user, as a list or with blanks between them, for the rules of `routes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<ClaimText>,
    /// The claim that names the task. It binds: a call that names another task itself is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<ClaimText>,
}

/// Whose calls an issuer's tokens make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TenantClaim {
    /// The claim that names the tenant. A token without it is refused.
    Claim(ClaimText),
    /// The one tenant of all tokens.
    Is(Name),
}

/// What is remembered of tokens, so that the signature of each is checked once in a while only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TokenCache {
    /// Most tokens that are remembered; 0 remembers none.
    #[schemars(range(max = 1_000_000))]
    pub(crate) tokens: u32,
    /// For how long, at most; never beyond their own end, nor a change of the keys.
    pub(crate) life: TimeSpan,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self {
            tokens: 10_000,
            life: TimeSpan::secs(300),
        }
    }
}

/// One client certificate, known by a name in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientCertificate {
    /// The name that it must have.
    pub(crate) name: CertificateName,
    /// Who owns the calls.
    pub(crate) tenant: Name,
    /// The user of the tenant on whose behalf the certificate is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<Name>,
    /// For which users a service with this certificate may make calls besides.
    #[serde(default)]
    pub(crate) on_behalf: OnBehalf,
    /// The models that may be used, as clients name them. A `*` at the end stands for any ending.
    #[serde(default = "all_models")]
    #[schemars(length(min = 1))]
    pub(crate) models: Vec<ModelPatternText>,
}

/// A name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CertificateName {
    /// A URI among its alternative names, such as a SPIFFE id.
    Uri(Name),
    /// A DNS name among its alternative names.
    Dns(Name),
    /// The common name of its subject, if it has just one.
    CommonName(Name),
}

/// Calls without a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Anonymous {
    /// Who such calls are accounted to.
    pub(crate) tenant: Name,
}

/// Where a secret is kept. The secret itself never stands in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretRef {
    /// The environment variable that holds the secret.
    Env(#[schemars(extend("x-secret" = true))] Name),
    /// The file that holds the secret; white space at its end is ignored.
    File(#[schemars(extend("x-secret" = true))] FilePath),
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the environment variable `{name}`"),
            Self::File(path) => write!(f, "the file `{path}`"),
        }
    }
}
