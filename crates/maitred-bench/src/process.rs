//! What a process and its descendants cost, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs;

/// CPU time and memory at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Nanoseconds on a core since the start, over all threads.
    pub(crate) cpu_ns: u64,
    /// Resident memory.
    pub(crate) rss_kib: u64,
}

/// The cost of the process `root` and of everything it started.
pub(crate) fn cost_of(root: u32) -> Cost {
    let children = children();
    let mut total = Cost::default();
    let mut waiting = vec![root];
    while let Some(process) = waiting.pop() {
        total.cpu_ns += cpu_ns(process);
        total.rss_kib += rss_kib(process);
        waiting.extend(children.get(&process).into_iter().flatten());
    }
    total
}

/// For every process the ones it started.
fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in numbers_in("/proc") {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name in parentheses may hold anything; the state and the parent follow it.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            found.entry(parent).or_default().push(process);
        }
    }
    found
}

/// The first figure of `schedstat`: nanoseconds spent on a core. Finer than the clock ticks of `stat`.
fn cpu_ns(process: u32) -> u64 {
    let folder = format!("/proc/{process}/task");
    let of_thread = |thread: u32| {
        let text = fs::read_to_string(format!("{folder}/{thread}/schedstat")).unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|figure| figure.parse::<u64>().ok())
            .unwrap_or(0)
    };
    numbers_in(&folder).into_iter().map(of_thread).sum()
}

fn rss_kib(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_costs_something() {
        let cost = cost_of(std::process::id());
        assert!(cost.cpu_ns > 0, "{cost:?}");
        assert!(cost.rss_kib > 100, "{cost:?}");
    }
}
