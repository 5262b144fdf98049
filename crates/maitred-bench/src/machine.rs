//! Cores and limits of this machine.

use std::fs;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Upstream and load.
pub(crate) const LOAD_CORE: usize = 0;
/// The proxy under test.
pub(crate) const PROXY_CORE: usize = 1;

/// Keeps the calling thread, and what it starts, on one core.
pub(crate) fn pin_to(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot stay on core {core}: two cores are needed"))
}

/// Lets this process, and what it starts, open as many files as the system allows.
pub(crate) fn raise_open_files() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")
}

/// Puts what this session runs before the other work of the machine, until dropped. The kernel shares the cores between
/// sessions first and between the processes of a session second, so a nice value alone would change nothing.
#[derive(Debug)]
pub(crate) struct Priority {
    is_raised: bool,
}

impl Priority {
    const OF_SESSION: &str = "/proc/self/autogroup";
    const RAISED: i32 = -10;

    /// Raises it, if that is allowed.
    pub(crate) fn raise() -> Self {
        let of_session = fs::write(Self::OF_SESSION, Self::RAISED.to_string());
        let of_process = nice(Self::RAISED);
        Self {
            is_raised: of_session.is_ok() && of_process.is_ok(),
        }
    }

    /// Whether it was allowed.
    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if self.is_raised {
            fs::write(Self::OF_SESSION, "0").ok();
        }
    }
}

/// The processor's name, for the report.
pub(crate) fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown processor", |(_, name)| name.trim()).to_owned()
}
