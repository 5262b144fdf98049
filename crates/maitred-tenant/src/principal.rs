//! Who is calling, as far as it has been proven.

use std::sync::Arc;

use maitred_types::{FaultKind, KeyId, TenantId};

use crate::issuer::is_name;
use crate::{CertificateGrant, KeyGrant, ModelGrant, TokenGrant, UserId};

/// Who is calling. Every fact in it has been proven by a key, a signature or a certificate, or is the word of a service that
/// is trusted to give it.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Who owns the call.
    pub tenant: TenantId,
    /// The public id of the key; `None` for those who show none.
    pub key: Option<KeyId>,
    proof: Proof,
    acts_for: Option<ActsFor>,
}

/// What the caller has shown.
#[derive(Clone, Debug)]
enum Proof {
    Nothing,
    Key(Arc<KeyGrant>),
    Token(Arc<TokenGrant>),
    Certificate(Arc<CertificateGrant>),
}

/// For whom a service makes the call.
#[derive(Clone, Debug)]
enum ActsFor {
    /// A user that a trusted service has named.
    Named(UserId),
    /// A user whose token the service has shown.
    Signed(Arc<TokenGrant>),
}

impl Principal {
    /// Somebody who shows nothing, where that is allowed.
    #[must_use]
    pub const fn anonymous(tenant: TenantId) -> Self {
        Self {
            tenant,
            key: None,
            proof: Proof::Nothing,
            acts_for: None,
        }
    }

    /// Who has shown a key.
    #[must_use]
    pub fn of_key(grant: &Arc<KeyGrant>) -> Self {
        Self {
            tenant: grant.tenant.clone(),
            key: Some(grant.id().clone()),
            proof: Proof::Key(Arc::clone(grant)),
            acts_for: None,
        }
    }

    /// Who has shown a token.
    #[must_use]
    pub fn of_token(grant: Arc<TokenGrant>) -> Self {
        Self {
            tenant: grant.tenant.clone(),
            key: None,
            proof: Proof::Token(grant),
            acts_for: None,
        }
    }

    /// Who has shown a certificate.
    #[must_use]
    pub fn of_certificate(grant: &Arc<CertificateGrant>) -> Self {
        Self {
            tenant: grant.tenant.clone(),
            key: None,
            proof: Proof::Certificate(Arc::clone(grant)),
            acts_for: None,
        }
    }

    /// The same caller on behalf of the user that it names. A caller that names itself says nothing new.
    ///
    /// # Errors
    /// The caller is not trusted to name users, or the name cannot be one.
    pub fn acting_for(mut self, user: &str) -> Result<Self, UserRefusal> {
        if self.user() == Some(user) {
            return Ok(self);
        }
        if self.on_behalf() != OnBehalf::Named {
            return Err(UserRefusal::NotTrusted);
        }
        if !is_name(user) {
            return Err(UserRefusal::BadName);
        }
        if self.acts_for.is_some() {
            return Err(UserRefusal::TwoUsers);
        }
        self.acts_for = Some(ActsFor::Named(UserId::from(user)));
        Ok(self)
    }

    /// The same caller on behalf of the user whose token it shows.
    ///
    /// # Errors
    /// The caller may not act for others, or the user is another tenant's, or the token names no user.
    pub fn acting_for_holder(mut self, token: Arc<TokenGrant>) -> Result<Self, UserRefusal> {
        if self.on_behalf() == OnBehalf::Nobody {
            return Err(UserRefusal::NotService);
        }
        if token.tenant != self.tenant {
            return Err(UserRefusal::OtherTenant);
        }
        if token.user.is_none() {
            return Err(UserRefusal::NoUser);
        }
        self.acts_for = Some(ActsFor::Signed(token));
        Ok(self)
    }

    fn on_behalf(&self) -> OnBehalf {
        match &self.proof {
            Proof::Key(grant) => grant.on_behalf,
            Proof::Certificate(grant) => grant.on_behalf,
            Proof::Nothing | Proof::Token(_) => OnBehalf::Nobody,
        }
    }

    /// Checks that a user is known, or that the key may be shared by several.
    ///
    /// # Errors
    /// [`UserRefusal::NoUser`].
    pub fn with_user(self) -> Result<Self, UserRefusal> {
        if self.user().is_some() || self.may_be_shared() {
            Ok(self)
        } else {
            Err(UserRefusal::NoUser)
        }
    }

