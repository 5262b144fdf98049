//! Rules of the project as tests, and generators of its reference pages.
//!
//! A rule is a function from facts (a [`Tree`] of files, a [`Graph`] of crates) to findings. `tests/tidy.rs` applies every
//! rule to the project itself; the unit test beside each rule feeds it a bad example and expects the finding, since a check
//! that cannot fail is not a check. What Clippy can hold (function length, bans of methods) is left to Clippy.

mod dependencies;
mod documents;
mod errors_page;
mod finding;
mod layers;
mod links;
mod manifests;
mod rust_text;
mod sbom;
mod sizes;
mod tree;
mod words;

pub use dependencies::{budget as dependency_budget, named as dependencies_named};
pub use documents::{architecture, decisions, licence, makefile, module_docs};
pub use errors_page::{ERRORS_PAGE, fresh as errors_page_fresh, render as render_errors_page};
pub use finding::Finding;
pub use layers::{Graph, PURE, TABLE, layering, purity};
pub use links::dead_links;
pub use manifests::manifests;
pub use sbom::sbom;
pub use sizes::{ALLOWED_LONGER, Longer, file_sizes};
pub use tree::{File, Tree, project_root};
pub use words::words;
