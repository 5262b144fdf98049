//! `maitred engine`: a simulated endpoint. The HTTP face of a real engine, on the engine model of `maitred-sim`.

mod admin;
mod args;
mod ask;
mod body;
mod call_log;
mod core;
mod embedding;
mod face;
mod faults;
mod kv_events;
mod page;
mod problem;
mod progress;
mod restart;
mod script;
mod server;
mod shape;
mod stream;
mod text;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use http::{Request, Response};
use hyper::body::Incoming;
use maitred_engines::Engine;
use maitred_runtime::{Clock, Tasks};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::admin::{Admin, Command};
use self::ask::Served;
use self::body::FaceBody;
use self::call_log::CallLog;
use self::core::{Core, Life, Pace};
use self::face::Face;
use self::kv_events::Publisher;
use self::page::PageSetup;
use self::restart::Restart;
use self::server::{Answering, Gate, Port};
use self::stream::Cut;

pub(crate) use self::args::{EngineArgs, LoadMode};

/// Commands that may wait.
const MAX_COMMANDS: usize = 16;
/// A vLLM that was told to go is gone within this time.
const VLLM_LEAVES: Duration = Duration::from_millis(900);
/// How long a vLLM answers with errors after its scheduler died.
const VLLM_DIES: Duration = Duration::from_millis(300);
/// How long an SGLang hangs after its scheduler died.
const SGLANG_DIES: Duration = Duration::from_secs(5);

/// How long one that is to be restarted may take to finish what runs, after its grace.
const PATIENCE: Duration = Duration::from_secs(5);

/// How an endpoint's life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It was told to go.
    Left,
    /// It crashed, as if killed.
    Crashed,
    /// Its scheduler died.
    Died,
    /// It is to begin again at the same address.
    Restarts(Restart),
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Left | Ending::Restarts(_) => Self::SUCCESS,
            Ending::Died => Self::FAILURE,
            // What a shell makes of a process killed with SIGKILL.
            Ending::Crashed => Self::from(137),
        }
    }
}

/// Runs an endpoint until it is told to end, or ends by a fault.
///
/// # Errors
/// When an argument makes no sense or a port cannot be had.
pub(crate) async fn run(mut args: EngineArgs) -> anyhow::Result<ExitCode> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    loop {
        let endpoint = Endpoint::start(args.clone(), Clock::start())?;
        let addresses = (endpoint.address, endpoint.admin);
        match live(endpoint, &mut signals).await {
            Ending::Restarts(restart) => restart.change(&mut args, addresses),
            ending => return Ok(ending.into()),
        }
    }
}

/// One life of an endpoint, of which a signal is the end.
async fn live(endpoint: Endpoint, [terminate, interrupt]: &mut [Signal; 2]) -> Ending {
    // Whoever reads these lines may close the pipe after them.
    let mut stdout = std::io::stdout();
    drop(writeln!(stdout, "listening on {}", endpoint.address));
    if let Some(admin) = endpoint.admin {
        drop(writeln!(stdout, "admin on {admin}"));
    }
    if let Some((live, again)) = endpoint.kv_events {
        drop(writeln!(stdout, "kv events on {live}\nkv events again on {again}"));
    }
    drop(stdout.flush());
    let commands = endpoint.commands.clone();
    let relay = async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            drop(commands.send(Command::Terminate).await);
        }
    };
    tokio::select! {
        ending = endpoint.live() => ending,
        () = relay => Ending::Left,
    }
}

/// A running endpoint.
#[derive(Debug)]
struct Endpoint {
    /// Where it serves.
    address: SocketAddr,
    /// Where it takes faults and commands.
    admin: Option<SocketAddr>,
    /// Where it publishes KV events, and where it plays them again.
    kv_events: Option<(SocketAddr, SocketAddr)>,
    /// Takes commands.
    commands: mpsc::Sender<Command>,
    received: mpsc::Receiver<Command>,
    args: EngineArgs,
    core: Arc<Core>,
    gate: watch::Sender<Gate>,
    /// Connections, which a crash cuts.
    connections: Tasks,
    /// Everything else.
    tasks: Tasks,
}

