use clap::Parser as _;

use super::*;

/// The options alone, as `maitred route` reads them.
#[derive(clap::Parser, Debug)]
struct Line {
    #[command(flatten)]
    args: RouteArgs,
}

/// What `maitred route explain` says of the example of the handbook.
fn explained(options: &str) -> Result<String, String> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/routing.yaml");
    let options = format!("route explain -c {example} {options}");
    let line = Line::try_parse_from(options.split_whitespace()).map_err(|error| error.to_string())?;
    let RouteCommand::Explain(args) = line.args.command;
    told(&args)
        .map(|told| told.to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn the_handbook_shows_what_is_really_said() {
    let handbook = include_str!("../../../../docs/routing.md");
    let (_, rest) = handbook
        .split_once("$ maitred route explain -c examples/routing.yaml ")
        .unwrap();
    let (options, rest) = rest.split_once('\n').unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    assert_eq!(explained(options).unwrap(), shown);
}

#[test]
fn the_call_is_the_one_that_the_options_describe() {
    let tools = explained("--model assistant --tenant lab --user ada --tools --session s").unwrap();
    assert!(tools.contains("whose task is of type `agent`"), "{tools}");
    assert!(tools.contains("refuses"), "the tenant refuses: {tools}");
    let named =
        explained("--model assistant --tenant acme --header X-Maitred-Task-Type=extraction --class low").unwrap();
    assert!(named.contains("The rule `simple` is for it."), "{named}");
    let limited = explained("--model assistant --tenant acme --may-use assistant --may-use other-*").unwrap();
    assert!(
        limited.contains("small/llama-8b is a model that the caller may not use"),
        "{limited}"
    );
    for (options, says) in [
        (
            "--model nobody --tenant acme",
            "there are: llama-70b, llama-70b-fp8, llama-8b, assistant",
        ),
        ("--model assistant@3 --tenant acme", "the version of `assistant@3`"),
        (
            "--model assistant --tenant acme --may-use llama-8b",
            "may not use `assistant`",
        ),
        ("--model assistant", "--tenant"),
        ("--model assistant --tenant acme --class none", "no class `none`"),
        ("--model assistant --tenant acme --header x", "NAME=VALUE"),
    ] {
        let error = explained(options).unwrap_err();
        assert!(error.contains(says), "{options}: {error}");
    }
}
