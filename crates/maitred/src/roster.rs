//! `maitred keys`, `tenants` and `limits` where they ask a running gateway.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use crate::admin::{AdminArgs, in_path};
use crate::ledger::now;

const KEYS: &str = "/admin/v1/keys";
const TENANTS: &str = "/admin/v1/tenants";
const LIMITS: &str = "/admin/v1/limits";

/// Options of `maitred keys create`.
#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    gateway: AdminArgs,
    /// Who is to own the key; `maitred tenants create` makes one.
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// The user of the tenant on whose behalf the key is used.
    #[arg(long, value_name = "NAME", required_unless_present = "shared")]
    user: Option<String>,
    /// Several share the key, and nobody can say who has made a call. The audit marks its calls.
    #[arg(long, conflicts_with = "user")]
    shared: bool,
    /// The models that it may use, as clients name them, with commas between; all if not given.
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    models: Vec<String>,
    /// The class of its calls.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// When it ceases to be valid: a time from now such as `30d` or `12h`, or a date.
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
}

/// Options of `maitred keys list` and others that only ask.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) gateway: AdminArgs,
    /// Print what the gateway says as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `maitred keys revoke`.
#[derive(Args, Debug)]
pub(crate) struct RevokeArgs {
    /// The public part of the key: what stands between its first and its second hyphen.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    gateway: AdminArgs,
}

/// Options of `maitred keys rotate`.
#[derive(Args, Debug)]
pub(crate) struct RotateArgs {
    /// The public part of the key that is replaced.
    #[arg(value_name = "ID")]
    id: String,
    /// How long the old key stays good: `0m`, `12h`, `7d`.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = seconds)]
    overlap: u64,
    #[command(flatten)]
    gateway: AdminArgs,
}

/// Options of `maitred tenants`.
#[derive(Args, Debug)]
pub(crate) struct TenantsArgs {
    #[command(subcommand)]
    command: TenantsCommand,
}

#[derive(Subcommand, Debug)]
enum TenantsCommand {
    /// Make a tenant, or give it another weight.
    Create(TenantArgs),
    /// List the tenants that the gateway knows by name.
    List(ListArgs),
}

#[derive(Args, Debug)]
struct TenantArgs {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Its weight where calls wait.
    #[arg(long, value_name = "N", default_value_t = 1)]
    weight: u32,
    #[command(flatten)]
    gateway: AdminArgs,
}

/// Options of `maitred limits`.
#[derive(Args, Debug)]
pub(crate) struct LimitsArgs {
    #[command(subcommand)]
    command: LimitsCommand,
}

#[derive(Subcommand, Debug)]
enum LimitsCommand {
    /// Make or change a limit. At run time it takes the place of one of the same name in the configuration.
    Set(Box<LimitArgs>),
    /// Take away a limit that was made at run time.
    Remove(RemoveArgs),
    /// List the limits that were made at run time.
    List(ListArgs),
}

#[derive(Args, Debug)]
struct LimitArgs {
    /// Its name in errors, metrics and reports.
    #[arg(value_name = "NAME")]
    name: String,
    /// Only for calls of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only for calls of this user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only for calls to models that fit.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Calls per second.
    #[arg(long, value_name = "N")]
    calls_per_second: Option<u64>,
    /// Calls at the same time.
    #[arg(long, value_name = "N")]
    concurrent_calls: Option<u64>,
    /// Tokens in any sixty seconds.
    #[arg(long, value_name = "N")]
    tokens_per_minute: Option<u64>,
    /// Tokens in a day of UTC.
    #[arg(long, value_name = "N")]
    tokens_per_day: Option<u64>,
    /// Money in a month of UTC.
    #[arg(long, value_name = "AMOUNT")]
    money_per_month: Option<String>,
    #[command(flatten)]
    gateway: AdminArgs,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    gateway: AdminArgs,
}

/// `maitred keys create`.
pub(crate) fn create(args: &CreateArgs) -> anyhow::Result<ExitCode> {
    let mut fields = Map::new();
    fields.insert("tenant".to_owned(), args.tenant.as_str().into());
    add(&mut fields, "user", args.user.as_deref());
    add(&mut fields, "class", args.class.as_deref());
    if args.shared {
        fields.insert("shared".to_owned(), true.into());
    }
    if !args.models.is_empty() {
        fields.insert("models".to_owned(), args.models.clone().into());
    }
    if let Some(when) = &args.expires {
        let expires = match seconds(when) {
            Ok(seconds) => maitred_obs::rfc3339(maitred_types::UnixMillis::new(now().get() + seconds * 1_000)),
            Err(_) => when.clone(),
        };
        fields.insert("expires".to_owned(), expires.into());
    }
    let made = args.gateway.ask(Method::POST, KEYS, Some(&fields.into()))?;
    show(&made);
    Ok(ExitCode::SUCCESS)
}

/// `maitred keys rotate`.
pub(crate) fn rotate(args: &RotateArgs) -> anyhow::Result<ExitCode> {
    let path = format!("{KEYS}/{}/rotate", in_path(&args.id));
    let body = json!({ "overlap_seconds": args.overlap });
    let made = args.gateway.ask(Method::POST, &path, Some(&body))?;
    show(&made);
    let until = made["diff"]["after"]["until"].as_str().unwrap_or_default();
    println!("The key {} is good until {until}.", args.id);
    Ok(ExitCode::SUCCESS)
}

