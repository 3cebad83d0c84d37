//! What the system counts of a process, as Linux tells it.

use std::time::Duration;

use crate::BoxError;

/// The CPU time that a process has used in all its threads.
///
/// Threads that have ended do not count, so this is for runtimes whose threads stay. A thread that runs at the moment
/// may be up to a tick of the system behind; one that sleeps is exact to the nanosecond.
pub(crate) fn cpu_time(id: u32) -> Result<Duration, BoxError> {
    let mut nanos = 0;
    for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let ran: u64 = told.split_whitespace().next().unwrap_or_default().parse()?;
        nanos += ran;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Bytes that a process has resident.
pub(crate) fn resident_bytes(id: u32) -> Result<u64, BoxError> {
    // The counts elsewhere may lag by pages per core; this one walks the mappings.
    let told = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line = told.lines().find_map(|line| line.strip_prefix("Rss:")).ok_or("no resident set is told")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}

/// How many files this process, and with it each child, may have open.
pub(crate) fn open_files() -> Result<usize, BoxError> {
    let told = std::fs::read_to_string("/proc/self/limits")?;
    let line = told.lines().find_map(|line| line.strip_prefix("Max open files")).ok_or("no limit is told")?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse().unwrap_or(usize::MAX))
}

/// How many threads wanted to run in the last minute, on average.
pub(crate) fn load_average() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split(' ').next().unwrap_or("unknown").to_owned()
}
