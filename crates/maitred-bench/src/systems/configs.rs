//! The configurations: each system does the same work (balance over all endpoints, keep connections, stream without delay), one
//! thread each, and is set up as its own documents advise for this.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{Offers, Recipe, SetUp, Setting};
use crate::cases::MODEL;

/// Everything that may be measured, in the order of the report.
pub(crate) fn recipes(offers: &Offers) -> Vec<Recipe> {
    let peer = |program: &str| {
        let folder = offers.peers.clone().unwrap_or_else(|| PathBuf::from("no-peers-given"));
        folder.join("bin").join(program)
    };
    let mut all = Vec::new();
    if let Some(program) = &offers.maitred {
        all.push(Recipe {
            name: "maitred",
            about: "keys, scheduling by signals over all endpoints, metrics and an access record per call, all switched on",
            program: program.clone(),
            set_up: maitred,
        });
        all.push(Recipe {
            name: "maitred-metered",
            about: "the same with a quota, a ledger in SQLite, an audit and an archive of decision records; what feeds the database runs on the proxy's core too",
            program: program.clone(),
            set_up: maitred_metered,
        });
        all.push(Recipe {
            name: "maitred-stalled",
            about: "the same with a PostgreSQL that is not there, so that the ledger stays in its spool",
            program: program.clone(),
            set_up: maitred_stalled,
        });
    }
    all.push(Recipe {
        name: "nginx",
        about: "one process, least_conn, kept connections, no access log, no buffering of answers",
        program: PathBuf::from("/usr/sbin/nginx"),
        set_up: nginx,
    });
    all.push(Recipe {
        name: "HAProxy",
        about: "one thread, leastconn, connections reused, no log",
        program: PathBuf::from("/usr/sbin/haproxy"),
        set_up: haproxy,
    });
    if offers.peers.is_some() {
        all.extend([
            Recipe {
                name: "Envoy",
                about: "one worker, LEAST_REQUEST, no access log",
                program: peer("envoy"),
                set_up: envoy,
            },
            Recipe {
                name: "vllm-router",
                about: "power_of_two, log level warning",
                program: peer("vllm-router"),
                set_up: vllm_router,
            },
            Recipe {
                name: "smg",
                about: "power_of_two, log level warn",
                program: peer("smg"),
                set_up: smg,
            },
        ]);
    }
    all
}

/// One line per endpoint.
fn per_endpoint(endpoints: &[SocketAddr], line: impl Fn(usize, &SocketAddr) -> String) -> String {
    endpoints
        .iter()
        .enumerate()
        .map(|(index, address)| line(index, address))
        .collect()
}

fn file_argument(setting: &Setting<'_>, name: &str) -> String {
    setting.folder.join(name).display().to_string()
}

fn maitred(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    maitred_with(setting, "")
}

