//! The script against the pure arithmetic, at the ends of what is possible and with a clock that jumps about.
//!
//! The store forgets a bucket when it is written full, and so does the oracle here; nothing else is left out.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlane_limiter::{
    Balance, Bucket, BucketKey, Charge, Decision, ManualClock, Quota, Settlement, Store, Timestamp,
};
use fairlane_redis_servers::Server;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{key, store_at};

/// What a test does next.
#[derive(Clone, Debug)]
enum Step {
    Pass(Duration),
    /// Sets the clock back.
    Back(Duration),
    Take(Vec<(u8, Quota, u64)>),
    Peek(Vec<(u8, Quota, u64)>),
    Settle(Vec<(u8, Quota, i64)>),
}

/// Numbers of all sizes up to a largest, and often a largest itself.
fn sized(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..=most.ilog2()).prop_flat_map(move |bits| 0..=(most >> bits)),
        1 => Just(most),
        1 => 0..=2_u64.min(most),
    ]
}

fn quota() -> impl Strategy<Value = Quota> {
    let refill = prop_oneof![
        sized(Quota::MAX_REFILL_PER_DAY).prop_map(|refill| refill.max(1)),
        Just(1),
        Just(5_000_001),
        // No factor in common with a day, above and below one unit per microsecond.
        Just(86_399_999_999),
        Just(86_400_000_001),
        Just(Quota::MAX_REFILL_PER_DAY - 1),
    ];
    let capacity = sized(Quota::MAX_CAPACITY).prop_map(|capacity| capacity.max(1));
    (refill, capacity)
        .prop_map(|(refill, capacity)| Quota::per_day(refill).unwrap().with_capacity(capacity).unwrap())
}

fn step(quotas: Vec<Quota>) -> impl Strategy<Value = Step> {
    let quota = prop_oneof![6 => Just(0_usize), 1 => 1..quotas.len()].prop_map(move |nth| quotas[nth]);
    let charge = (0..3_u8, quota.clone()).prop_flat_map(|(digest, quota)| {
        let cost = prop_oneof![
            sized(quota.capacity()),
            sized(quota.capacity()).prop_map(move |few| quota.capacity() - few)
        ];
        (Just(digest), Just(quota), cost)
    });
    let settlement = (0..3_u8, quota, sized(u64::MAX >> 1), any::<bool>(), 0..4_u32).prop_map(
        |(digest, quota, size, gives, large)| {
            let size = if large == 0 { size } else { size % (quota.capacity() + 1) };
            let amount = i64::try_from(size).unwrap();
            (digest, quota, if gives { amount } else { -amount })
        },
    );
    let charges = prop::collection::vec(charge, 1..5);
    prop_oneof![
        3 => sized(200_000_000_000_000).prop_map(|micros| Step::Pass(Duration::from_micros(micros))),
        1 => sized(100_000_000_000).prop_map(|micros| Step::Back(Duration::from_micros(micros))),
        6 => charges.clone().prop_map(Step::Take),
        1 => charges.prop_map(Step::Peek),
        2 => prop::collection::vec(settlement, 1..4).prop_map(Step::Settle),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(quota(), 2..4).prop_flat_map(|quotas| prop::collection::vec(step(quotas), 1..24))
}

/// What an answer says, whatever it is made of.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    granted: bool,
    balances: Vec<Balance>,
    waits: Vec<(usize, Duration)>,
}

fn told(decision: &Decision) -> Option<Told> {
    let (granted, balances, waits) = match decision {
        Decision::Granted(granted) => (true, granted.balances(), Vec::new()),
        Decision::Denied(denied) => {
            let waits = denied.refusals().map(|refusal| (refusal.index, refusal.retry_after)).collect();
            (false, denied.balances(), waits)
        }
        Decision::Impossible(_) => return None,
    };
    Some(Told { granted, balances: balances.iter().collect(), waits })
}

/// Buckets in a map, with nothing but their own arithmetic.
#[derive(Default)]
struct Oracle(BTreeMap<BucketKey, Bucket>);

