//! The bare script on one connection that all share, beside pools that lend each request one of theirs.

use std::sync::Arc;

use deadpool_redis::{Manager, Pool};
use redis::{AsyncConnectionConfig, Value};

use crate::bare::{Bare, Request, is_granted, ready};
use crate::turn::{Side, TURNS, Turn, middle, middle_of_pairs, turn};

/// How many connections the pools have.
const SIZES: [usize; 2] = [8, 32];

pub(crate) const HEADER: &str =
    "keys tasks | shared/s  pool-8/s        pool-32/s        | shared p50  pool-8 p50  pool-32 p50";

/// A pool as it is used everywhere else: a connection for each request, and back.
#[derive(Clone)]
struct Pooled {
    pool: Pool,
    requests: Arc<Vec<Request>>,
}

impl Pooled {
    fn new(url: &str, connections: usize, requests: &Arc<Vec<Request>>) -> Self {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let manager = Manager::new_with_config(url, config).unwrap();
        let pool = Pool::builder(manager).max_size(connections).build().unwrap();
        Self { pool, requests: Arc::clone(requests) }
    }
}

impl Side for Pooled {
    async fn ask(&self, identity: usize) {
        let request = &self.requests[identity];
        let mut connection = self.pool.get().await.unwrap();
        let answer: Value = request.command().query_async(&mut connection).await.unwrap();
        assert!(is_granted(&answer));
    }
}

/// Compares the shared connection with the pools: one line of a table.
pub(crate) async fn compare(url: &str, shared: &Bare, keys: u8, tasks: u64) {
    let requests = ready(keys);
    let shared = shared.asked(keys);
    let pools = SIZES.map(|size| Pooled::new(url, size, &requests));
    let (mut on_shared, mut on_pools) = (Vec::new(), SIZES.map(|_| Vec::new()));
    for _ in 0..TURNS {
        on_shared.push(turn(tasks, &shared).await);
        for (pool, turns) in pools.iter().zip(&mut on_pools) {
            turns.push(turn(tasks, pool).await);
        }
    }
    let per_second = |turns: &[Turn]| middle(turns.iter().map(|turn| turn.per_second));
    let p50 = |turns: &[Turn]| middle(turns.iter().map(|turn| turn.p50_micros));
    let share = |turns: &[Turn]| {
        100.0 * middle_of_pairs(turns, &on_shared, |pool, shared| pool.per_second / shared.per_second)
    };
    let [few, many] = &on_pools;
    println!(
        "{keys:4} {tasks:5} | {:8.0} {:8.0} ({:3.0} %) {:8.0} ({:3.0} %) | {:7.1} us  {:8.1} us  {:9.1} us",
        per_second(&on_shared),
        per_second(few),
        share(few),
        per_second(many),
        share(many),
        p50(&on_shared),
        p50(few),
        p50(many),
    );
}
