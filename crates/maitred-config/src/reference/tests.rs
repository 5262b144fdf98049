use std::path::Path;

use super::*;

/// Compares a file of the documentation with what it should be, or writes it when `UPDATE_REFERENCE` is set.
fn fresh(name: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    #[expect(clippy::disallowed_methods, reason = "a switch of the test, not of the crate")]
    if std::env::var("UPDATE_REFERENCE").is_ok() {
        std::fs::write(&path, content).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == content,
        "docs/reference/{name} is out of date; run: UPDATE_REFERENCE=1 cargo test -p maitred-config"
    );
}

#[test]
fn the_reference_page_is_fresh() {
    fresh("config.md", &reference_markdown());
}

#[test]
fn the_scenario_page_is_fresh() {
    fresh("scenario.md", &scenario_markdown());
}

#[test]
fn the_schema_is_fresh() {
    let schema = serde_json::to_string_pretty(&schema()).unwrap();
    fresh("config.schema.json", &format!("{schema}\n"));
}

#[test]
fn every_option_is_explained() {
    let page = reference_markdown();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() > 80, "{} rows", rows.len());
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 4, "{row}");
        assert!(
            cells.iter().all(|cell| cell.trim().len() > 1 || cell.contains('—')),
            "{row}"
        );
    }
}

#[test]
fn the_published_schema_has_no_private_annotations() {
    let text = schema().to_string();
    assert!(!text.contains("x-hint") && !text.contains("x-secret"));
    assert!(!text.contains("\"null\""), "an option without a value is a mistake");
}
