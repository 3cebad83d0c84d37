//! What a turn costs, what of it the estimate, and what memory a request and a tenant take.
//!
//! A plain program that prints a table: `cargo bench -p fairlane-fair-queue`. The naive form, which looks at
//! every tenant at every pick, runs beside it as the peer. With `--quick` fewer rounds are measured; with no `--bench`, as
//! `cargo test --benches` runs it, a single short one, to see that it works.
//!
//! Each figure is the median of many rounds of about a millisecond, so that whatever else the machine does
//! spoils some rounds and not the figure.
//!
//! `enqueue` tells an estimate, so a turn cannot be made without one. To measure its share, the same turns
//! are made on the same queue with the newcomer's estimate asked for once more; rounds of the two kinds take turns, and
//! the difference of their medians is the estimate.
//!
//! With 100,000 tenants a turn reads ten lines that no cache holds. What one takes is up to the machine and to its
//! neighbours, 60 to 260 ns on one and the same, so it is measured too, before the table and after it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for people, which stops if it cannot go on"
)]

use std::hint::black_box;
use std::time::Duration;

use fairlane_fair_queue::{
    Action, ClassLimits, Demand, FairQueue, GateKey, GateLevel, Limits, Request, TenantKey, Ticket,
    Timestamp, Weight,
};

const GATE: GateKey = GateKey(1);

/// The most nanoseconds that a turn may take with 100,000 tenants, its estimate apart, by how many distinct weights there are.
const BARS: [(usize, f64); 2] = [(4, 500.0), (100, 1000.0)];

/// How long to measure.
#[derive(Clone, Copy)]
struct Effort {
    /// Turns before anything is measured: with many tenants the queue is then no longer in the order in which it was filled.
    warm_up: u32,
    rounds: usize,
    turns: u32,
}

impl Effort {
    fn told() -> Self {
        let told = |option: &str| std::env::args().any(|argument| argument == option);
        if !told("--bench") {
            Self { warm_up: 10, rounds: 1, turns: 10 }
        } else if told("--quick") {
            Self { warm_up: 100_000, rounds: 31, turns: 2000 }
        } else {
            Self { warm_up: 500_000, rounds: 251, turns: 2000 }
        }
    }

    /// Median nanoseconds of each of several kinds of turn, whose rounds alternate.
    fn medians<const KINDS: usize>(self, mut turn: impl FnMut(usize)) -> [f64; KINDS] {
        for _ in 0..self.warm_up {
            turn(0);
        }
        let mut rounds = [(); KINDS].map(|()| Vec::with_capacity(self.rounds));
        for _ in 0..self.rounds {
            for (kind, rounds) in rounds.iter_mut().enumerate() {
                rounds.push(timed(|| (0..self.turns).for_each(|_| turn(kind))));
            }
        }
        rounds.map(|mut rounds| {
            rounds.sort_unstable();
            rounds[rounds.len() / 2].as_nanos() as f64 / f64::from(self.turns)
        })
    }
}

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark reads a clock")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}

