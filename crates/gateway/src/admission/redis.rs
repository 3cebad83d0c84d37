//! Redis as a remote store.

use fairlane_limiter::{Charge, Decision, RedisStore, Settlement, Store};

use super::{Reach, RemoteStore, SettleFuture, StoreFuture};

impl RemoteStore for RedisStore {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn is_up(&self) -> bool {
        Self::is_up(self)
    }

    fn reach(&self) -> Reach {
        let health = self.health();
        let health = health.borrow();
        let answering = health.nodes.iter().filter(|node| node.up).count();
        Reach { answering, known: health.nodes.len() }
    }

    fn is_up_for(&self, charges: &[Charge]) -> bool {
        Self::is_up_for(self, charges)
    }

    fn take<'a>(&'a self, charges: &'a [Charge]) -> StoreFuture<'a, Decision> {
        Box::pin(Store::take(self, charges))
    }

    fn peek<'a>(&'a self, charges: &'a [Charge]) -> StoreFuture<'a, Decision> {
        Box::pin(Store::peek(self, charges))
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> SettleFuture<'a> {
        Box::pin(self.settle_each(settlements))
    }

    fn lost(&self) -> u64 {
        self.stats().grants_lost
    }
}
