//! `maitred explain`: asks a running gateway why a call went where it went, and says it in sentences.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use http::Method;
use maitred_obs::DecisionRecord;

use crate::admin::{AdminArgs, in_path};

/// Options of `maitred explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The call's id: its header `x-request-id`, also in the answer and in the access record.
    #[arg(value_name = "REQUEST_ID")]
    request_id: String,
    #[command(flatten)]
    gateway: AdminArgs,
    /// Print the record as JSON.
    #[arg(long)]
    json: bool,
}

/// Asks and prints. A call that the gateway knows nothing of is a failure.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let path = format!("/admin/v1/decisions/{}", in_path(&args.request_id));
    let answer = args.gateway.ask(Method::GET, &path, None);
    let answer = answer.with_context(|| format!("call {}", args.request_id))?;
    let record: DecisionRecord =
        serde_json::from_value(answer).context("the gateway's answer is no decision record")?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        print!("{record}");
    }
    Ok(ExitCode::SUCCESS)
}