impl Endpoint {
    /// Takes its ports and begins to load.
    fn start(args: EngineArgs, clock: Clock) -> anyhow::Result<Self> {
        let options = args.options()?;
        let pace = Pace {
            clock,
            time_scale: args.time_scale,
            seed: args.seed,
        };
        let core = Arc::new(Core::new(&args.profile, &options, pace));
        core.patch_faults(&args.fault);
        if args.load_time.is_zero() {
            core.with(|state| state.life = Life::Serving);
        }
        let at_first = gate(&args, &core);
        let port = Port::take(args.listen, at_first)?;
        let address = port.address();
        let admin_port = args.admin.map(|admin| Port::take(admin, Gate::Open)).transpose()?;
        let admin = admin_port.as_ref().map(Port::address);

        let (commands, received) = mpsc::channel(MAX_COMMANDS);
        let (gate, gate_seen) = watch::channel(at_first);
        let (connections, tasks) = (Tasks::new(), Tasks::new());
        let face = Arc::new(face(&args, &core, admin)?);
        tasks.spawn_until_stop(Arc::clone(&core).drive());
        tasks.spawn_until_stop(server::serve(port, gate_seen, connections.clone(), Door(face)));
        if let Some(port) = admin_port {
            let (always, open) = watch::channel(Gate::Open);
            let admin = Admin {
                core: Arc::clone(&core),
                commands: commands.clone(),
            };
            let admin_connections = tasks.clone();
            tasks.spawn_until_stop(async move {
                server::serve(port, open, admin_connections, admin).await;
                drop(always);
            });
        }
        let kv_events = args
            .kv_events
            .map(|port| publish(port, &args, &core, &tasks))
            .transpose()?;
        Ok(Self {
            address,
            admin,
            kv_events,
            commands,
            received,
            args,
            core,
            gate,
            connections,
            tasks,
        })
    }

    /// Lives until its end.
    async fn live(mut self) -> Ending {
        let load_time = self.core.on_the_wall(self.args.load_time);
        let loaded = tokio::time::sleep(load_time);
        tokio::pin!(loaded);
        loop {
            let is_loading = self.life() == Life::Loading;
            let command = tokio::select! {
                () = &mut loaded, if is_loading => {
                    self.core.with(|state| state.life = Life::Serving);
                    self.regate();
                    continue;
                }
                command = self.received.recv() => command,
            };
            let ending = match command {
                Some(Command::Regate) => {
                    self.regate();
                    continue;
                }
                Some(Command::Terminate) if is_loading => Ending::Left,
                Some(Command::Terminate) => self.terminate().await,
                Some(Command::Die) => self.die().await,
                Some(Command::Restart(restart)) => {
                    if restart.drain {
                        self.args.drain_on_sigterm = true;
                        self.args.drain_grace = restart.grace.unwrap_or(self.args.drain_grace);
                        // As a supervisor does, which kills what does not end.
                        let longest = self.args.drain_grace + PATIENCE;
                        drop(tokio::time::timeout(longest, self.terminate()).await);
                    }
                    Ending::Restarts(restart)
                }
                Some(Command::Crash) | None => Ending::Crashed,
            };
            self.connections.stop();
            self.tasks.stop();
            self.connections.wait().await;
            self.tasks.wait().await;
            return ending;
        }
    }

    fn life(&self) -> Life {
        self.core.with(|state| state.life)
    }

    /// Opens or shuts the port, as life and faults want it.
    fn regate(&self) {
        let gate = gate(&self.args, &self.core);
        self.gate
            .send_if_modified(|before| std::mem::replace(before, gate) != gate);
    }

