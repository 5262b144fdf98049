//! What is measured, and how each is started.

mod configs;

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use crate::cases::{chat_body, request};
use crate::machine::{LOAD_CORE, PROXY_CORE, pin_to};
use crate::wire::{Framed, status};

/// How long a system may take until it answers.
const STARTING_MAX: Duration = Duration::from_secs(30);
/// How often it is asked meanwhile.
const ASKING_INTERVAL: Duration = Duration::from_millis(50);

/// Where to find what is not installed system-wide, and what is wanted.
#[derive(Debug)]
pub(crate) struct Offers {
    /// The maitred binary.
    pub(crate) maitred: Option<PathBuf>,
    /// A Python environment with the peers.
    pub(crate) peers: Option<PathBuf>,
    /// Names of the wanted systems; all when empty.
    pub(crate) only: Vec<String>,
}

/// A system under test.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    /// What it is set to do, for the report.
    pub(crate) about: &'static str,
    pub(crate) address: SocketAddr,
    /// The key that calls must carry.
    key: Option<String>,
    running: Option<Running>,
}

/// Killed when dropped.
#[derive(Debug)]
struct Running {
    child: Child,
    folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl System {
    /// The straight way to one endpoint.
    fn direct(endpoints: &[SocketAddr]) -> anyhow::Result<Self> {
        Ok(Self {
            name: "direct",
            about: "no proxy; one endpoint, on the core of the load",
            address: *endpoints.first().context("an endpoint")?,
            key: None,
            running: None,
        })
    }

    /// Whether this is the yardstick.
    pub(crate) fn is_direct(&self) -> bool {
        self.running.is_none()
    }

    /// The process whose cost is counted.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// A call with this body as it goes onto the wire.
    pub(crate) fn request(&self, body: &str) -> Vec<u8> {
        request(body, self.key.as_deref())
    }

    /// A streamed call as it goes onto the wire.
    pub(crate) fn stream_request(&self) -> Vec<u8> {
        self.request(&chat_body(1 << 10, true))
    }
}

/// How to start one system.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The program, where it is to be found.
    pub(crate) program: PathBuf,
    /// Files of its folder by name, and its arguments.
    pub(crate) set_up: fn(&Setting<'_>) -> anyhow::Result<SetUp>,
}

/// What a recipe may use.
pub(crate) struct Setting<'a> {
    pub(crate) program: &'a Path,
    pub(crate) folder: &'a Path,
    /// Where it is to listen.
    pub(crate) port: u16,
    /// Another free port, for its administration.
    pub(crate) admin_port: u16,
    pub(crate) endpoints: &'a [SocketAddr],
}

/// What a recipe gives.
#[derive(Debug, Default)]
pub(crate) struct SetUp {
    pub(crate) files: Vec<(&'static str, String)>,
    pub(crate) arguments: Vec<String>,
    pub(crate) key: Option<String>,
}

/// Starts every wanted system that can be found. `direct` comes first.
pub(crate) fn start_all(offers: &Offers, endpoints: &[SocketAddr]) -> anyhow::Result<Vec<System>> {
    let mut systems = vec![System::direct(endpoints)?];
    for recipe in configs::recipes(offers) {
        if !offers.only.is_empty() && !offers.only.iter().any(|name| name == recipe.name) {
            continue;
        }
        if recipe.program.is_file() {
            systems.push(start(&recipe, endpoints)?);
        } else {
            eprintln!("{} is left out: there is no {}", recipe.name, recipe.program.display());
        }
    }
    Ok(systems)
}

fn start(recipe: &Recipe, endpoints: &[SocketAddr]) -> anyhow::Result<System> {
    let folder = tempfile::Builder::new().prefix("maitred-bench-").tempdir()?;
    let (port, admin_port) = (free_port()?, free_port()?);
    let set_up = (recipe.set_up)(&Setting {
        program: &recipe.program,
        folder: folder.path(),
        port,
        admin_port,
        endpoints,
    })?;
    for (name, text) in &set_up.files {
        fs::write(folder.path().join(name), text)?;
    }
    let log = File::create(folder.path().join("log"))?;
    let mut command = Command::new(&recipe.program);
    command.args(&set_up.arguments).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    pin_to(PROXY_CORE)?;
    let child = command.spawn();
    pin_to(LOAD_CORE)?;
    let system = System {
        name: recipe.name,
        about: recipe.about,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        key: set_up.key,
        running: Some(Running {
            child: child.with_context(|| format!("{} does not start", recipe.name))?,
            folder,
        }),
    };
    wait_until_it_answers(&system)?;
    Ok(system)
}

/// A port that was free a moment ago.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn wait_until_it_answers(system: &System) -> anyhow::Result<()> {
    let mut last = String::new();
    let mut waited = Duration::ZERO;
    while waited < STARTING_MAX {
        match ask_once(system) {
            Ok(200) => return Ok(()),
            Ok(status) => last = format!("status {status}"),
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(ASKING_INTERVAL);
        waited += ASKING_INTERVAL;
    }
    let log = system.running.as_ref().map(|running| running.folder.path().join("log"));
    let log = log.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    bail!("{} does not answer ({last}); it printed:\n{log}", system.name)
}

fn ask_once(system: &System) -> anyhow::Result<u16> {
    use std::io::{Read as _, Write as _};
    let mut stream = TcpStream::connect(system.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(&system.request(&chat_body(1 << 10, false)))?;
    let mut buffer = vec![0; 16 << 10];
    let mut read = 0;
    loop {
        let more = stream.read(buffer.get_mut(read..).unwrap_or_default())?;
        read += more;
        let bytes = buffer.get(..read).unwrap_or_default();
        if more == 0 || Framed::of(bytes).is_some() {
            return Ok(status(bytes));
        }
    }
}