impl Oracle {
    fn decide(&mut self, charges: &[Charge], look: bool, now: Timestamp) -> Option<Told> {
        let leads: Vec<_> =
            charges.iter().map(|one| *charges.iter().find(|lead| lead.key == one.key).unwrap()).collect();
        let total = |key| charges.iter().filter(|one| one.key == key).map(|one| one.cost).sum::<u64>();
        if leads.iter().any(|lead| total(lead.key) > lead.quota.capacity()) {
            return None;
        }
        let buckets: Vec<_> = leads.iter().map(|lead| self.observe(lead.key, lead.quota, now)).collect();
        let refused = |nth: &usize| !buckets[*nth].holds(total(leads[*nth].key));
        let waits: Vec<_> = (0..leads.len())
            .filter(refused)
            .map(|nth| (nth, buckets[nth].wait_for(total(leads[nth].key), now)))
            .collect();
        let granted = waits.is_empty();
        let mut after = buckets;
        if granted && !look {
            for (bucket, lead) in after.iter_mut().zip(&leads) {
                *bucket = bucket.take(total(lead.key));
                self.write(lead.key, *bucket, now);
            }
        }
        Some(Told { granted, balances: after.iter().map(|bucket| bucket.balance(now)).collect(), waits })
    }

    fn settle(&mut self, settlements: &[Settlement], now: Timestamp) -> Vec<Balance> {
        let mut balances = BTreeMap::new();
        for one in settlements {
            if balances.contains_key(&one.key) {
                continue;
            }
            let sum: i128 = settlements
                .iter()
                .filter(|other| other.key == one.key)
                .map(|other| i128::from(other.amount))
                .sum();
            let mut bucket = self.observe(one.key, one.quota, now);
            // The sum may be larger than one settlement can be: in two halves it is not.
            let half = i64::try_from((sum / 2).clamp(i64::MIN.into(), i64::MAX.into())).unwrap();
            let rest = i64::try_from((sum - sum / 2).clamp(i64::MIN.into(), i64::MAX.into())).unwrap();
            bucket = bucket.settle(half).settle(rest);
            self.write(one.key, bucket, now);
            balances.insert(one.key, bucket.balance(now));
        }
        settlements.iter().map(|one| balances[&one.key]).collect()
    }

    /// The bucket as it stands; a quota that has changed is written.
    fn observe(&mut self, key: BucketKey, quota: Quota, now: Timestamp) -> Bucket {
        let last = self.0.get(&key).copied();
        let bucket = Bucket::observe(last, quota, now);
        if last.is_some_and(|last| last.quota() != quota) {
            self.write(key, bucket, now);
        }
        bucket
    }

    fn write(&mut self, key: BucketKey, bucket: Bucket, now: Timestamp) {
        if bucket.full_at() <= now {
            self.0.remove(&key);
        } else {
            self.0.insert(key, bucket);
        }
    }
}

#[test]
fn the_script_agrees_with_the_arithmetic_at_the_ends_of_what_is_possible() {
    let cases = std::env::var("FAIRLANE_REDIS_CASES").map_or(250, |cases| cases.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::start());
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps(), |steps| runtime.block_on(follow(&server, steps)));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

async fn follow(server: &Server, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut now = Timestamp::from_micros(1_700_000_000_123_456);
    let clock = ManualClock::new(now);
    let store = store_at(server, &clock);
    let mut oracle = Oracle::default();
    for step in steps {
        match step {
            Step::Pass(by) => now = now.saturating_add(by),
            Step::Back(by) => {
                let micros = u64::try_from(by.as_micros()).unwrap();
                now = Timestamp::from_micros(now.as_micros() - micros);
            }
            Step::Take(charges) => {
                let charges = named(charges);
                let decision = store.take(&charges).await.unwrap();
                prop_assert_eq!(told(&decision), oracle.decide(&charges, false, now), "take {:?}", charges);
            }
            Step::Peek(charges) => {
                let charges = named(charges);
                let decision = store.peek(&charges).await.unwrap();
                prop_assert_eq!(told(&decision), oracle.decide(&charges, true, now), "peek {:?}", charges);
            }
            Step::Settle(settlements) => {
                let settlements: Vec<_> = settlements
                    .into_iter()
                    .map(|(digest, quota, amount)| Settlement::new(key(0, digest.into()), quota, amount))
                    .collect();
                let balances = store.settle(&settlements).await.unwrap();
                let balances: Vec<_> = balances.iter().collect();
                prop_assert_eq!(balances, oracle.settle(&settlements, now), "settle {:?}", settlements);
            }
        }
        clock.set(now);
    }
    Ok(())
}

fn named(charges: Vec<(u8, Quota, u64)>) -> Vec<Charge> {
    charges.into_iter().map(|(digest, quota, cost)| Charge::new(key(0, digest.into()), quota, cost)).collect()
}
