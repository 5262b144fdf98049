//! The reference page of errors, made from the one table of faults.

use std::fmt::Write as _;

use maitred_types::{FaultKind, Origin};

use crate::{Finding, Tree};

/// Where the page lies.
pub const ERRORS_PAGE: &str = "docs/errors.md";

/// Whether the page in the tree is the one that the table gives.
#[must_use]
pub fn fresh(tree: &Tree) -> Vec<Finding> {
    let current = tree.get(ERRORS_PAGE).map(|file| file.text.as_str());
    let is_fresh = current == Some(render().as_str());
    let stale = (!is_fresh).then(|| Finding::new(ERRORS_PAGE, "is stale: run `cargo run -p xtask -- generate`"));
    stale.into_iter().collect()
}

/// The whole page.
#[must_use]
pub fn render() -> String {
    let mut page = String::from(
        "# Errors\n\n\
         <!-- Made by `cargo run -p xtask -- generate` from the table of faults in `maitred-types`. Do not edit. -->\n\n\
         Every error of maitred has one kind. The kind's word is the `code` of an OpenAI error body, the `fault` of an\n\
         access record, a label of metrics, and the anchor on this page. An answer that has not begun gets the status and a\n\
         body in the client's dialect; a stream that has begun gets the body as its last event and no clean end.\n",
    );
    let groups = [
        (
            Origin::Client,
            "The call is at fault",
            "Sending it again unchanged will not help.",
        ),
        (
            Origin::Gateway,
            "The gateway refuses or fails",
            "The endpoints had no part in it.",
        ),
        (
            Origin::Upstream,
            "An endpoint is at fault",
            "The gateway tried what it may try before it says so.",
        ),
    ];
    for (origin, title, note) in groups {
        let text = format!(
            "\n## {title}\n\n{note}\n\n| kind | HTTP | OpenAI `type` | Anthropic `type` | gRPC | meaning |\n|---|---|---|---|---|---|\n"
        );
        page.push_str(&text);
        for kind in FaultKind::ALL {
            let row = kind.row();
            if row.origin == origin {
                push_row(&mut page, &row);
            }
        }
    }
    page
}

fn push_row(page: &mut String, row: &maitred_types::FaultRow) {
    let label = row.label;
    let written = writeln!(
        page,
        "| <a id=\"{label}\"></a>`{label}` | {} | `{}` | `{}` | {} | {} |",
        row.status,
        row.openai_type,
        row.anthropic_type,
        grpc_name(row.grpc_code),
        row.meaning
    );
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// The canonical names of gRPC's status codes, by number.
fn grpc_name(code: u8) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES.get(usize::from(code)).copied().unwrap_or("UNKNOWN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_anchor_per_kind() {
        let page = render();
        for kind in FaultKind::ALL {
            let anchor = format!("<a id=\"{}\">", kind.label());
            assert_eq!(page.matches(&anchor).count(), 1, "{kind:?}");
        }
    }

    #[test]
    fn a_stale_or_missing_page_is_found() {
        assert_eq!(fresh(&Tree::of(&[(ERRORS_PAGE, &render())])), []);
        assert_eq!(fresh(&Tree::of(&[(ERRORS_PAGE, "# Errors\n")])).len(), 1);
        assert_eq!(fresh(&Tree::default()).len(), 1);
    }
}
