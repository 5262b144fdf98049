//! What is trusted of an issuer's tokens, and what their claims grant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use maitred_types::{TenantId, UnixMillis};
use serde_json::{Map, Value};

use crate::{Algorithm, ModelGrant, ModelPattern, Token, TokenRefusal, UserId};

/// Longest name that a claim may give, in bytes.
const NAME_LEN_MAX: usize = 256;
/// Most model patterns that a claim may list.
const MODELS_MAX: usize = 256;
/// Most values that are kept of a claim that lists them.
const VALUES_MAX: usize = 256;
/// The last second that a date may name: the end of the year 9999.
const SECONDS_MAX: f64 = 253_402_300_799.0;

/// What is trusted of one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerRules {
    /// Its name, as tokens give it in `iss`.
    pub issuer: Arc<str>,
    /// Whom its tokens must be meant for: one of these.
    pub audiences: Vec<String>,
    /// How its tokens may be signed.
    pub algorithms: Vec<Algorithm>,
    /// Where a token names the tenant.
    pub tenant: TenantSource,
    /// The tenants that it may name; any, if there are none.
    pub tenants: Vec<TenantId>,
    /// Where a token names the user.
    pub user: ClaimPath,
    /// Where a token lists the models that it may use; all models, if nowhere.
    pub models: Option<ClaimPath>,
    /// Where a token lists the groups of its user, if anywhere.
    pub groups: Option<ClaimPath>,
    /// Other claims that are looked at later.
    pub kept: Vec<ClaimPath>,
    /// Where a token names the task.
    pub task: Option<ClaimPath>,
    /// How far the issuer's clock and ours may differ.
    pub leeway: Duration,
}

/// Where the tenant of an issuer's tokens is known from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantSource {
    /// A claim names it.
    Claim(ClaimPath),
    /// All tokens of the issuer are of one tenant.
    Is(TenantId),
}

/// What a token grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// Who has issued it.
    pub issuer: Arc<str>,
    /// Who owns the calls.
    pub tenant: TenantId,
    /// Who makes them.
    pub user: Option<UserId>,
    /// Which models may be used.
    pub models: ModelGrant,
    /// The groups of the user.
    pub groups: Vec<Arc<str>>,
    /// What the claims say that are looked at later.
    pub claims: Vec<(ClaimPath, Vec<Arc<str>>)>,
    /// The task they belong to.
    pub task: Option<Arc<str>>,
    /// The first instant at which it is no longer valid, the leeway included.
    pub expires: UnixMillis,
}

impl IssuerRules {
    /// What a token grants whose signature has been found to be the issuer's.
    ///
    /// # Errors
    /// Says why the token grants nothing.
    pub fn admit(&self, token: &Token<'_>, now: UnixMillis) -> Result<TokenGrant, TokenRefusal> {
        let claims = &token.claims;
        if token.issuer() != Some(&*self.issuer) {
            return Err(TokenRefusal::Issuer);
        }
        if !self.is_audience(claims.get("aud")) {
            return Err(TokenRefusal::Audience);
        }
        let expires = self.times(claims, now)?;
        Ok(TokenGrant {
            issuer: Arc::clone(&self.issuer),
            tenant: self.tenant(claims)?,
            user: self.user.name(claims)?.map(UserId::from),
            models: self.models(claims)?,
            groups: self
                .groups
                .as_ref()
                .map(|path| words(path.find(claims)))
                .unwrap_or_default(),
            claims: self
                .kept
                .iter()
                .map(|path| (path.clone(), values(path.find(claims))))
                .collect(),
            task: match &self.task {
                None => None,
                Some(path) => path.name(claims)?.map(Arc::from),
            },
            expires,
        })
    }

    /// `aud` is one text or a list of them (RFC 7519, section 4.1.3).
    fn is_audience(&self, claim: Option<&Value>) -> bool {
        let is_ours = |audience: &Value| {
            let audience = audience.as_str();
            audience.is_some_and(|audience| self.audiences.iter().any(|ours| ours == audience))
        };
        match claim {
            Some(Value::Array(several)) => several.iter().any(is_ours),
            Some(one) => is_ours(one),
            None => false,
        }
    }

    /// Checks `exp`, which must be there, and `nbf` and `iat` (RFC 7519, section 4.1). Says when the token is over.
    fn times(&self, claims: &Map<String, Value>, now: UnixMillis) -> Result<UnixMillis, TokenRefusal> {
        let leeway = u64::try_from(self.leeway.as_millis()).unwrap_or(u64::MAX);
        let expires = moment(claims, "exp")?.ok_or(TokenRefusal::Claim)?;
        let expires = UnixMillis::new(expires.get().saturating_add(leeway));
        if now >= expires {
            return Err(TokenRefusal::Expired);
        }
        let latest = now.get().saturating_add(leeway);
        for name in ["nbf", "iat"] {
            if moment(claims, name)?.is_some_and(|begins| begins.get() > latest) {
                return Err(TokenRefusal::NotYetValid);
            }
        }
        Ok(expires)
    }