/// With what those who pay want to know.
fn maitred_metered(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    let migrated = maitred_with(setting, &books("  sqlite: ledger.sqlite\n"))?;
    for (name, text) in &migrated.files {
        fs::write(setting.folder.join(name), text)?;
    }
    let output = Command::new(setting.program)
        .args(["store", "migrate", "-c", "maitred.yaml"])
        .current_dir(setting.folder)
        .output()?;
    if !output.status.success() {
        bail!("no database: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(migrated)
}

fn maitred_stalled(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    // Nobody listens on the first port.
    let ledger = "  postgres:\n    file: database\n  spool: spool\n";
    let mut set_up = maitred_with(setting, &books(ledger))?;
    set_up
        .files
        .push(("database", "postgres://127.0.0.1:1/bench".to_owned()));
    Ok(set_up)
}

fn books(ledger: &str) -> String {
    const QUOTA: &str = "quotas:\n  - name: all\n    calls_per_second: 1000000\n    tokens_per_day: 1000000000000\n";
    format!("{QUOTA}audit:\n  folder: audit\ndecisions:\n  archive:\n    folder: decisions\nledger:\n{ledger}")
}

/// The configuration with `more` at its end.
fn maitred_with(setting: &Setting<'_>, more: &str) -> anyhow::Result<SetUp> {
    let (key, hash) = maitred_key(setting)?;
    let endpoints = per_endpoint(setting.endpoints, |_, address| format!("      - address: {address}\n"));
    let config = format!(
        "version: 1\n\
         listeners:\n  - address: 127.0.0.1:{port}\n\
         admin:\n  address: 127.0.0.1:{admin}\n\
         auth:\n  keys:\n    - hash: {hash}\n      tenant: bench\n      shared: true\n\
         pools:\n  - name: {MODEL}\n    models:\n      - name: {MODEL}\n    endpoints:\n{endpoints}{more}",
        port = setting.port,
        admin = setting.admin_port,
    );
    Ok(SetUp {
        files: vec![("maitred.yaml", config)],
        arguments: vec![
            "serve".to_owned(),
            "-c".to_owned(),
            file_argument(setting, "maitred.yaml"),
        ],
        key: Some(key),
    })
}

/// A fresh key and what the file holds of it, as `maitred keys new` prints them.
fn maitred_key(setting: &Setting<'_>) -> anyhow::Result<(String, String)> {
    let output = Command::new(setting.program).args(["keys", "new"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let after = |label: &str| {
        let value = text.lines().find_map(|line| line.trim().strip_prefix(label));
        value
            .map(|value| value.trim().to_owned())
            .with_context(|| format!("`maitred keys new` prints no {label}"))
    };
    if !output.status.success() {
        bail!("`maitred keys new` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok((after("key:")?, after("hash:")?))
}

fn nginx(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    let servers = per_endpoint(setting.endpoints, |_, address| format!("    server {address};\n"));
    let config = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr warn;\nworker_rlimit_nofile 16384;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 100000000;\n  client_max_body_size 32m;\n  client_body_buffer_size 1m;\n\
           client_body_temp_path body;\n  proxy_temp_path proxy;\n  fastcgi_temp_path fastcgi;\n  uwsgi_temp_path uwsgi;\n\
           scgi_temp_path scgi;\n\
           upstream endpoints {{\n    least_conn;\n{servers}    keepalive 256;\n    keepalive_requests 100000000;\n  }}\n\
           server {{\n    listen 127.0.0.1:{port};\n    location / {{\n      proxy_pass http://endpoints;\n      \
           proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n    }}\n  }}\n}}\n",
        port = setting.port,
    );
    let folder = setting.folder.display().to_string();
    Ok(SetUp {
        files: vec![("nginx.conf", config)],
        arguments: vec![
            "-p".to_owned(),
            folder,
            "-c".to_owned(),
            file_argument(setting, "nginx.conf"),
        ],
        key: None,
    })
}

fn haproxy(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    let servers = per_endpoint(setting.endpoints, |index, address| {
        format!("  server e{index} {address}\n")
    });
    let config = format!(
        "global\n  nbthread 1\n  maxconn 8192\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 300s\n  timeout server 300s\n  option http-keep-alive\n  \
         http-reuse always\n  option http-no-delay\n\
         frontend calls\n  bind 127.0.0.1:{port}\n  default_backend endpoints\n\
         backend endpoints\n  balance leastconn\n{servers}",
        port = setting.port,
    );
    Ok(SetUp {
        files: vec![("haproxy.cfg", config)],
        arguments: vec!["-db".to_owned(), "-f".to_owned(), file_argument(setting, "haproxy.cfg")],
        key: None,
    })
}

fn envoy(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    let endpoints = per_endpoint(setting.endpoints, |_, address| {
        let (host, port) = (address.ip(), address.port());
        format!("        - endpoint: {{ address: {{ socket_address: {{ address: {host}, port_value: {port} }} }} }}\n")
    });
    let config = format!(
        "static_resources:\n  listeners:\n  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}\n    \
         filter_chains:\n    - filters:\n      - name: envoy.filters.network.http_connection_manager\n        typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n          \
         stat_prefix: calls\n          route_config:\n            virtual_hosts:\n            - name: all\n              domains: [\"*\"]\n              \
         routes:\n              - match: {{ prefix: \"/\" }}\n                route: {{ cluster: endpoints, timeout: 0s }}\n          \
         http_filters:\n          - name: envoy.filters.http.router\n            typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}\n  \
         clusters:\n  - name: endpoints\n    connect_timeout: 5s\n    lb_policy: LEAST_REQUEST\n    circuit_breakers: {{ thresholds: [{{ max_connections: 8192, max_pending_requests: 8192, max_requests: 8192 }}] }}\n    \
         load_assignment:\n      cluster_name: endpoints\n      endpoints:\n      - lb_endpoints:\n{endpoints}",
        port = setting.port,
    );
    let mut arguments = vec!["-c".to_owned(), file_argument(setting, "envoy.yaml")];
    arguments.extend(["--concurrency", "1", "--log-level", "warning", "--use-dynamic-base-id"].map(str::to_owned));
    Ok(SetUp {
        files: vec![("envoy.yaml", config)],
        arguments,
        key: None,
    })
}

fn vllm_router(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    let mut line = router_line(setting)?;
    write!(line, " --log-level warning")?;
    Ok(split(&line))
}

fn smg(setting: &Setting<'_>) -> anyhow::Result<SetUp> {
    let mut line = format!("launch {}", router_line(setting)?);
    write!(line, " --log-level warn")?;
    Ok(split(&line))
}

/// The arguments that two routers of one family share.
fn router_line(setting: &Setting<'_>) -> anyhow::Result<String> {
    let mut line = format!(
        "--host 127.0.0.1 --port {} --prometheus-host 127.0.0.1 --prometheus-port {} --policy power_of_two --worker-urls",
        setting.port, setting.admin_port
    );
    for address in setting.endpoints {
        write!(line, " http://{address}")?;
    }
    Ok(line)
}

fn split(line: &str) -> SetUp {
    SetUp {
        arguments: line.split(' ').map(str::to_owned).collect(),
        ..SetUp::default()
    }
}