    /// The user on whose behalf the call is made, if one is known.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        let user = match (&self.acts_for, &self.proof) {
            (Some(ActsFor::Named(user)), _) => Some(user),
            (Some(ActsFor::Signed(token)), _) | (None, Proof::Token(token)) => token.user.as_ref(),
            (None, Proof::Key(grant)) => grant.user.as_ref(),
            (None, Proof::Certificate(grant)) => grant.user.as_ref(),
            (None, Proof::Nothing) => None,
        };
        user.map(UserId::as_str)
    }

    /// Who has issued the token that names the user, if one does.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.token().map(|token| &*token.issuer)
    }

    /// The task that the token names.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.token()?.task.as_deref()
    }

    /// The groups of the user, as its token lists them.
    #[must_use]
    pub fn groups(&self) -> &[Arc<str>] {
        self.token().map_or(&[], |token| &token.groups)
    }

    /// What a claim of the token says, if it is one that is looked at.
    #[must_use]
    pub fn claim(&self, path: &str) -> &[Arc<str>] {
        let mut claims = self.token().map_or(&[][..], |token| &token.claims).iter();
        let found = claims.find(|(known, _)| known.as_str() == path);
        found.map_or(&[], |(_, values)| values)
    }

    fn token(&self) -> Option<&TokenGrant> {
        match (&self.acts_for, &self.proof) {
            (Some(ActsFor::Signed(token)), _) | (_, Proof::Token(token)) => Some(token),
            _ => None,
        }
    }

    /// Whether it may use the model of that name. Who acts for another may use what both may.
    #[must_use]
    pub fn may_use(&self, model: &str) -> bool {
        let [first, second] = self.models();
        [first, second].into_iter().flatten().all(|models| models.allows(model))
    }

    /// Whether there may be models that it may not use.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.models()
            .into_iter()
            .flatten()
            .any(|models| *models != ModelGrant::All)
    }

    fn models(&self) -> [Option<&ModelGrant>; 2] {
        let own = match &self.proof {
            Proof::Nothing => None,
            Proof::Key(grant) => Some(&grant.models),
            Proof::Token(grant) => Some(&grant.models),
            Proof::Certificate(grant) => Some(&grant.models),
        };
        let other = match &self.acts_for {
            Some(ActsFor::Signed(token)) => Some(&token.models),
            Some(ActsFor::Named(_)) | None => None,
        };
        [own, other]
    }

    /// The class of its calls, and the highest that they may ask for; the default class if absent.
    #[must_use]
    pub fn class(&self) -> Option<&Arc<str>> {
        match &self.proof {
            Proof::Key(grant) => grant.class.as_ref(),
            Proof::Nothing | Proof::Token(_) | Proof::Certificate(_) => None,
        }
    }

    /// Whether a key was shown that is no one user's, and no user is known, so that nobody can say who has made the call.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.user().is_none() && matches!(self.proof, Proof::Key(_))
    }

    /// Whether such a call is meant to be possible.
    fn may_be_shared(&self) -> bool {
        matches!(&self.proof, Proof::Key(grant) if grant.is_shared)
    }

    /// What the caller has shown: `key`, `token`, `certificate` or `none`.
    #[must_use]
    pub const fn proof(&self) -> &'static str {
        match self.proof {
            Proof::Nothing => "none",
            Proof::Key(_) => "key",
            Proof::Token(_) => "token",
            Proof::Certificate(_) => "certificate",
        }
    }
}

/// For whom a caller may make calls besides itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBehalf {
    /// Nobody.
    #[default]
    Nobody,
    /// Users whose token it shows.
    Signed,
    /// Also users that it merely names.
    Named,
}

/// Why a call is not made on behalf of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRefusal {
    /// The caller is not trusted to name users.
    NotTrusted,
    /// The caller may not act for others.
    NotService,
    /// The user is of another tenant.
    OtherTenant,
    /// The text cannot be the name of a user.
    BadName,
    /// The caller names one user and shows the token of another.
    TwoUsers,
    /// A user is needed, and none is known.
    NoUser,
}

impl UserRefusal {
    /// What this is called.
    #[must_use]
    pub const fn fault(self) -> FaultKind {
        FaultKind::UserNotAllowed
    }

    /// What the client is told.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::NotTrusted => "the call names a user, but this caller is not trusted to name users",
            Self::NotService => "the call shows a user's token, but this caller may not act for users",
            Self::OtherTenant => "the user's token is of another tenant than the caller",
            Self::BadName => "the name of the user must be one line of 1 to 256 bytes, without blanks at its ends",
            Self::TwoUsers => "the call names one user and shows the token of another",
            Self::NoUser => {
                "this gateway must know the user of each call; use a key or token of one user, or name the user that the service acts for"
            }
        }
    }
}

#[cfg(test)]
mod tests;