fn limits() -> Limits {
    let many = 10_000_000.try_into().unwrap();
    let class = ClassLimits { max_held: many, max_held_per_tenant: many, max_wait: Duration::MAX };
    Limits {
        requests: Some(class),
        tokens: Some(class),
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

    fn enqueue(&mut self, number: usize) -> Ticket {
        let request = Request {
            tenant: tenant(number),
            weight: weight(number, self.weights),
            demands: &[Demand::request(GATE)],
            levels: &[],
            arrived: self.now(),
            deadline: self.now() + Duration::from_secs(5),
        };
        black_box(self.queue.enqueue(request, self.now()).unwrap()).ticket
    }

    fn ask_again(&self, ticket: Ticket) {
        black_box(self.queue.estimate(ticket, self.now()).unwrap());
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

/// What a turn takes, and what of that the estimate.
struct Turn {
    whole: f64,
    estimate: f64,
}

impl Turn {
    fn new([whole, with_another]: [f64; 2]) -> Self {
        Self { whole, estimate: with_another - whole }
    }

    fn rest(&self) -> f64 {
        self.whole - self.estimate
    }
}

/// Enqueue, pick, settle; every lane always has somebody waiting.
fn backlogged(tenants: usize, weights: usize, effort: Effort) -> Turn {
    let mut bench = Bench::new(tenants, weights, 2);
    Turn::new(effort.medians(|kind| {
        let served = bench.serve();
        let newcomer = bench.enqueue(served);
        if kind == 1 {
            bench.ask_again(newcomer);
        }
    }))
}

/// Enqueue, pick, settle; each lane empties at its turn, and comes back last.
fn one_each(tenants: usize, weights: usize, effort: Effort) -> Turn {
    let mut bench = Bench::new(tenants, weights, 1);
    let mut away = bench.serve();
    Turn::new(effort.medians(|kind| {
        let served = bench.serve();
        let newcomer = bench.enqueue(away);
        if kind == 1 {
            bench.ask_again(newcomer);
        }
        away = served;
    }))
}

/// A refusal for a full lane: its checks, and its estimate.
fn refusal(tenants: usize, weights: usize, effort: Effort) -> f64 {
    let mut bench = Bench::new(tenants, weights, 2);
    // Some history, so that there are arrivals and lags to reckon with.
    for _ in 0..tenants.min(10_000) {
        let served = bench.serve();
        bench.enqueue(served);
    }
    let one = ClassLimits { max_held_per_tenant: 1.try_into().unwrap(), ..ClassLimits::default() };
    let full = Limits { requests: Some(one), ..limits() };
    bench.queue.reconfigure(full, |_| None, bench.now());
    let mut number = 0;
    let [each] = effort.medians(|_| {
        number = (number + 7919) % tenants;
        let request = Request {
            tenant: tenant(number),
            weight: weight(number, weights),
            demands: &[Demand::request(GATE)],
            levels: &[],
            arrived: bench.now(),
            deadline: bench.now() + Duration::from_secs(5),
        };
        black_box(bench.queue.enqueue(request, bench.now()).unwrap_err());
    });
    each
}

/// The order by the book, in floats and without a queue: it looks at every tenant.
fn naive(tenants: usize, weights: usize, effort: Effort) -> f64 {
    let mut lags = vec![0.0_f64; tenants];
    let total: f64 = (0..tenants).map(|number| f64::from(weight(number, weights).get())).sum();
    let few = |turns: u32| turns.min(2_000_000 / u32::try_from(tenants).unwrap()).max(1);
    let rounds = if tenants < 10_000 { effort.rounds } else { effort.rounds.min(11) };
    let effort = Effort { warm_up: few(effort.warm_up), rounds, turns: few(effort.turns) };
    let [each] = effort.medians(|_| {
        let mut best = 0;
        for at in 0..lags.len() {
            lags[at] += f64::from(weight(at, weights).get()) / total;
            if lags[at] > lags[best] {
                best = at;
            }
        }
        lags[best] -= 1.0;
        black_box(best);
    });
    each
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

/// A line of the processor's cache, and which comes after it.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    next: usize,
}

/// Nanoseconds of a read of memory that has to wait for the one before, spread over as much as 100,000 tenants take.
fn memory_read(effort: Effort) -> f64 {
    const LINES: usize = 1 << 20;
    let mut lines: Vec<Line> = (0..LINES).map(|next| Line { next }).collect();
    // Sattolo's shuffle (1986): one cycle through them all, in no order that a processor could foresee.
    let mut state = 1_u64;
    for at in (1..LINES).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap() % at;
        (lines[at].next, lines[other].next) = (lines[other].next, lines[at].next);
    }
    let mut at = 0;
    let [each] = effort.medians(|_| at = lines[at].next);
    black_box(at);
    each
}

fn main() {
    let effort = Effort::told();
    memory();
    println!("a read of memory: {:.0} ns", memory_read(effort));
    println!("nanoseconds a turn (enqueue, pick, settle), medians of {} rounds", effort.rounds);
    println!("                     | every lane has a backlog    | each turn empties a lane    |         |");
    println!(
        "  tenants    weights |   all = estimate + the rest |   all = estimate + the rest | refusal | naive pick"
    );
    let mut verdicts = Vec::new();
    for (weights, bar) in BARS {
        for tenants in [10, 1000, 100_000] {
            let (full, empty) = (backlogged(tenants, weights, effort), one_each(tenants, weights, effort));
            println!(
                "{tenants:>9} {weights:>10} | {:>5.0} {:>10.0} {:>10.0} | {:>5.0} {:>10.0} {:>10.0} | {:>7.0} | {:>10.0}",
                full.whole,
                full.estimate,
                full.rest(),
                empty.whole,
                empty.estimate,
                empty.rest(),
                refusal(tenants, weights, effort),
                naive(tenants, weights, effort),
            );
            if tenants == 100_000 {
                verdicts.push((weights, "every lane has a backlog", full.rest(), bar));
                verdicts.push((weights, "each turn empties a lane", empty.rest(), bar));
            }
        }
    }
    println!("a read of memory: {:.0} ns\n", memory_read(effort));
    if effort.rounds == 1 {
        return;
    }
    for (weights, lanes, rest, bar) in verdicts {
        let verdict = if rest <= bar { "PASS" } else { "MISS" };
        println!(
            "{verdict}  a turn without its estimate, {lanes}, {weights:>3} weights: {rest:.0} ns (bar: {bar:.0})"
        );
    }
}
