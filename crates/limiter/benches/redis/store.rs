//! The store beside the bare script, and the store without a server.

use std::sync::Arc;
use std::time::Instant;

use fairlane_limiter::redis::RedisStore;
use fairlane_limiter::{Charge, Store};

use crate::bare::Bare;
use crate::charges;
use crate::turn::{IDENTITIES, Side, TURNS, Turn, middle, middle_of_pairs, turn};

pub(crate) const HEADER: &str =
    "keys tasks |   bare/s  store/s  of bare (best) |   bare p50  store p50      more | own CPU bare  store";

/// The store, and what it is asked.
#[derive(Clone)]
struct Asked {
    store: RedisStore,
    requests: Arc<Vec<Vec<Charge>>>,
}

impl Side for Asked {
    async fn ask(&self, identity: usize) {
        assert!(self.store.take(&self.requests[identity]).await.unwrap().is_granted());
    }
}

/// Compares the store with the bare script: one line of a table.
pub(crate) async fn compare(store: &RedisStore, bare: &Bare, keys: u8, tasks: u64) {
    let requests = (0..IDENTITIES).map(|identity| charges(keys, identity)).collect();
    let store = Asked { store: store.clone(), requests: Arc::new(requests) };
    let bare = bare.asked(keys);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        theirs.push(turn(tasks, &bare).await);
        ours.push(turn(tasks, &store).await);
    }
    let best = |turns: &[Turn]| turns.iter().map(|turn| turn.per_second).fold(0.0, f64::max);
    println!(
        "{keys:4} {tasks:5} | {:8.0} {:8.0} {:6.1} %  {:5.1} % | {:7.1} us {:7.1} us {:+6.1} us | {:6.2} us {:6.2} us",
        middle(theirs.iter().map(|turn| turn.per_second)),
        middle(ours.iter().map(|turn| turn.per_second)),
        100.0 * middle_of_pairs(&ours, &theirs, |ours, bare| ours.per_second / bare.per_second),
        100.0 * best(&ours) / best(&theirs),
        middle(theirs.iter().map(|turn| turn.p50_micros)),
        middle(ours.iter().map(|turn| turn.p50_micros)),
        middle_of_pairs(&ours, &theirs, |ours, bare| ours.p50_micros - bare.p50_micros),
        middle(theirs.iter().map(|turn| turn.cpu_micros)),
        middle(ours.iter().map(|turn| turn.cpu_micros)),
    );
}

/// What a call costs while the server is not asked.
pub(crate) async fn refuse(store: &RedisStore) {
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
