//! The maitred command.
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command talks to whoever runs it"
)]

mod admin;
mod archive;
mod audit;
mod changes;
#[cfg(test)]
mod cli_reference;
mod config_file;
mod demo;
mod drill;
mod engine;
mod explain;
mod keys;
mod lab;
mod ledger;
mod lengths;
mod parent;
mod process;
mod reload;
mod roster;
mod route;
mod serve;
mod settings;
mod texts;
mod tls;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An LLM inference gateway that looks at the whole room.
#[derive(Parser, Debug)]
#[command(name = "maitred", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// End when standard input ends, which is when the process that started this one is gone.
    #[arg(long, global = true, hide = true)]
    with_parent: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the gateway.
    Serve(serve::ServeArgs),
    /// Check a configuration and say everything that is wrong with it.
    Check(settings::CheckArgs),
    /// Print a configuration with all defaults, its schema, or its reference.
    Config(settings::ConfigArgs),
    /// Say why a call went where it went.
    Explain(explain::ExplainArgs),
    /// Say where calls would go, by the configuration.
    Route(route::RouteArgs),
    /// Say what was used, from the ledger.
    Usage(usage::UsageArgs),
    /// Look after the ledger's database.
    Store(ledger::StoreArgs),
    /// Check and read the audit.
    Audit(audit::AuditArgs),
    /// Make keys, and change those of a running gateway.
    Keys(keys::KeysArgs),
    /// Make and list the tenants of a running gateway.
    Tenants(roster::TenantsArgs),
    /// Change the limits of a running gateway.
    Limits(roster::LimitsArgs),
    /// List what was changed in a running gateway, and take it back.
    Changes(changes::ChangesArgs),
    /// Run three simulated endpoints and a gateway in front of them.
    Demo(demo::DemoArgs),
    /// Make things go wrong on purpose, and see that the gateway keeps its promises.
    Drill(Box<drill::DrillArgs>),
    /// Run a simulated endpoint.
    Engine(Box<engine::EngineArgs>),
    /// Compare ways of choosing endpoints, in virtual time.
    Lab(lab::LabArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("maitred: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    if cli.with_parent {
        parent::end_with_it();
    }
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => settings::check(&args),
        Command::Config(args) => settings::config(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Route(args) => route::run(&args),
        Command::Usage(args) => usage::run(&args),
        Command::Store(args) => ledger::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Keys(args) => keys::run(&args),
        Command::Tenants(args) => roster::tenants(&args),
        Command::Limits(args) => roster::limits(&args),
        Command::Changes(args) => changes::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Drill(args) => drill::run(&args),
        Command::Lab(args) => lab::run(&args),
        // One thread: an endpoint is light, and several of them share a machine.
        Command::Engine(args) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let code = runtime.block_on(engine::run(*args));
            runtime.shutdown_background();
            code
        }
    }
}
