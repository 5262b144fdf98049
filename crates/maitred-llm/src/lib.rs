//! Dialects: reading calls, relaying streams, usage and error bodies.
//!
//! This crate is pure: bytes come in, and facts or other bytes come out. It knows no socket, no clock and no HTTP library, and
//! it never asks which endpoint a call goes to. Where client and endpoint speak the same dialect, bytes are relayed as they
//! are; the two edits a gateway must make (the model's name, the wish for usage) are spliced in at exact places.

mod answer;
mod body;
mod call_path;
mod canonical;
mod chain;
mod error_body;
mod estimate;
mod filter;
#[doc(hidden)]
pub mod fuzzing;
mod models_page;
mod span;
mod splice;
pub mod sse;
mod usage;

pub use answer::{AnswerTap, MAX_MEMBER};
pub use body::{BodyError, BodyView, MAX_DEPTH, scan};
pub(crate) use body::{LongText, Spelling};
pub use call_path::{CallKind, CallPath, ModelPlace, PathError, dialect_of};
pub use canonical::Canonical;
pub use chain::{ChainRule, MAX_PROMPT_BLOCKS, MAX_REPLY_BLOCKS, PromptText, Reply};
pub use error_body::{UpstreamError, body_refusal, error_body, error_event, reshape_error, reshape_error_event};
pub use estimate::{BYTES_PER_TOKEN, MEDIA_TOKENS, PromptSize, TokenRatio, estimate_tokens, prompt_size};
pub use filter::{Pass, StreamFilter};
pub use models_page::{ModelsPage, model_entry};
pub use span::Span;
pub use splice::{Edits, Spliced, UsageAsk};
pub use usage::{EventKind, UsageTap, answer_usage};
