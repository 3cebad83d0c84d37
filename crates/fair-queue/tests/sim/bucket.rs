//! A real token bucket, and a store of them that takes all or nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlane_fair_queue::{Demand, GateKey, GateLevel, Timestamp};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Exact: content is in units times nanoseconds of the period.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) capacity: u64,
    pub(crate) refill: u64,
    pub(crate) period: u64,
    content: i128,
    at: u64,
    /// What flowed over because it was full, in the same parts of units.
    spilt: i128,
}

impl Bucket {
    /// Starts full.
    pub(crate) fn new(refill: u64, period: u64, capacity: u64) -> Self {
        let content = i128::from(capacity) * i128::from(period);
        Self { capacity, refill, period, content, at: 0, spilt: 0 }
    }

    pub(crate) fn per_second(refill: u64) -> Self {
        Self::new(refill, SECOND, refill)
    }

    fn flow(&mut self, now: u64) {
        let gained = i128::from(self.refill) * i128::from(now.saturating_sub(self.at));
        let full = i128::from(self.capacity) * i128::from(self.period);
        self.spilt += (self.content + gained - full).max(0);
        self.content = (self.content + gained).min(full);
        self.at = self.at.max(now);
    }

    pub(crate) fn has(&mut self, cost: u64, now: u64) -> bool {
        self.flow(now);
        self.content >= i128::from(cost) * i128::from(self.period)
    }

    /// Moves the content by a signed amount, never above the capacity.
    pub(crate) fn settle(&mut self, amount: i64, now: u64) {
        self.flow(now);
        self.content += i128::from(amount) * i128::from(self.period);
        self.flow(now);
    }

    /// Units that have flowed over so far.
    pub(crate) fn spilt(&mut self, now: u64) -> u64 {
        self.flow(now);
        u64::try_from(self.spilt / i128::from(self.period)).unwrap()
    }

    pub(crate) fn level(&mut self, gate: GateKey, now: u64) -> GateLevel {
        self.flow(now);
        let period = i128::from(self.period);
        let missing = period - self.content.rem_euclid(period);
        let until_next = u64::try_from(missing).unwrap().div_ceil(self.refill);
        GateLevel {
            gate,
            level: i64::try_from(self.content.div_euclid(period)).unwrap(),
            until_next: Duration::from_nanos(until_next),
            capacity: self.capacity,
            refill: self.refill,
            period: Duration::from_nanos(self.period),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) buckets: BTreeMap<GateKey, Bucket>,
}

impl Store {
    pub(crate) fn levels(&mut self, demands: &[Demand], now: u64) -> Vec<GateLevel> {
        let told =
            |demand: &Demand| self.buckets.get_mut(&demand.gate).map(|bucket| bucket.level(demand.gate, now));
        demands.iter().filter_map(told).collect()
    }

    /// All or nothing, and what the buckets hold afterwards.
    pub(crate) fn take(&mut self, demands: &[Demand], now: u64) -> (bool, Vec<GateLevel>) {
        let granted = demands.iter().all(|demand| match self.buckets.get_mut(&demand.gate) {
            Some(bucket) => bucket.has(demand.cost, now),
            None => true,
        });
        if granted {
            for demand in demands {
                if let Some(bucket) = self.buckets.get_mut(&demand.gate) {
                    bucket.settle(-i64::try_from(demand.cost).unwrap(), now);
                }
            }
        }
        (granted, self.levels(demands, now))
    }
}

pub(crate) fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}