fn show(made: &Value) {
    let text = |name: &str| made[name].as_str().unwrap_or_default();
    println!("key:  {}", text("key"));
    println!("id:   {}", text("id"));
    println!();
    println!("The key is shown this once; the gateway keeps its hash.");
}

/// `maitred keys revoke`.
pub(crate) fn revoke(args: &RevokeArgs) -> anyhow::Result<ExitCode> {
    let path = format!("{KEYS}/{}", in_path(&args.id));
    let done = args.gateway.ask(Method::DELETE, &path, None)?;
    if done["pending"] == true {
        println!(
            "The key {} is refused by this gateway from now on. The others DO NOT KNOW YET; it tells them as soon as it can.",
            args.id
        );
    } else {
        println!(
            "The key {} is refused from now on (version {}).",
            args.id, done["version"]
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// `maitred keys list`.
pub(crate) fn keys(args: &ListArgs) -> anyhow::Result<ExitCode> {
    list(
        args,
        KEYS,
        "keys",
        &["id", "tenant", "user", "models", "expires", "revoked", "source"],
    )
}

/// `maitred tenants`.
pub(crate) fn tenants(args: &TenantsArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        TenantsCommand::List(args) => list(args, TENANTS, "tenants", &["name", "weight", "source"]),
        TenantsCommand::Create(args) => {
            let body = json!({ "name": args.name, "weight": args.weight });
            let done = args.gateway.ask(Method::POST, TENANTS, Some(&body))?;
            println!(
                "The tenant {} has the weight {} (version {}).",
                args.name, args.weight, done["version"]
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// `maitred limits`.
pub(crate) fn limits(args: &LimitsArgs) -> anyhow::Result<ExitCode> {
    let (name, done) = match &args.command {
        LimitsCommand::List(args) => {
            let columns = [
                "name",
                "tenant",
                "user",
                "model",
                "per",
                "calls_per_second",
                "concurrent_calls",
                "tokens_per_minute",
                "tokens_per_day",
                "money_per_month",
            ];
            return list(args, LIMITS, "limits", &columns);
        }
        LimitsCommand::Set(args) => {
            let done = args.gateway.ask(Method::POST, LIMITS, Some(&fields_of(args)))?;
            (&args.name, done)
        }
        LimitsCommand::Remove(args) => {
            let path = format!("{LIMITS}/{}", in_path(&args.name));
            (&args.name, args.gateway.ask(Method::DELETE, &path, None)?)
        }
    };
    println!("The limit {name} is changed (version {}).", done["version"]);
    Ok(ExitCode::SUCCESS)
}

fn fields_of(args: &LimitArgs) -> Value {
    let mut fields = Map::new();
    add(&mut fields, "name", Some(&args.name));
    add(&mut fields, "tenant", args.tenant.as_deref());
    add(&mut fields, "user", args.user.as_deref());
    add(&mut fields, "model", args.model.as_deref());
    add(&mut fields, "money_per_month", args.money_per_month.as_deref());
    let amounts = [
        ("calls_per_second", args.calls_per_second),
        ("concurrent_calls", args.concurrent_calls),
        ("tokens_per_minute", args.tokens_per_minute),
        ("tokens_per_day", args.tokens_per_day),
    ];
    for (name, amount) in amounts {
        if let Some(amount) = amount {
            fields.insert(name.to_owned(), amount.into());
        }
    }
    fields.into()
}

fn add(fields: &mut Map<String, Value>, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        fields.insert(name.to_owned(), text.into());
    }
}

/// Prints what there is, a line for each.
fn list(args: &ListArgs, path: &str, what: &str, columns: &[&str]) -> anyhow::Result<ExitCode> {
    let answer = args.gateway.ask(Method::GET, path, None)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    print_table(&answer[what], columns);
    Ok(ExitCode::SUCCESS)
}

/// Prints a list of objects, a line for each.
pub(crate) fn print_table(items: &Value, columns: &[&str]) {
    let mut rows = vec![columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>()];
    for item in items.as_array().into_iter().flatten() {
        rows.push(columns.iter().map(|column| cell(&item[*column])).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(false) => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        // Names may have been chosen to move the cursor.
        Value::String(text) => text.chars().filter(|character| !character.is_control()).collect(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A time such as `30d`, in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let units = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
    let found = units.iter().find_map(|(unit, seconds)| {
        let count: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        count.checked_mul(*seconds).filter(|seconds| *seconds < 1 << 40)
    });
    found.ok_or_else(|| "a time such as `30m`, `12h` or `7d`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(seconds("0m"), Ok(0));
        assert_eq!(seconds("12h"), Ok(43_200));
        assert_eq!(seconds("1w"), Ok(604_800));
        for wrong in ["", "d", "12", "-1d", "99999999999999999999d", "1y"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_others_named_moves_no_cursor() {
        assert_eq!(cell(&"a\u{1b}[2J\nb".into()), "a[2Jb");
        assert_eq!(cell(&json!(["a", "b"])), "a,b");
        assert_eq!(
            (cell(&Value::Null), cell(&true.into()), cell(&3.into())),
            ("-".into(), "yes".into(), "3".into())
        );
    }
}
