//! The store passes the suite for all stores.

use std::time::Duration;

use fairlane_limiter::conformance::{self, Harness};
use fairlane_limiter::redis::RedisStore;
use fairlane_limiter::{Clock, ManualClock, Timestamp};
use fairlane_redis_servers::Server;

use crate::support::{clock, store_at};

struct OnServer {
    server: Server,
    clock: ManualClock,
}

impl Harness for OnServer {
    type Store = RedisStore;

    async fn empty_store(&self) -> RedisStore {
        store_at(&self.server, &self.clock)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn step_back(&self, by: Duration) -> bool {
        let micros = self.clock.now().as_micros() - u64::try_from(by.as_micros()).unwrap();
        self.clock.set(Timestamp::from_micros(micros));
        true
    }
}

#[tokio::test]
async fn the_store_conforms() {
    let harness = OnServer { server: Server::start().await, clock: clock() };
    conformance::run(&harness).await;
}

#[tokio::test]
async fn the_store_agrees_with_the_model_for_long() {
    let calls = std::env::var("FAIRLANE_CONFORMANCE_CALLS").map_or(4_000, |calls| calls.parse().unwrap());
    let harness = OnServer { server: Server::start().await, clock: clock() };
    conformance::run_random(&harness, calls).await;
}
