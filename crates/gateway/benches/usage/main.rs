//! What it costs to watch a streamed answer for its usage: `cargo bench -p fairlane-gateway --bench usage`, which takes
//! about a minute, or `-- --quick`.
//!
//! First the watcher alone, over bodies in memory. Then a hyper proxy that forwards streams of 2,000 small events at the
//! pace of a model, bare and watched by turns, and the CPU time of the thread it runs on. A model writes an event when it
//! has one, so that each is read and written by itself; what is forwarded in larger pieces costs less by the event, watched
//! or not, and the watcher's part of that is larger.
//!
//! What watching adds is a few dozen nanoseconds of several thousand. The difference of whole rounds shows that on a quiet
//! machine only; so the watcher is also timed where it runs, in the midst of forwarding, and that is what counts.
//!
//! The program ends well whatever the figures are.
#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

mod alone;
mod forwarding;
mod stopwatch;
mod stream;

use crate::forwarding::Effort;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What is asked: CPU time that watching adds to forwarding.
const MOST_ADDED_PERCENT: f64 = 2.0;

/// The gateway has it, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    // `cargo test --benches` does not say `--bench`, and only wants to see that it works.
    let (passes, effort) = match (has("--bench"), has("--quick")) {
        (false, _) => (3, Effort { rounds: 1, streams: 4, events: 50 }),
        (true, true) => (101, Effort { rounds: 1, streams: 32, events: 2_000 }),
        (true, false) => (501, Effort { rounds: 7, streams: 32, events: 2_000 }),
    };
    alone::measure(passes);
    let forwarding = forwarding::measure(effort)?;
    println!();
    for (what, percent) in [
        ("CPU time added by watching", forwarding.watched_percent),
        ("CPU time added by watching and hiding", forwarding.hiding_percent),
    ] {
        let verdict = if percent <= MOST_ADDED_PERCENT { "PASS" } else { "MISS" };
        println!("{verdict}  {what:<42}{percent:>7.2} % (bar: {MOST_ADDED_PERCENT:.2} %)");
    }
    Ok(())
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
