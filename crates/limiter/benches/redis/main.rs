//! What a decision costs over the bare script, on a server of its own.
//!
//! Both sides send the same requests to the same server over one connection of the same client, and take turns, so
//! that whatever else the machine does hits both. The bare side sends `EVALSHA` with the arguments ready-made and looks
//! at nothing but the first letter of the answer.
//!
//! ```console
//! $ cargo bench -p fairlane-limiter --features redis --bench redis
//! $ cargo bench -p fairlane-limiter --features redis --bench redis -- 5 256    # five keys, 256 tasks
//! ```
#![expect(clippy::print_stdout, reason = "a benchmark tells what it has measured")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails says so by a panic")]
#![expect(clippy::disallowed_methods, reason = "time is what is measured")]

mod bare;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane_limiter::redis::{Mode, RedisSettings, RedisStore};
use fairlane_limiter::{BucketKey, Charge, Dimension, Quota, Store};
use fairlane_redis_servers::Server;

use self::bare::Bare;

/// Turns that each side has, of which the best and the middle are told.
const TURNS: usize = 15;

/// How long a turn takes.
const TURN: Duration = Duration::from_millis(400);

/// Identities that requests are spread over.
const IDENTITIES: u64 = 1_000;

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let wanted = if let [keys, tasks] = *numbers { Some((u8::try_from(keys).unwrap(), tasks)) } else { None };
    // As a program would have it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start().await;
        let mut settings = RedisSettings::parse(&server.url(), Mode::Standalone).unwrap();
        settings.timeout = Duration::from_secs(5);
        let store = RedisStore::new(settings).unwrap();
        let bare = Bare::connect(&server.url()).await;
        println!(
            "keys tasks |   bare/s  store/s  of bare (best) |   bare p50  store p50      more | own CPU bare  store"
        );
        for keys in [1, 5] {
            for tasks in [1, 32, 256] {
                if wanted.is_none_or(|wanted| wanted == (keys, tasks)) {
                    compare(&store, &bare, keys, tasks).await;
                }
            }
        }
        server.stop();
        refuse(&store).await;
    });
}

/// What a call costs while the server is not asked.
async fn refuse(store: &RedisStore) {
    let charges = charges(1, 1);
    store.health().wait_for(|health| !health.up).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..100_000 {
        let begin = Instant::now();
        store.take(&charges).await.unwrap_err();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let at = |nth: usize| times[nth].as_secs_f64() * 1e6;
    println!(
        "without a server, a call fails in {:.2} us (p50), {:.2} us (p99), {:.1} us (the slowest of 100,000)",
        at(50_000),
        at(99_000),
        at(99_999)
    );
}

/// The charges of one request: some of everybody's, some of one identity's.
fn charges(keys: u8, identity: u64) -> Vec<Charge> {
    let quota = Quota::per_second(1_000_000).and_then(|quota| quota.with_capacity(1_000_000_000)).unwrap();
    let digest = |dimension| if dimension % 2 == 0 { u128::from(identity) } else { 0 };
    (0..keys).map(|one| Charge::new(BucketKey::new(Dimension::new(one), digest(one)), quota, 1)).collect()
}

/// What one turn came to.
#[derive(Clone, Copy, Debug)]
struct Turn {
    per_second: f64,
    p50_micros: f64,
    /// CPU time of this process for each request: what a busy machine changes least.
    cpu_micros: f64,
}

async fn compare(store: &RedisStore, bare: &Bare, keys: u8, tasks: u64) {
    let requests: Arc<Vec<_>> = Arc::new((0..IDENTITIES).map(|identity| charges(keys, identity)).collect());
    let ready: Arc<Vec<_>> = Arc::new(requests.iter().map(|charges| Bare::request(charges)).collect());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let bare = bare.clone();
        let ready = Arc::clone(&ready);
        theirs.push(
            turn(tasks, move |nth| {
                let (bare, ready) = (bare.clone(), Arc::clone(&ready));
                async move { bare.ask(&ready[nth]).await }
            })
            .await,
        );
        let store = store.clone();
        let requests = Arc::clone(&requests);
        ours.push(
            turn(tasks, move |nth| {
                let (store, requests) = (store.clone(), Arc::clone(&requests));
                async move { assert!(store.take(&requests[nth]).await.unwrap().is_granted()) }
            })
            .await,
        );
    }
    // Side by side, so that a turn on a busy machine is compared with its neighbour.
    let ratios = theirs.iter().zip(&ours).map(|(bare, ours)| ours.per_second / bare.per_second);
    let more = theirs.iter().zip(&ours).map(|(bare, ours)| ours.p50_micros - bare.p50_micros);
    let best = |turns: &[Turn]| turns.iter().map(|turn| turn.per_second).fold(0.0, f64::max);
    println!(
        "{keys:4} {tasks:5} | {:8.0} {:8.0} {:6.1} %  {:5.1} % | {:7.1} us {:7.1} us {:+6.1} us | {:6.2} us {:6.2} us",
        middle(theirs.iter().map(|turn| turn.per_second)),
        middle(ours.iter().map(|turn| turn.per_second)),
        100.0 * middle(ratios),
        100.0 * best(&ours) / best(&theirs),
        middle(theirs.iter().map(|turn| turn.p50_micros)),
        middle(ours.iter().map(|turn| turn.p50_micros)),
        middle(more),
        middle(theirs.iter().map(|turn| turn.cpu_micros)),
        middle(ours.iter().map(|turn| turn.cpu_micros)),
    );
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// As many tasks as are asked for, each with one request after the other.
async fn turn<F, Asked>(tasks: u64, ask: F) -> Turn
where
    F: Fn(usize) -> Asked + Clone + Send + 'static,
    Asked: Future<Output = ()> + Send,
{
    let asked = Arc::new(AtomicU64::new(0));
    let (begin, cpu) = (Instant::now(), cpu_time());
    let mut under_way = tokio::task::JoinSet::new();
    for _ in 0..tasks {
        let (ask, asked) = (ask.clone(), Arc::clone(&asked));
        under_way.spawn(async move {
            let mut times = Vec::new();
            while begin.elapsed() < TURN {
                let nth = asked.fetch_add(1, Ordering::Relaxed) % IDENTITIES;
                let sent = Instant::now();
                ask(usize::try_from(nth).unwrap()).await;
                times.push(sent.elapsed());
            }
            times
        });
    }
    let mut times: Vec<_> = under_way.join_all().await.concat();
    let cpu = cpu_time() - cpu;
    let per_second = times.len() as f64 / begin.elapsed().as_secs_f64();
    let (nth, count) = (times.len() / 2, times.len() as f64);
    let (_, middle, _) = times.select_nth_unstable(nth);
    let cpu_micros = cpu.as_secs_f64() * 1e6 / count;
    Turn { per_second, p50_micros: middle.as_secs_f64() * 1e6, cpu_micros }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
