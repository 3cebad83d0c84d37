//! Slices of work, timed by the CPU time of the threads that did them.

use std::sync::Barrier;
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock::{thread_cpu_nanos, wall_nanos};
use crate::subject::Subject;

/// Steps between two looks at the clock.
const BATCH: u64 = 512;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) slices: usize,
    pub(crate) slice_nanos: u64,
}

/// CPU nanoseconds per operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) best: f64,
    pub(crate) median: f64,
}

/// Measures both by turns, so that both meet the same neighbours, and returns (ours, peer).
pub(crate) fn compare(ours: &dyn Subject, peer: &dyn Subject, threads: u64, effort: Effort) -> (Cost, Cost) {
    let mut samples = (Vec::new(), Vec::new());
    // One slice each to warm up.
    slice(ours, threads, 0, effort.slice_nanos);
    slice(peer, threads, 0, effort.slice_nanos);
    for round in 1..=effort.slices {
        let seed = (round as u64) << 40;
        samples.0.push(slice(ours, threads, seed, effort.slice_nanos));
        samples.1.push(slice(peer, threads, seed, effort.slice_nanos));
    }
    (cost(samples.0), cost(samples.1))
}

fn cost(mut samples: Vec<f64>) -> Cost {
    samples.sort_by(f64::total_cmp);
    Cost { best: samples[0], median: samples[samples.len() / 2] }
}

/// CPU nanoseconds per operation, averaged over the threads.
fn slice(subject: &dyn Subject, threads: u64, seed: u64, nanos: u64) -> f64 {
    if threads == 1 {
        return work(subject, seed, nanos);
    }
    let barrier = Barrier::new(usize::try_from(threads).unwrap_or(1));
    let total: f64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    stay_on(thread);
                    barrier.wait();
                    work(subject, seed ^ (thread << 56), nanos)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(f64::NAN)).sum()
    });
    #[expect(clippy::cast_precision_loss, reason = "a handful of threads")]
    let mean = total / threads as f64;
    mean
}

/// Gives the calling thread a core of its own, without which two threads may well take turns on one and never meet.
fn stay_on(thread: u64) {
    let mut cores = CpuSet::new();
    cores.set(usize::try_from(thread).unwrap_or(0));
    // A machine with fewer cores measures what it can.
    sched_setaffinity(None, &cores).ok();
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn work(subject: &dyn Subject, seed: u64, nanos: u64) -> f64 {
    let deadline = wall_nanos() + nanos;
    let start = thread_cpu_nanos();
    let mut steps = 0;
    let mut granted = 0_u64;
    while wall_nanos() < deadline {
        for step in steps..steps + BATCH {
            granted += u64::from(subject.step(seed + step));
        }
        steps += BATCH;
    }
    std::hint::black_box(granted);
    (thread_cpu_nanos() - start) as f64 / steps as f64
}

/// The longest and the 99.9th percentile of single operations, in CPU microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) worst: f64,
    pub(crate) p999: f64,
}

/// Times every one of `count` operations on its own.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn tail(count: u64, mut operation: impl FnMut(u64)) -> Tail {
    let mut nanos: Vec<u64> = (0..count)
        .map(|number| {
            let start = thread_cpu_nanos();
            operation(number);
            thread_cpu_nanos() - start
        })
        .collect();
    nanos.sort_unstable();
    let at = |index: usize| nanos.get(index).map_or(0.0, |nanos| *nanos as f64 / 1_000.0);
    Tail { worst: at(nanos.len() - 1), p999: at(nanos.len() * 999 / 1_000) }
}

/// Bytes of memory that this process has resident.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4_096
}
