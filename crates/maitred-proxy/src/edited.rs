//! A call's body as it is sent to a target, and what is read of it for that.

use bytes::Bytes;
use maitred_llm::{BodyView, CallKind, Edits, Reply, UsageAsk};
use maitred_runtime::Target;
use maitred_types::TokenCount;

use crate::account::Account;
use crate::billing::OutputBound;
use crate::link::Segments;
use crate::prompt::Prompt;
use crate::quota::Output;

/// Output tokens that are expected of a call that does not limit them.
const EXPECTED_OUTPUT: u64 = 256;

/// A body ready to be sent, and what is known of it.
pub(crate) struct Edited<'a> {
    pub(crate) body: Body<'a>,
    pub(crate) usage_ask: UsageAsk,
    pub(crate) is_stream: bool,
    pub(crate) input: TokenCount,
    pub(crate) output: TokenCount,
    /// The most output that it may have.
    pub(crate) most: Output,
    /// What the client allows, if it says, or what the call is limited to.
    pub(crate) output_limit: Option<TokenCount>,
    pub(crate) bound: OutputBound,
    pub(crate) prompt: Prompt,
    pub(crate) reply: Option<Reply>,
}

/// What is sent, before it is cut into pieces.
pub(crate) enum Body<'a> {
    /// It is not read, and stays as it is.
    Unread(Bytes),
    /// It is read, and edited; how many answers it asks for.
    Edited(Edits<'a>, u64),
}

impl Body<'_> {
    pub(crate) fn into_segments(self) -> Segments {
        match self {
            Self::Unread(body) => Segments::from_iter([body]),
            Self::Edited(edits, _) => edits.apply().into_segments(),
        }
    }
}

/// Splices in the endpoint's name of the model and the wish for usage; every other byte stays as it came. For each target the body is
/// edited as it came, never twice.
pub(crate) fn edit<'a>(
    account: &Account,
    (kind, target): (CallKind, &Target),
    view: Option<&'a BodyView>,
    body: &Bytes,
    most: u32,
) -> Edited<'a> {
    let Some(view) = view else {
        let input = TokenCount::saturating_from(body.len() as u64 / 4);
        return Edited {
            body: Body::Unread(body.clone()),
            most: Output::Nothing,
            usage_ask: UsageAsk::Nobody,
            is_stream: false,
            input,
            output: TokenCount::ZERO,
            output_limit: None,
            bound: OutputBound::default(),
            prompt: Prompt::default(),
            reply: None,
        };
    };
    let mut edits = Edits::new(view);
    edits.set_model(target.served_as.as_str());
    let usage_ask = edits.ask_for_usage(kind);
    let limit = view
        .output_limit(kind)
        .map(|tokens| TokenCount::saturating_from(tokens.saturating_mul(view.choices())));
    let (prompt, reply) = Prompt::read(kind, target, view, account.gate.chain_use());
    let output = view
        .output_limit(kind)
        .unwrap_or(EXPECTED_OUTPUT)
        .min(EXPECTED_OUTPUT)
        .saturating_mul(view.choices());
    Edited {
        body: Body::Edited(edits, view.choices()),
        most: Output::of(kind, view, most),
        usage_ask,
        is_stream: view.wants_stream(),
        input: prompt.tokens,
        prompt,
        reply,
        output: if kind.generates() {
            TokenCount::saturating_from(output)
        } else {
            TokenCount::ZERO
        },
        output_limit: limit,
        bound: if kind.generates() {
            OutputBound {
                // Without a limit the model goes on for as long as its context is, which is longer than a call may take.
                tokens: limit.unwrap_or(TokenCount::new(u32::MAX)),
                choices: view.choices(),
            }
        } else {
            OutputBound::default()
        },
    }
}
