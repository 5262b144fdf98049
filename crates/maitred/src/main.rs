//! The maitred command.
#![expect(clippy::print_stderr, reason = "a command talks to whoever runs it")]

mod engine;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An LLM inference gateway that looks at the whole room.
#[derive(Parser, Debug)]
#[command(name = "maitred", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a simulated endpoint.
    Engine(Box<engine::EngineArgs>),
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
    match cli.command {
        // One thread: an endpoint is light, and several of them share a machine.
        Command::Engine(args) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let code = runtime.block_on(engine::run(*args));
            runtime.shutdown_background();
            code
        }
    }
}
