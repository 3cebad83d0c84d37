//! Calls under way at the same time.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::Harness;
use crate::{BucketKey, Charge, Decision, Dimension, Quota, Settlement, Store};

const CALLS: u32 = 300;

pub(super) async fn run<H: Harness>(harness: &H) {
    exactly_the_budget_passes(harness).await;
    all_charges_or_none(harness).await;
    every_settlement_counts(harness).await;
}

fn bucket(dimension: u8, digest: u128) -> BucketKey {
    BucketKey::new(Dimension::new(dimension), digest)
}

fn quota(capacity: u64) -> Quota {
    // Slow enough for nothing to flow in while the calls are under way.
    Quota::per_day(1).and_then(|quota| quota.with_capacity(capacity)).expect("a valid quota")
}

/// Of more takers than a bucket has units, as many pass as it has.
async fn exactly_the_budget_passes<H: Harness>(harness: &H) {
    let store = harness.empty_store().await;
    let charges = [Charge::new(bucket(0, 1), quota(100), 1)];
    let granted = granted(&store, (0..CALLS).map(|_| charges.to_vec())).await;
    assert_eq!(granted, 100, "takers of a bucket of 100 that passed");
}

/// Takers that name their buckets in different orders, each with one bucket of its own that has room once.
async fn all_charges_or_none<H: Harness>(harness: &H) {
    let store = harness.empty_store().await;
    let shared = [bucket(0, 1), bucket(1, 1), bucket(2, 1)];
    let takers = (0..CALLS).map(|taker| {
        let own = Charge::new(bucket(3, u128::from(taker % 100)), quota(1), 1);
        let mut charges: Vec<_> = shared.iter().map(|key| Charge::new(*key, quota(1_000), 1)).collect();
        charges.push(own);
        charges.rotate_left(usize::try_from(taker % 4).unwrap_or(0));
        charges
    });
    // Every taker comes three times and has room once, so the shared buckets, with room for all, give 100 each.
    assert_eq!(granted(&store, takers).await, 100, "takers that passed");
    let left =
        store.peek(&shared.map(|key| Charge::new(key, quota(1_000), 0))).await.expect("the store answers");
    let left: Vec<_> =
        left.granted().expect("nothing is asked for").balances().iter().map(|b| b.remaining).collect();
    assert_eq!(left, [900, 900, 900], "what refused takers left alone");
}

async fn every_settlement_counts<H: Harness>(harness: &H) {
    let store = harness.empty_store().await;
    let key = bucket(0, 1);
    let taken = store.take(&[Charge::new(key, quota(1_000), 1_000)]).await.expect("the store answers");
    assert!(taken.is_granted(), "a full bucket is granted");
    let settlements =
        (0..CALLS).map(|n| [Settlement::new(key, quota(1_000), if n % 3 == 0 { -1 } else { 2 })]);
    let calls = settlements.map(|one| {
        let store = &store;
        async move { store.settle(&one).await.map(|_| ()) }
    });
    for outcome in all(calls).await {
        outcome.expect("the store answers");
    }
    let left = store.peek(&[Charge::new(key, quota(1_000), 0)]).await.expect("the store answers");
    let left = left.granted().and_then(|granted| granted.balances().get(0));
    assert_eq!(left.map(|balance| balance.remaining), Some(300), "100 times -1 and 200 times 2");
}

async fn granted<S: Store>(store: &S, takers: impl Iterator<Item = Vec<Charge>>) -> usize {
    let calls = takers.map(|charges| async move { store.take(&charges).await });
    let decisions = all(calls).await.into_iter().map(|decision| decision.expect("the store answers"));
    decisions.filter(Decision::is_granted).count()
}

/// Waits for all futures, polling them together.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut done = Vec::new();
    poll_fn(|context| {
        waiting.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(output) => {
                done.push(output);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done
}