    /// What SIGTERM does: vLLM ends every answer at once; the others say that they are leaving and finish what runs.
    async fn terminate(&mut self) -> Ending {
        if self.args.flavor == Engine::Vllm && !self.args.drain_on_sigterm {
            self.core.abort_all();
            self.core.with(|state| state.life = Life::Dead);
            self.gate.send_replace(Gate::Shut);
            drop(tokio::time::timeout(VLLM_LEAVES, self.connections.wait()).await);
            return Ending::Left;
        }
        self.core.with(|state| state.life = Life::Draining);
        let drained = async {
            tokio::time::sleep(self.args.drain_grace).await;
            self.core.idle().await;
            self.gate.send_replace(Gate::Shut);
            self.connections.wait().await;
        };
        tokio::pin!(drained);
        loop {
            tokio::select! {
                () = &mut drained => return Ending::Left,
                command = self.received.recv() => match command {
                    Some(Command::Regate) => {}
                    Some(Command::Terminate) => return Ending::Left,
                    Some(Command::Crash | Command::Die | Command::Restart(_)) | None => return Ending::Crashed,
                }
            }
        }
    }

    async fn die(&self) -> Ending {
        self.core.die();
        let lingers = if self.args.flavor == Engine::Sglang {
            SGLANG_DIES
        } else {
            VLLM_DIES
        };
        tokio::time::sleep(lingers).await;
        Ending::Died
    }
}

/// Whether connections are taken, as life and faults want it.
fn gate(args: &EngineArgs, core: &Core) -> Gate {
    let (life, refuses) = core.with(|state| (state.life, state.faults.refuse));
    let is_hidden = life == Life::Loading && args.load_mode == LoadMode::ClosedPort;
    if refuses || is_hidden { Gate::Shut } else { Gate::Open }
}

fn face(args: &EngineArgs, core: &Arc<Core>, admin: Option<SocketAddr>) -> anyhow::Result<Face> {
    let names = if args.served_name.is_empty() {
        vec![args.model.clone()]
    } else {
        args.served_name.clone()
    };
    let model = names.first().cloned().unwrap_or_default();
    let call_log = args.call_log.as_ref().map(|path| {
        let log = CallLog::open(path);
        log.with_context(|| format!("cannot write calls to {}", path.display()))
    });
    Ok(Face {
        core: Arc::clone(core),
        page: PageSetup {
            engine: args.flavor,
            model,
            adapters: args.lora_modules.clone(),
            max_loras: args.max_loras.get(),
            context: args.max_model_len,
            interval: args.metrics_interval,
        },
        served: Served {
            engine: args.flavor,
            names,
            adapters: args.lora_modules.clone(),
            context: args.max_model_len,
        },
        length: args.output_length(),
        block_size: args.block_size.get(),
        seed: args.seed,
        api_key: args.api_key.clone(),
        tells_cached: !args.no_cached_tokens,
        call_log: call_log.transpose()?.map(Arc::new),
        admin,
        answers: AtomicU64::new(0),
    })
}

/// The serving port's answers.
#[derive(Clone, Debug)]
struct Door(Arc<Face>);

impl Answering for Door {
    type Body = FaceBody;
    type Cut = Cut;

    async fn answer(self, request: Request<Incoming>) -> Result<Response<FaceBody>, Cut> {
        self.0.serve(request).await
    }
}

#[cfg(test)]
mod tests;

/// Publishes KV events from here on: at `port`, and again at a free one beside it.
fn publish(port: u16, args: &EngineArgs, core: &Core, tasks: &Tasks) -> anyhow::Result<(SocketAddr, SocketAddr)> {
    let take = |port| -> anyhow::Result<(tokio::net::TcpListener, SocketAddr)> {
        let listener = std::net::TcpListener::bind((args.listen.ip(), port))
            .with_context(|| format!("cannot take port {port} for KV events"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((tokio::net::TcpListener::from_std(listener)?, address))
    };
    let (live, again) = (take(port)?, take(if port == 0 { 0 } else { port + 1 })?);
    let publisher = Publisher::new(args.block_size.get());
    core.publish_to(Arc::clone(&publisher));
    tasks.spawn_until_stop(Arc::clone(&publisher).serve(live.0, tasks.clone()));
    tasks.spawn_until_stop(publisher.serve_again(again.0, tasks.clone()));
    Ok((live.1, again.1))
}
