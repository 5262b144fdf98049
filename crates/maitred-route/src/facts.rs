//! What is known of a call when it is planned.

use std::fmt;
use std::sync::Arc;

use maitred_types::{TokenCount, UnixMillis};

use crate::plan::TargetId;

/// The facts of one call that its plan follows from. Those that are dear to find, or of which only some are ever looked at, are
/// functions.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Whose it is.
    pub tenant: &'a str,
    /// The user, if one is known.
    pub user: Option<&'a str>,
    /// The groups of the user.
    pub groups: &'a [Arc<str>],
    /// Its class.
    pub class: &'a str,
    /// The type of its task, if it is known otherwise than by a header or by its shape.
    pub task: Option<&'a str>,
    /// What it asks for.
    pub shape: Shape,
    /// Its prompt, as estimated.
    pub input: TokenCount,
    /// The most output that it allows, if it says.
    pub output: Option<TokenCount>,
    /// When it came.
    pub now: UnixMillis,
    /// A hash of what binds it to others of its conversation.
    pub session: Option<u64>,
    /// A number that is as good as random and the same whenever this call is looked at, such as a hash of its id. It decides where
    /// weights leave a choice.
    pub draw: u64,
    /// Whether it may be answered by something else than what it asks for.
    pub degrade: Degrade,
    /// What its headers and its caller's token say.
    pub says: &'a (dyn Says + 'a),
    /// Whether the caller may use the model of that name.
    pub may_use: &'a (dyn Fn(&str) -> bool + 'a),
    /// What the call would cost at a target, if that has a price.
    pub cost: &'a (dyn Fn(TargetId) -> Option<u64> + 'a),
}

impl Default for Facts<'_> {
    /// A call of which nothing is known, by somebody who may do everything.
    fn default() -> Self {
        Self {
            tenant: "",
            user: None,
            groups: &[],
            class: "",
            task: None,
            shape: Shape::default(),
            input: TokenCount::ZERO,
            output: None,
            now: UnixMillis::new(0),
            session: None,
            draw: 0,
            degrade: Degrade::Allowed,
            says: &(),
            may_use: &|_| true,
            cost: &|_| None,
        }
    }
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("tenant", &self.tenant)
            .field("user", &self.user)
            .field("class", &self.class)
            .field("task", &self.task)
            .field("shape", &self.shape)
            .field("input", &self.input)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// What a call says beside its body.
pub trait Says {
    /// The value of the header of that name, in lower case.
    fn header(&self, name: &str) -> Option<&str>;

    /// The values of a claim of the caller's token.
    fn claim(&self, name: &str) -> &[Arc<str>];
}

/// Nothing.
impl Says for () {
    fn header(&self, _: &str) -> Option<&str> {
        None
    }

    fn claim(&self, _: &str) -> &[Arc<str>] {
        &[]
    }
}

/// Whether a call may be answered by something else than what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Degrade {
    /// It may.
    #[default]
    Allowed,
    /// Its caller or its tenant wants the error instead.
    Refused,
}

/// What a call asks for, as far as its body shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// It brings tools.
    pub tools: bool,
    /// There are images in it.
    pub images: bool,
    /// Its answer has to be of a JSON schema.
    pub json_schema: bool,
    /// Its answer is to come as a stream.
    pub stream: bool,
}
