//! Turns: many tasks that send requests for a while, and how fast that went.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Turns that each side has, of which the middle is told.
pub(crate) const TURNS: usize = 15;

/// How long a turn takes.
const TURN: Duration = Duration::from_millis(400);

/// Identities that requests are spread over.
pub(crate) const IDENTITIES: u64 = 1_000;

/// What one turn came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) per_second: f64,
    pub(crate) p50_micros: f64,
    /// CPU time of this process for each request: what a busy machine changes least.
    pub(crate) cpu_micros: f64,
}

/// One of those that are compared.
pub(crate) trait Side: Clone + Send + Sync + 'static {
    /// Sends the request of one identity, and waits for its answer.
    fn ask(&self, identity: usize) -> impl Future<Output = ()> + Send;
}

/// As many tasks as are asked for, each with one request after the other.
pub(crate) async fn turn(tasks: u64, side: &impl Side) -> Turn {
    let asked = Arc::new(AtomicU64::new(0));
    let (begin, cpu) = (Instant::now(), cpu_time());
    let mut under_way = tokio::task::JoinSet::new();
    for _ in 0..tasks {
        let (side, asked) = (side.clone(), Arc::clone(&asked));
        under_way.spawn(async move {
            let mut times = Vec::new();
            while begin.elapsed() < TURN {
                let nth = asked.fetch_add(1, Ordering::Relaxed) % IDENTITIES;
                let sent = Instant::now();
                side.ask(usize::try_from(nth).unwrap()).await;
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

/// The middle of what turns came to.
pub(crate) fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The middle of how turns compare with those of another side. Side by side, so that a turn on a busy machine is
/// compared with its neighbour.
pub(crate) fn middle_of_pairs(ours: &[Turn], theirs: &[Turn], compare: impl Fn(&Turn, &Turn) -> f64) -> f64 {
    middle(ours.iter().zip(theirs).map(|(ours, theirs)| compare(ours, theirs)))
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
