//! What a turn costs, what an estimate costs, and what memory a request and a tenant take.
//!
//! A plain program that prints a table: `cargo bench -p fairlane-fair-queue`. The naive form, which looks at
//! every tenant at every pick, runs beside it as the peer. With an argument of `--test`, as `cargo test
//! --benches` gives, each measurement is made once over, for a moment, to see that it runs.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for people, which stops if it cannot go on"
)]

use std::hint::black_box;
use std::time::Duration;

use fairlane_fair_queue::{
    Action, Demand, FairQueue, GateKey, GateLevel, Limits, Request, TenantKey, Timestamp, Weight,
};

const GATE: GateKey = GateKey(1);

/// Time on the processor, where the system tells (Linux does), so that neighbours disturb less; else time on
/// the wall.
fn timed(mut work: impl FnMut()) -> Duration {
    fn on_processor() -> Option<Duration> {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }

    #[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark reads a clock")]
    let start = std::time::Instant::now();
    let before = on_processor();
    work();
    match (before, on_processor()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        #[expect(clippy::disallowed_methods, reason = "a benchmark reads a clock")]
        _ => start.elapsed(),
    }
}

fn limits() -> Limits {
    let many = 10_000_000.try_into().unwrap();
    Limits {
        max_queue_depth_per_tenant: many,
        max_total_queued: many,
        max_tenants: many,
        max_in_flight: 8.try_into().unwrap(),
    }
}

/// A bucket that always has room: what is measured is the order, not the waiting.
fn level() -> GateLevel {
    GateLevel {
        gate: GATE,
        level: 1_000_000_000,
        until_next: Duration::from_nanos(1),
        capacity: 1_000_000_000_000,
        refill: 1_000_000_000_000,
        period: Duration::from_secs(60),
    }
}

/// As spread as the digests that tenants are in use, and telling the number too.
fn tenant(number: usize) -> TenantKey {
    let number = number as u64;
    TenantKey((u128::from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64) | u128::from(number))
}

fn number(tenant: TenantKey) -> usize {
    usize::try_from(tenant.0 & u128::from(u64::MAX)).unwrap()
}

fn weight(number: usize, weights: usize) -> Weight {
    Weight::new(u32::try_from(1 + number * 7919 % weights).unwrap()).unwrap()
}

struct Bench {
    queue: FairQueue,
    weights: usize,
    now: u64,
}

