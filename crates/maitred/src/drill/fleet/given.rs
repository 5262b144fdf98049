//! A fleet that runs already: what is behind a configuration.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail};
use http::Uri;
use maitred_config::Settings;

use super::Fleet;
use super::endpoint::Endpoint;
use super::gateway::{Door, Gateway};
use crate::config_file;
use crate::drill::DrillArgs;

/// Finds it.
///
/// # Errors
/// The gateway does not answer, or an endpoint is not simulated and more than harmless drills are asked for.
pub(super) async fn fleet(args: &DrillArgs, config: &Path) -> anyhow::Result<Fleet> {
    let (_, loaded) = config_file::read(config)?;
    let settings = loaded.settings;
    let gateway = {
        let door = Door {
            calls: calls(args, &settings)?,
            admin: admin(args, &settings)?,
            credentials: &args.credentials,
            key: key(args, &settings)?,
            model: args.model.as_deref(),
        };
        Gateway::new(config, settings, door, !args.live)?
    };
    let known = gateway.endpoints().await?;
    let mut endpoints = Vec::new();
    if !args.live {
        for (pool, address) in known {
            let found = Endpoint::find(&pool, &address).await;
            endpoints.push(found.context(
                "drills break what they are run on, so they are run on simulated endpoints only; --live runs those that are harmless",
            )?);
        }
        if endpoints.is_empty() {
            bail!("the gateway has no endpoints");
        }
    }
    Ok(Fleet {
        gateways: vec![gateway],
        endpoints,
        _processes: Vec::new(),
        _folder: None,
    })
}

fn calls(args: &DrillArgs, settings: &Settings) -> anyhow::Result<Uri> {
    if let Some(given) = &args.gateway {
        return Ok(given.clone());
    }
    let listener = settings
        .listeners
        .first()
        .context("there is no listener; see --gateway")?;
    uri(listener.address, listener.tls.is_some(), "--gateway")
}

fn admin(args: &DrillArgs, settings: &Settings) -> anyhow::Result<Uri> {
    match &args.admin {
        Some(given) => Ok(given.clone()),
        None => uri(settings.admin.address, settings.admin.tls.is_some(), "--admin"),
    }
}

/// Where one who is on the same machine reaches a listener.
fn uri(mut address: SocketAddr, is_tls: bool, option: &str) -> anyhow::Result<Uri> {
    if address.port() == 0 {
        bail!("the configuration leaves the port to the system; say where the gateway listens with {option}");
    }
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    let scheme = if is_tls { "https" } else { "http" };
    Ok(format!("{scheme}://{address}").parse()?)
}

fn key(args: &DrillArgs, settings: &Settings) -> anyhow::Result<Option<String>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the caller names the variable; this is the edge"
    )]
    let key = std::env::var(&args.key_env);
    match key {
        Ok(key) => Ok(Some(key)),
        Err(_) if settings.auth.anonymous.is_some() => Ok(None),
        Err(error) => bail!(
            "drills make calls; put a key into the environment variable `{}` ({error})",
            args.key_env
        ),
    }
}
