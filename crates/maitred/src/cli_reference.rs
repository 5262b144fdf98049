//! The reference page of the command line, made from the definitions of its options.

use clap::CommandFactory;

use crate::Cli;

/// Every command with its options, in Markdown.
fn reference_markdown() -> String {
    let mut page = String::from(
        "# Command line\n\nThis page is generated from the code: `UPDATE_REFERENCE=1 cargo test -p maitred cli_reference`.\n",
    );
    describe(&mut Cli::command().disable_help_subcommand(true), "", &mut page);
    page
}

/// Lines are not wrapped: whether they could be depends on what else of the workspace is built along.
fn describe(command: &mut clap::Command, parent: &str, page: &mut String) {
    let name = format!("{parent} {}", command.get_name()).trim().to_owned();
    let help = command
        .clone()
        .bin_name(name.clone())
        .term_width(0)
        .render_long_help()
        .to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!(
        "\n## {name}\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    ));
    for inner in command.get_subcommands_mut() {
        describe(inner, &name, page);
    }
}

/// Compares the page with what it should be, or writes it when `UPDATE_REFERENCE` is set.
#[test]
fn the_reference_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let page = reference_markdown();
    #[expect(clippy::disallowed_methods, reason = "the switch that rewrites a generated page")]
    if std::env::var("UPDATE_REFERENCE").is_ok() {
        std::fs::write(path, &page).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        found, page,
        "docs/reference/cli.md is out of date; run: UPDATE_REFERENCE=1 cargo test -p maitred cli_reference"
    );
}