    fn tenant(&self, claims: &Map<String, Value>) -> Result<TenantId, TokenRefusal> {
        let tenant = match &self.tenant {
            TenantSource::Is(tenant) => return Ok(tenant.clone()),
            TenantSource::Claim(path) => path.name(claims)?.ok_or(TokenRefusal::Claim)?,
        };
        // Tenants become labels and parts of counters' names, where blanks have no place.
        let is_allowed = self.tenants.is_empty() || self.tenants.iter().any(|allowed| allowed.as_str() == tenant);
        if tenant.contains(char::is_whitespace) || !is_allowed {
            return Err(TokenRefusal::Claim);
        }
        Ok(TenantId::from(tenant))
    }

    /// The models that a token lists: a list of texts, or one text with blanks between them. A token without the list that
    /// its issuer's tokens have may use none.
    fn models(&self, claims: &Map<String, Value>) -> Result<ModelGrant, TokenRefusal> {
        let Some(path) = &self.models else {
            return Ok(ModelGrant::All);
        };
        let texts: Vec<&str> = match path.find(claims) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => text.split_whitespace().collect(),
            Some(Value::Array(several)) => {
                let texts: Option<_> = several.iter().map(Value::as_str).collect();
                texts.ok_or(TokenRefusal::Claim)?
            }
            Some(_) => return Err(TokenRefusal::Claim),
        };
        if texts.len() > MODELS_MAX {
            return Err(TokenRefusal::Claim);
        }
        let patterns = texts
            .into_iter()
            .map(ModelPattern::parse)
            .collect::<Result<Vec<_>, _>>();
        let patterns = patterns.map_err(|_| TokenRefusal::Claim)?;
        Ok(if patterns.iter().any(ModelPattern::is_all) {
            ModelGrant::All
        } else {
            ModelGrant::Listed(patterns)
        })
    }
}

/// The texts of a claim that lists some, with blanks between them or as a list.
fn words(claim: Option<&Value>) -> Vec<Arc<str>> {
    match claim {
        Some(Value::String(text)) => text.split_whitespace().take(VALUES_MAX).map(Arc::from).collect(),
        other => values(other),
    }
}

/// What a claim says, one value or several; nothing of what is neither text nor number nor flag.
fn values(claim: Option<&Value>) -> Vec<Arc<str>> {
    let value = |value: &Value| match value {
        Value::String(text) if text.len() <= NAME_LEN_MAX => Some(Arc::from(text.as_str())),
        Value::Number(_) | Value::Bool(_) => Some(Arc::from(value.to_string())),
        _ => None,
    };
    match claim {
        Some(Value::Array(several)) => several.iter().filter_map(value).take(VALUES_MAX).collect(),
        Some(one) => value(one).into_iter().collect(),
        None => Vec::new(),
    }
}

/// A date: seconds since the Unix epoch, perhaps with a fraction (RFC 7519, section 2).
fn moment(claims: &Map<String, Value>, name: &str) -> Result<Option<UnixMillis>, TokenRefusal> {
    let Some(claim) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = claim
        .as_f64()
        .filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds))
        .ok_or(TokenRefusal::Claim)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a date before the year 10000"
    )]
    Ok(Some(UnixMillis::new((seconds * 1000.0) as u64)))
}

/// Where a claim stands: `name` at the top, or `/group/name` for one inside others (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPath(Arc<str>);

impl ClaimPath {
    /// Reads the text.
    ///
    /// # Errors
    /// It is empty, too long, or has control characters.
    pub fn parse(text: &str) -> Result<Self, ClaimPathError> {
        if text.is_empty() || text == "/" || text.len() > NAME_LEN_MAX || text.chars().any(char::is_control) {
            return Err(ClaimPathError);
        }
        Ok(Self(Arc::from(text)))
    }

    /// The text of the path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The claim that every issuer names users with.
    #[must_use]
    pub fn subject() -> Self {
        Self(Arc::from("sub"))
    }

    fn find<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        let Some(inner) = self.0.strip_prefix('/') else {
            return claims.get(&*self.0);
        };
        let mut steps = inner.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let first = claims.get(&steps.next()?)?;
        steps.try_fold(first, |value, step| value.as_object()?.get(&step))
    }

    /// The name that stands there, if one does: text that can be shown in one line. Whatever else is in it (quotes,
    /// semicolons) is a part of the name and of nothing else.
    fn name<'c>(&self, claims: &'c Map<String, Value>) -> Result<Option<&'c str>, TokenRefusal> {
        match self.find(claims) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(name)) if is_name(name) => Ok(Some(name)),
            Some(_) => Err(TokenRefusal::Claim),
        }
    }
}

/// Whether a text from outside may be the name of a user: not empty, not long, in one line, without blanks at its ends.
pub(crate) fn is_name(text: &str) -> bool {
    let size = 1..=NAME_LEN_MAX;
    size.contains(&text.len()) && text.trim() == text && !text.chars().any(char::is_control)
}

impl fmt::Display for ClaimPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that names no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimPathError;

impl fmt::Display for ClaimPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a claim is named by 1 to {NAME_LEN_MAX} bytes without control characters: `name`, or `/group/name` for one inside another"
        )
    }
}

impl std::error::Error for ClaimPathError {}

#[cfg(test)]
mod tests;
