//! `maitred route explain`: what would happen to a call, and why, by the configuration alone. Nothing is sent.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use maitred_config::{Settings, moment};
use maitred_route::{Degrade, Explanation, Facts, NoRoute, Says, Shape, TargetId};
use maitred_runtime::session_hash;
use maitred_tenant::ModelPattern;
use maitred_types::TokenCount;

use crate::config_file;

/// Options of `maitred route`.
#[derive(Args, Debug)]
pub(crate) struct RouteArgs {
    #[command(subcommand)]
    command: RouteCommand,
}

#[derive(Subcommand, Debug)]
enum RouteCommand {
    /// Say where a call would go and why, without sending it.
    Explain(Box<ExplainArgs>),
}

/// Options of `maitred route explain`: the call.
#[derive(Args, Debug)]
struct ExplainArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// The model that the call asks for, with a version after `@` if it names one.
    #[arg(long, value_name = "NAME")]
    model: String,
    #[command(flatten)]
    caller: Caller,
    #[command(flatten)]
    asks: Asks,
    /// When the call comes: a date, or a time with an offset such as `2027-01-31T23:00:00Z`. Now if not given.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    at: Option<maitred_types::UnixMillis>,
    /// Print the explanation as JSON.
    #[arg(long)]
    json: bool,
}

/// Who makes the call.
#[derive(Args, Debug)]
struct Caller {
    /// Whose call it is; that of callers without a key if not given.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// The user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A group of the user; may be given several times.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// The class of the call; the default class if not given.
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// A claim of the caller's token, as `NAME=VALUE`; may be given several times.
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = pair)]
    claims: Vec<(String, String)>,
    /// A model that the caller's key may use, as `models` of a key has it; all of them if not given.
    #[arg(long = "may-use", value_name = "MODEL", value_parser = pattern)]
    may_use: Vec<ModelPattern>,
    /// The session that the call belongs to.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// The caller wants an error rather than an answer of another model, as by the header `x-maitred-degrade: refuse`.
    #[arg(long)]
    refuse: bool,
}

/// What the call asks for.
#[derive(Args, Debug)]
struct Asks {
    /// The tokens of its prompt.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    input_tokens: u32,
    /// The most tokens that it allows its answer to have.
    #[arg(long, value_name = "COUNT")]
    output_tokens: Option<u32>,
    /// A header of the call, as `NAME=VALUE`; may be given several times.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// It brings tools.
    #[arg(long)]
    tools: bool,
    /// There are images in it.
    #[arg(long)]
    images: bool,
    /// Its answer has to be of a JSON schema.
    #[arg(long)]
    json_schema: bool,
    /// Its answer is to come as a stream.
    #[arg(long)]
    stream: bool,
}

/// `NAME=VALUE`, or `NAME: VALUE` as headers are written.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(['=', ':'])
        .ok_or("write `NAME=VALUE`, such as `x-team=red`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn pattern(text: &str) -> Result<ModelPattern, String> {
    ModelPattern::parse(text).map_err(|error| error.to_string())
}

/// What the call says in its headers and its token.
struct Said {
    headers: Vec<(String, String)>,
    claims: Vec<(String, Vec<Arc<str>>)>,
}

impl Said {
    fn of(args: &ExplainArgs) -> Self {
        let mut claims: Vec<(String, Vec<Arc<str>>)> = Vec::new();
        for (name, value) in &args.caller.claims {
            match claims.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(value.as_str().into()),
                None => claims.push((name.clone(), vec![value.as_str().into()])),
            }
        }
        Self {
            headers: args.asks.headers.clone(),
            claims,
        }
    }
}

impl Says for Said {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn claim(&self, name: &str) -> &[Arc<str>] {
        let found = self.claims.iter().find(|(known, _)| known == name);
        found.map_or(&[], |(_, values)| values)
    }
}

/// Reads the configuration and prints.
pub(crate) fn run(args: &RouteArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        RouteCommand::Explain(args) => explain(args),
    }
}

fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let told = told(args)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&told)?);
    } else {
        print!("{told}");
    }
    Ok(ExitCode::SUCCESS)
}

fn told(args: &ExplainArgs) -> anyhow::Result<Explanation> {
    let (_, loaded) = config_file::read(&args.config)?;
    let settings = &loaded.settings;
    let (caller, asks) = (&args.caller, &args.asks);
    let anonymous = settings.auth.anonymous.as_ref().map(|tenant| tenant.as_str());
    let tenant = caller.tenant.as_deref().or(anonymous);
    let tenant = tenant.context("say with `--tenant` whose call it is")?;
    let groups: Vec<Arc<str>> = caller.groups.iter().map(|group| group.as_str().into()).collect();
    let said = Said::of(args);
    let now = args.at.unwrap_or_else(crate::ledger::now);
    let (input, output) = (
        TokenCount::new(asks.input_tokens),
        asks.output_tokens.map(TokenCount::new),
    );
    let may_use =
        |model: &str| caller.may_use.is_empty() || caller.may_use.iter().any(|pattern| pattern.matches(model));
    let cost = |target: TargetId| settings.expected_cost(target, (input, output), now);
    let refuses = caller.refuse || settings.degradation.refusing.contains(tenant);
    let facts = Facts {
        tenant,
        user: caller.user.as_deref(),
        groups: &groups,
        class: class(settings, caller.class.as_deref())?,
        shape: Shape {
            tools: asks.tools,
            images: asks.images,
            json_schema: asks.json_schema,
            stream: asks.stream,
        },
        input,
        output,
        now,
        session: caller
            .session
            .as_deref()
            .map(|session| session_hash(session.as_bytes())),
        degrade: if refuses { Degrade::Refused } else { Degrade::Allowed },
        says: &said,
        may_use: &may_use,
        cost: &cost,
        ..Facts::default()
    };
    settings
        .routing
        .explain(&args.model, &facts)
        .map_err(|none| match none {
            NoRoute::Unknown => anyhow::anyhow!(
                "there is no model `{}`; there are: {}",
                args.model,
                settings
                    .routing
                    .names()
                    .map(|name| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            NoRoute::Version => {
                anyhow::anyhow!("no rule is for the version of `{}`, so the call is refused", args.model)
            }
            NoRoute::NotAllowed => anyhow::anyhow!("the caller may not use `{}`, so the call is refused", args.model),
        })
}

fn class<'s>(settings: &'s Settings, asked: Option<&'s str>) -> anyhow::Result<&'s str> {
    let classes = &settings.classes.classes;
    match asked {
        None => Ok(classes.get(settings.classes.default).map_or("", |class| &*class.name)),
        Some(asked) if classes.iter().any(|class| &*class.name == asked) => Ok(asked),
        Some(asked) => bail!("there is no class `{asked}`"),
    }
}

#[cfg(test)]
mod tests;
