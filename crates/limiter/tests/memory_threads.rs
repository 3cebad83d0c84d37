//! Many threads on one memory store.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test fails by panicking")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fairlane_limiter::{
    BucketKey, Charge, Decision, Dimension, ManualClock, MemoryLimits, MemoryStore, Quota, Settlement,
    SystemClock, Timestamp,
};

const THREADS: u64 = 4;

fn key(dimension: u8, digest: u64) -> BucketKey {
    BucketKey::new(Dimension::new(dimension), digest.into())
}

fn quota(capacity: u64) -> Quota {
    Quota::per_day(1).unwrap().with_capacity(capacity).unwrap()
}

/// A store whose clock stands still, so that nothing flows in.
fn still_store(max_buckets: usize) -> MemoryStore<ManualClock> {
    let limits = MemoryLimits { max_buckets, ..MemoryLimits::default() };
    MemoryStore::new(limits, ManualClock::new(Timestamp::from_micros(1_000)))
}

/// Runs `work` on all threads at once and adds up what they return.
fn together(work: impl Fn(u64) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(thread)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

fn left(store: &MemoryStore<ManualClock>, key: BucketKey, quota: Quota) -> i64 {
    store.settle_now(&[Settlement::new(key, quota, 0)]).get(0).unwrap().remaining
}

#[test]
fn threads_on_one_budget_admit_exactly_the_budget() {
    for pinned in [false, true] {
        let store = still_store(1_000);
        let shared = if pinned { store.pin(key(0, 1)) } else { key(0, 1) };
        let granted = together(|_| {
            (0..5_000)
                .filter(|_| store.take_now(&[Charge::new(shared, quota(7_777), 1)]).is_granted())
                .count() as u64
        });
        assert_eq!(granted, 7_777, "pinned: {pinned}");
        assert_eq!(left(&store, shared, quota(7_777)), 0);
    }
}

/// Every taker that is refused is refused by a bucket of its own, never by a bucket that has room for all: that
/// could only be a charge that another taker has made and is about to give back.
#[test]
fn nobody_is_refused_by_a_half_taken_charge() {
    let store = still_store(10_000);
    let pinned = store.pin(key(0, 0));
    // Room for one unit more than all threads together hold granted at any time.
    let tight = quota(THREADS);
    let wrong = together(|thread| {
        let own = Charge::new(key(9, thread), quota(1), 1);
        assert!(store.take_now(&[own]).is_granted());
        let mut wrong = 0;
        for round in 0..3_000_u64 {
            // Refused by its own empty bucket, after passing (or before) three shared ones that just suffice.
            let mut charges =
                vec![Charge::new(pinned, tight, THREADS), Charge::new(key(1, 0), tight, THREADS), own];
            charges.push(Charge::new(key(2, 0), tight, THREADS));
            charges.rotate_left((round % 4) as usize);
            let Decision::Denied(denied) = store.take_now(&charges) else {
                panic!("its own bucket is empty")
            };
            let by: Vec<_> = denied.refusals().map(|refusal| charges[refusal.index].key).collect();
            wrong += u64::from(by != [own.key]);
            wrong +=
                u64::from(denied.balances().iter().filter(|balance| balance.remaining == 4).count() != 3);
        }
        wrong
    });
    assert_eq!(wrong, 0, "refusals by, or sights of, a bucket that nobody has taken from");
}

/// Two buckets that are always charged together are always seen with the same content.
#[test]
fn decisions_are_seen_whole() {
    let store = still_store(10_000);
    let (one, other) = (key(0, 1), store.pin(key(1, 1)));
    let room = quota(1_000_000);
    let torn = together(|thread| {
        let mut torn = 0;
        for round in 0..4_000_u64 {
            let balances = if thread % 2 == 0 {
                let cost = round % 7;
                let decision =
                    store.take_now(&[Charge::new(other, room, cost), Charge::new(one, room, cost)]);
                decision.granted().unwrap().balances().clone()
            } else {
                let decision = store.peek_now(&[Charge::new(one, room, 0), Charge::new(other, room, 0)]);
                decision.granted().unwrap().balances().clone()
            };
            torn += u64::from(balances.get(0).unwrap().remaining != balances.get(1).unwrap().remaining);
        }
        torn
    });
    assert_eq!(torn, 0);
}

/// Many buckets in every order, taken and given back, with new ones made and full ones forgotten all the while.
/// A wrong order of locks would hang here, and a lost update would leave a bucket short.
#[test]
fn any_order_of_buckets_works_and_loses_nothing() {
    let store = still_store(300);
    let pinned: Vec<_> = (0..4).map(|number| store.pin(key(9, number))).collect();
    let room = quota(1_000_000);
    let takes = AtomicU64::new(0);
    together(|thread| {
        let mut random = thread + 1;
        for _ in 0..4_000 {
            let mut next = |below: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            let keys: Vec<_> = (0..next(12))
                .map(|_| if next(4) == 0 { pinned[next(4) as usize] } else { key(next(3) as u8, next(60)) })
                .collect();
            let charges: Vec<_> = keys.iter().map(|key| Charge::new(*key, room, 1)).collect();
            assert!(store.take_now(&charges).is_granted());
            takes.fetch_add(charges.len() as u64, Ordering::Relaxed);
            let back: Vec<_> = keys.iter().rev().map(|key| Settlement::new(*key, room, 1)).collect();
            store.settle_now(&back);
        }
        0
    });
    assert!(takes.into_inner() > 10_000);
    let keys = pinned
        .into_iter()
        .chain((0..3).flat_map(|dimension| (0..60).map(move |digest| key(dimension, digest))));
    for key in keys {
        assert_eq!(left(&store, key, room), 1_000_000, "{key:?}");
    }
    assert_eq!(store.overflowed(), 0, "there was room for all");
}

/// The real clock, read by threads that then meet in any order, admits no more than the time that has passed allows.
#[test]
fn the_real_clock_hands_out_nothing() {
    let clock = SystemClock::new();
    let store = MemoryStore::new(MemoryLimits::default(), clock);
    let quota = Quota::per_second(1_000_000).unwrap().with_capacity(1_000).unwrap();
    let before = fairlane_limiter::Clock::now(&clock);
    let granted = together(|_| {
        (0..20_000).filter(|_| store.take_now(&[Charge::new(key(0, 1), quota, 3)]).is_granted()).count()
            as u64
    });
    let micros = fairlane_limiter::Clock::now(&clock).as_micros() - before.as_micros();
    assert!(granted * 3 <= 1_000 + micros, "{granted} grants of 3 in {micros} us at 1 per us");
}
