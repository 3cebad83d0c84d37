//! Tables, and how the figures compare to what is asked of the gateway.

use crate::held::Memory;
use crate::process;
use crate::rounds::{Pair, Typical};

/// What is asked: CPU time added per request, in microseconds.
const MOST_ADDED_US: f64 = 10.0;
/// Throughput per the bare proxy's, with 64 callers.
const LEAST_RATIO: f64 = 0.75;
/// Bytes per held request above what bare hyper needs.
const MOST_HELD_BYTES: f64 = 8.0 * 1024.0;

/// Says how busy the machine is: on a busy one, figures are too high.
pub(crate) fn machine() {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("\n{cores} cores, load average {}", process::load_average());
}

/// The head of a table of rounds.
pub(crate) fn heading(concurrency: usize) {
    println!("\nconcurrency {concurrency:<5}{:^40}{:^40}", "bare hyper proxy", "fairlane");
    let columns = format!("{:>10}{:>10}{:>10}{:>10}", "cpu us", "req/s", "p50 us", "p99 us");
    println!("{:<8}{columns}{columns}{:>10}{:>8}", "round", "added us", "ratio");
}

/// A line of it.
pub(crate) fn line(name: &str, Pair { bare, gateway }: &Pair, added_us: f64, ratio: f64) {
    print!("{name:<8}");
    for sample in [bare, gateway] {
        print!("{:>10.2}{:>10.0}", sample.cpu_us, sample.per_second);
        print!("{:>10.0}{:>10.0}", sample.p50_us, sample.p99_us);
    }
    println!("{added_us:>10.2}{ratio:>8.3}");
}

/// All that is asked, and whether it is so.
pub(crate) fn bars(alone: &Typical, together: &Typical, crowded: &Typical, memory: &Memory) {
    let Memory { requests, bare, gateway } = *memory;
    println!(
        "\n{requests} held requests, bytes resident each: bare hyper {bare:.0}, fairlane {gateway:.0}\n"
    );
    let added = "added CPU time per request";
    bar(alone.added_us <= MOST_ADDED_US, added, "us, 1 caller", alone.added_us, MOST_ADDED_US);
    let unit = "us, 1 caller, all on one core";
    bar(together.added_us <= MOST_ADDED_US, added, unit, together.added_us, MOST_ADDED_US);
    bar(crowded.added_us <= MOST_ADDED_US, added, "us, 64 callers", crowded.added_us, MOST_ADDED_US);
    bar(crowded.ratio >= LEAST_RATIO, "throughput ratio", "of bare, 64 callers", crowded.ratio, LEAST_RATIO);
    let bytes = gateway - bare;
    bar(bytes <= MOST_HELD_BYTES, "memory per held request above bare", "bytes", bytes, MOST_HELD_BYTES);
}

fn bar(met: bool, what: &str, unit: &str, value: f64, asked: f64) {
    let verdict = if met { "PASS" } else { "MISS" };
    println!("{verdict}  {what:<36}{value:>10.2} {unit} (bar: {asked:.2})");
}
