//! The simplest thing that can be called a store.

use std::collections::BTreeMap;

use crate::bucket::Bucket;
use crate::decision::{self, PerCharge};
use crate::{Balances, BucketKey, Charge, Decision, Quota, Settlement, Timestamp};

/// Buckets in a plain map, never forgotten, and the pure arithmetic on them: what stores are compared with.
#[derive(Clone, Debug, Default)]
pub struct Model {
    buckets: BTreeMap<BucketKey, Bucket>,
}

impl Model {
    /// A model in which every bucket is full.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What [`Store::take`](crate::Store::take) must answer at `now`.
    pub fn take(&mut self, charges: &[Charge], now: Timestamp) -> Decision {
        let totals = match decision::totals(charges) {
            Ok(totals) => totals,
            Err(impossible) => return Decision::Impossible(impossible),
        };
        let observed = self.observe(charges.iter().map(|charge| (charge.key, charge.quota)), now);
        let decision = Decision::judge(now, observed, |index| totals[index]);
        if let Decision::Granted(granted) = &decision {
            let keys = charges.iter().map(|charge| charge.key);
            self.buckets.extend(keys.zip(granted.balances().buckets().iter().copied()));
        }
        decision
    }

    /// What [`Store::peek`](crate::Store::peek) must answer at `now`.
    pub fn peek(&mut self, charges: &[Charge], now: Timestamp) -> Decision {
        let totals = match decision::totals(charges) {
            Ok(totals) => totals,
            Err(impossible) => return Decision::Impossible(impossible),
        };
        let observed = self.observe(charges.iter().map(|charge| (charge.key, charge.quota)), now);
        Decision::foresee(now, observed, |index| totals[index])
    }

    /// What [`Store::settle`](crate::Store::settle) must answer at `now`.
    pub fn settle(&mut self, settlements: &[Settlement], now: Timestamp) -> Balances {
        let observed = self.observe(settlements.iter().map(|one| (one.key, one.quota)), now);
        let sum_for =
            |key| settlements.iter().filter(|one| one.key == key).map(|one| i128::from(one.amount)).sum();
        let settled: PerCharge<Bucket> = observed
            .iter()
            .zip(settlements)
            .map(|(bucket, one)| bucket.settle_sum(sum_for(one.key)))
            .collect();
        self.buckets.extend(settlements.iter().map(|one| one.key).zip(settled.iter().copied()));
        Balances::new(now, settled)
    }

    /// Every item's bucket as it stands. A quota that has changed is recorded, nothing else is.
    fn observe(
        &mut self,
        items: impl Iterator<Item = (BucketKey, Quota)> + Clone,
        now: Timestamp,
    ) -> PerCharge<Bucket> {
        let mut observed = PerCharge::new();
        for (key, own) in items.clone() {
            let quota = items.clone().find(|(other, _)| *other == key).map_or(own, |(_, leading)| leading);
            let last = self.buckets.get_mut(&key);
            let bucket = Bucket::observe(last.as_deref().copied(), quota, now);
            if let Some(last) = last
                && last.quota() != quota
            {
                *last = bucket;
            }
            observed.push(bucket);
        }
        observed
    }
}