impl Bench {
    fn new(tenants: usize, weights: usize, waiting: usize) -> Self {
        let mut bench = Self { queue: FairQueue::new(limits()), weights, now: 0 };
        for _ in 0..waiting {
            for number in 0..tenants {
                bench.enqueue(number);
            }
        }
        bench
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    fn enqueue(&mut self, number: usize) {
        let request = Request {
            tenant: tenant(number),
            weight: weight(number, self.weights),
            demands: &[Demand { gate: GATE, cost: 1 }],
            levels: &[],
            deadline: self.now() + Duration::from_secs(5),
        };
        black_box(self.queue.enqueue(request, self.now()).unwrap());
    }

    /// A grant and its settlement.
    fn serve(&mut self) -> usize {
        self.now += 100;
        let now = self.now();
        let Some(Action::Grant { ticket, tenant, .. }) = self.queue.poll(now) else {
            panic!("somebody waits")
        };
        assert!(self.queue.admitted(ticket, &[level()], now));
        number(tenant)
    }
}

/// Nanoseconds for each, the best of five runs.
fn nanos_each(turns: u32, mut turn: impl FnMut()) -> f64 {
    let mut run = || {
        for _ in 0..turns {
            turn();
        }
    };
    let best = (0..5).map(|_| timed(&mut run)).min().unwrap();
    best.as_nanos() as f64 / f64::from(turns)
}

/// Enqueue, pick, settle; every lane always has somebody waiting.
fn backlogged(tenants: usize, weights: usize, turns: u32) -> f64 {
    let mut bench = Bench::new(tenants, weights, 2);
    nanos_each(turns, || {
        let served = bench.serve();
        bench.enqueue(served);
    })
}

/// Enqueue, pick, settle; each lane empties at its turn, and comes back last.
fn one_each(tenants: usize, weights: usize, turns: u32) -> f64 {
    let mut bench = Bench::new(tenants, weights, 1);
    let mut away = bench.serve();
    nanos_each(turns, || {
        let served = bench.serve();
        bench.enqueue(away);
        away = served;
    })
}

/// A refusal for a full lane: its checks, and its estimate.
fn estimate(tenants: usize, weights: usize, turns: u32) -> f64 {
    let mut bench = Bench::new(tenants, weights, 2);
    // Some history, so that there are arrivals and lags to reckon with.
    for _ in 0..tenants.min(10_000) {
        let served = bench.serve();
        bench.enqueue(served);
    }
    let full = Limits { max_queue_depth_per_tenant: 1.try_into().unwrap(), ..limits() };
    bench.queue.reconfigure(full, |_| None, bench.now());
    let mut number = 0;
    nanos_each(turns, || {
        number = (number + 7919) % tenants;
        let request = Request {
            tenant: tenant(number),
            weight: weight(number, weights),
            demands: &[Demand { gate: GATE, cost: 1 }],
            levels: &[],
            deadline: bench.now() + Duration::from_secs(5),
        };
        black_box(bench.queue.enqueue(request, bench.now()).unwrap_err());
    })
}

/// The order by the book, in floats and without a queue: it looks at every tenant.
fn naive(tenants: usize, weights: usize, turns: u32) -> f64 {
    let mut lags = vec![0.0_f64; tenants];
    let total: f64 = (0..tenants).map(|number| f64::from(weight(number, weights).get())).sum();
    nanos_each(turns, || {
        let mut best = 0;
        for at in 0..lags.len() {
            lags[at] += f64::from(weight(at, weights).get()) / total;
            if lags[at] > lags[best] {
                best = at;
            }
        }
        lags[best] -= 1.0;
        black_box(best);
    })
}

/// Bytes of this process that are in memory, where the system tells.
fn resident() -> Option<usize> {
    let told = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = told.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Bytes that 100,000 of something take, divided by that.
fn bytes(build: impl FnOnce() -> Bench) -> Option<(f64, Bench)> {
    let before = resident()?;
    let bench = build();
    let after = resident()?;
    Some((after.saturating_sub(before) as f64 / 100_000.0, bench))
}

fn memory() {
    // Kept, so that the second measurement finds no memory to use again.
    let Some((waiters, kept)) = bytes(|| Bench::new(100, 4, 1000)) else {
        println!("memory: this system does not tell");
        return;
    };
    let Some((tenants, also_kept)) = bytes(|| Bench::new(100_000, 4, 1)) else { return };
    println!("memory: {waiters:.0} bytes a waiting request, {:.0} a tenant with one lane", tenants - waiters);
    drop((kept, also_kept));
}

fn main() {
    // As `cargo test --benches` runs it: to see that it works, not how fast.
    let only_try = !std::env::args().any(|argument| argument == "--bench");
    memory();
    println!(
        "ns for each      tenants   weights   enqueue+pick+settle   the same, lanes emptying   estimate   naive pick"
    );
    for weights in [4, 100] {
        for tenants in [10, 1000, 100_000] {
            let turns = if only_try { 100 } else { 400_000 };
            let few = turns.min(u32::try_from(2_000_000 / tenants).unwrap());
            println!(
                "            {tenants:>12} {weights:>9} {:>21.0} {:>26.0} {:>10.0} {:>12.0}",
                backlogged(tenants, weights, turns),
                one_each(tenants, weights, turns),
                estimate(tenants, weights, turns),
                naive(tenants, weights, few),
            );
        }
    }
}
