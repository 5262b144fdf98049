//! `maitred usage lengths`: how long prompts were, and at which lengths rules could part them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use maitred_console::usage::question;
use maitred_store::ledger::{Access, By, Database, Lengths, Line};
use serde_json::json;

use crate::ledger::{blocking, now, place_of};

/// The shares of calls at whose lengths lines are shown.
const SHARES: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];

/// Options of `maitred usage lengths`.
#[derive(Args, Debug)]
pub(crate) struct LengthsArgs {
    /// The configuration file that names the ledger.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// Calls that arrived from then on: a time ago such as `30d` or `12h`, or a date.
    #[arg(long, value_name = "WHEN", default_value = "30d")]
    since: String,
    /// Calls that arrived before then; until now if not given.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Further lengths to look at, in tokens. Lengths are counted in steps nine parts in a hundred wide; the next step above is shown.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',')]
    at: Vec<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads the ledger and prints.
pub(crate) fn run(args: &LengthsArgs) -> anyhow::Result<ExitCode> {
    let times = (args.since.as_str(), args.until.as_deref());
    let question = question(vec![By::Model], times, now()).map_err(anyhow::Error::msg)?;
    let place = place_of(&args.config)?;
    crate::tls::install_provider();
    let lengths = blocking(async {
        let mut database = Database::open(&place, Access::Read).await?;
        let lengths = database.lengths((question.since, question.until)).await?;
        database.close().await;
        Ok(lengths)
    })?;
    if lengths.is_empty() {
        eprintln!("no calls in that time whose tokens an endpoint has counted");
    }
    if args.json {
        println!("{:#}", as_json(&lengths, &args.at));
    } else {
        print!("{}", as_text(&lengths, &args.at));
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines to show: at the usual shares of calls and where it was asked for, the shortest first.
fn lines(lengths: &Lengths, asked: &[u64]) -> Vec<Line> {
    let usual = SHARES.iter().map(|share| lengths.quantile(*share));
    let all = usual.chain(asked.iter().copied()).map(|at| lengths.line(at));
    // Beyond the longest prompt there is nothing to part.
    let mut all: Vec<Line> = all.filter(|line| line.calls > 0.0).collect();
    all.sort_unstable_by_key(|line| line.at_least);
    all.dedup_by_key(|line| line.at_least);
    all
}

fn as_text(lengths: &BTreeMap<String, Lengths>, asked: &[u64]) -> String {
    let mut out = String::new();
    for (model, lengths) in lengths {
        _ = writeln!(
            out,
            "{model}: {} calls, the longest with {} prompt tokens\n  at least   calls  of all prompt tokens",
            lengths.calls(),
            lengths.longest
        );
        for line in lines(lengths, asked) {
            _ = writeln!(
                out,
                "{:>10} {:>5.1} % {:>5.1} %",
                line.at_least,
                line.calls * 100.0,
                line.tokens * 100.0
            );
        }
        _ = match lengths.gap() {
            Some(gap) => writeln!(
                out,
                "  There are two kinds: {:.1} % of the calls, with {:.1} % of the tokens, lie beyond\n    input_tokens: {{ at_least: {} }}\n",
                gap.calls * 100.0,
                gap.tokens * 100.0,
                gap.at_least
            ),
            None => writeln!(out, "  Their lengths show no two kinds that a line would part.\n"),
        };
    }
    out
}

fn as_json(lengths: &BTreeMap<String, Lengths>, asked: &[u64]) -> serde_json::Value {
    let line = |line: Line| json!({ "at_least": line.at_least, "calls": line.calls, "tokens": line.tokens });
    let models = lengths.iter().map(|(model, lengths)| {
        json!({
            "model": model,
            "calls": lengths.calls(),
            "longest": lengths.longest,
            "lines": lines(lengths, asked).into_iter().map(line).collect::<Vec<_>>(),
            "gap": lengths.gap().map(line),
        })
    });
    json!({ "models": models.collect::<Vec<_>>() })
}
