//! Which cores the threads of a process may run on.
//!
//! With one caller, caller, proxy and backend take turns. Whether a turn wakes another core, which costs some 15 us on a
//! virtual machine, is up to where the system has put whom at the moment. So that case is measured twice: as the system
//! places everybody, and with everybody on one core, where no turn wakes another.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::BoxError;

/// The cores that we may use.
pub(crate) fn cores() -> Result<Vec<usize>, BoxError> {
    let all = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect())
}

/// Has all threads of a process run on these cores alone.
pub(crate) fn place(process: u32, cores: &[usize]) -> Result<(), BoxError> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let id: i32 = thread?.file_name().to_string_lossy().parse()?;
        sched_setaffinity(Pid::from_raw(id), &set)?;
    }
    Ok(())
}
