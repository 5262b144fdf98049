//! What is known of a call when it is planned.

/// The facts of one call that its plan follows from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Whose it is.
    pub tenant: &'a str,
    /// A hash of what binds it to others of its conversation.
    pub session: Option<u64>,
    /// A number that is as good as random and the same whenever this call is looked at, such as a hash of its id. It decides where
    /// weights leave a choice.
    pub draw: u64,
}
