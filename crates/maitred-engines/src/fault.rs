//! How engines say "no": the verdict on a response head, the reader of error bodies, and what may be shown of them.

mod error_body;
mod head;
mod scrub;

pub use error_body::{ErrorForm, MAX_EXCERPT, UpstreamErrorBody};
pub use head::{HeadVerdict, ResponseHead, judge_head, judge_refusal};
