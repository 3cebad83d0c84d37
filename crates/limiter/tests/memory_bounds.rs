//! The memory store keeps its bounds, and what is in it.
#![expect(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a test fails by panicking")]

use std::time::Duration;

use fairlane_limiter::{
    BucketKey, Charge, Decision, Dimension, ManualClock, MemoryLimits, MemoryStore, Quota, Settlement,
    Timestamp,
};

const DAY: Duration = Duration::from_secs(86_400);

fn key(dimension: u8, digest: u64) -> BucketKey {
    BucketKey::new(Dimension::new(dimension), u128::from(digest) << 32)
}

fn store(max_buckets: usize) -> (MemoryStore<ManualClock>, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_micros(1_000_000));
    (MemoryStore::new(MemoryLimits { max_buckets, max_pinned: 8 }, clock.clone()), clock)
}

fn take(store: &MemoryStore<ManualClock>, key: BucketKey, quota: Quota) -> bool {
    store.take_now(&[Charge::new(key, quota, 1)]).is_granted()
}

fn one_a_day() -> Quota {
    Quota::per_day(1).unwrap()
}

/// As many never-seen identities as an attacker likes: what was there keeps its state, memory keeps its bound, and
/// whoever comes late shares the overflow.
#[test]
fn a_flood_resets_no_bucket_and_passes_no_bound() {
    let (store, clock) = store(20_000);
    let quota = one_a_day();
    for number in 0..20_000 {
        assert!(take(&store, key(0, number), quota), "identity {number} has one a day");
    }
    assert_eq!((store.len(), store.overflowed()), (20_000, 0));
    let allocated = store.stats().allocated_bytes;
    let shared = Quota::per_day(1).unwrap().with_capacity(5).unwrap();
    let granted = (0..200_000).filter(|number| take(&store, key(1, 1_000_000 + number), shared)).count();
    assert_eq!(granted, 5, "all strangers share one bucket");
    assert_eq!(store.len(), 20_000, "and make no other");
    assert_eq!((store.overflowed(), store.overflowed_in(Dimension::new(1))), (200_000, 200_000));
    assert_eq!(store.overflowed_in(Dimension::new(0)), 0);
    let grown = store.stats().allocated_bytes - allocated;
    assert!(grown <= 4_096, "{grown} bytes for the overflow bucket of one dimension");
    for number in 0..20_000 {
        assert!(!take(&store, key(0, number), quota), "identity {number} is not let in again");
    }
    assert!(take(&store, key(2, 0), quota), "the overflow of another dimension is another bucket");
    assert!(!take(&store, key(2, 1), quota), "with the same rules");

    // When they have filled up there is room, and everybody has a bucket of his own again.
    clock.advance(DAY);
    for number in 0..20_000 {
        assert!(take(&store, key(3, number), quota), "identity {number} after a day");
    }
    assert_eq!(store.len(), 20_000);
    assert_eq!(store.stats().forgotten, 20_000);
}

/// The same with a million buckets, and the price of one.
#[test]
fn a_million_buckets_are_kept_and_cost_what_is_said() {
    let (store, _clock) = store(1_000_000);
    for number in 0..1_000_000 {
        assert!(take(&store, key(0, number), one_a_day()), "identity {number}");
    }
    let stats = store.stats();
    assert_eq!((stats.buckets, stats.overflowed), (1_000_000, 0));
    let each = stats.allocated_bytes as f64 / 1e6;
    assert!(each <= 90.0, "{each} bytes per bucket");
    for number in (0..1_000_000).step_by(7) {
        assert!(!take(&store, key(0, number), one_a_day()), "identity {number} is spent");
    }
}

/// Steady coming and going at the bound for ever: neither the number of buckets nor the memory creeps up.
#[test]
fn churn_does_not_wear_the_tables_out() {
    let (store, clock) = store(100_000);
    let quota = one_a_day();
    (0..100_000).for_each(|number| assert!(take(&store, key(0, number), quota)));
    let allocated = store.stats().allocated_bytes;
    for round in 1..5 {
        clock.advance(DAY);
        (0..100_000).for_each(|number| {
            assert!(take(&store, key(0, round * 100_000 + number), quota), "{round} {number}")
        });
        assert!(store.len() <= 100_000);
    }
    let now = store.stats().allocated_bytes;
    assert!(now <= allocated * 13 / 10, "{allocated} bytes at first, {now} after");
    assert_eq!(store.overflowed(), 0);
}

/// Full buckets go also when no new ones come, and after a flood the memory goes, too.
#[test]
fn a_quiet_store_forgets() {
    let (store, clock) = store(4_000);
    (0..2_000).for_each(|number| assert!(take(&store, key(0, number), one_a_day())));
    let allocated = store.stats().allocated_bytes;
    clock.advance(DAY);
    let regular = Quota::per_day(1_000_000_000).unwrap();
    for round in 0..700_000_u64 {
        assert!(take(&store, key(1, round % 40), regular));
    }
    let stats = store.stats();
    assert!(stats.buckets < 150, "{} buckets are left", stats.buckets);
    assert!(stats.forgotten >= 1_900);
    assert!(
        stats.allocated_bytes < allocated / 4,
        "{allocated} bytes at first, {} after",
        stats.allocated_bytes
    );
}

/// What is full takes no room: neither a look, nor a free charge, nor what is given back makes a bucket.
#[test]
fn full_buckets_are_not_kept() {
    let (store, _clock) = store(100);
    let quota = one_a_day();
    for number in 0..1_000 {
        assert!(store.peek_now(&[Charge::new(key(0, number), quota, 1)]).is_granted());
        assert!(store.take_now(&[Charge::new(key(0, number), quota, 0)]).is_granted());
        store.settle_now(&[Settlement::new(key(0, number), quota, 5)]);
        let impossible = store.take_now(&[Charge::new(key(0, number), quota, 2)]);
        assert!(matches!(impossible, Decision::Impossible(_)));
    }
    assert!(store.is_empty());
}

/// A refusal by one bucket makes none of the others.
#[test]
fn a_refusal_makes_no_bucket() {
    let (store, _clock) = store(100);
    let quota = one_a_day();
    assert!(take(&store, key(0, 0), quota));
    for number in 1..1_000 {
        let charges = [Charge::new(key(1, number), quota, 1), Charge::new(key(0, 0), quota, 1)];
        assert!(!store.take_now(&charges).is_granted());
    }
    assert_eq!((store.len(), store.overflowed()), (1, 0));
}

/// A bucket with a small quota that is full must not fill the overflow for one with a large quota.
#[test]
fn the_overflow_is_not_refilled_by_a_smaller_quota() {
    let (store, clock) = store(1);
    let (small, large) =
        (Quota::per_second(1).unwrap(), Quota::per_second(1).unwrap().with_capacity(100).unwrap());
    assert!(take(&store, key(9, 0), one_a_day()), "the only place");
    let all = |number| store.take_now(&[Charge::new(key(0, number), large, 100)]).is_granted();
    assert!(all(1), "the overflow starts full");
    clock.advance(Duration::from_secs(5));
    assert!(take(&store, key(0, 2), small), "and holds 5, of which the small quota keeps 1");
    clock.advance(Duration::from_secs(1));
    assert!(take(&store, key(0, 3), small));
    clock.advance(Duration::from_secs(1));
    assert!(!all(4), "full under the small quota is 1 under the large one");
}

/// Two strangers in one decision are charged to the overflow together.
#[test]
fn charges_that_share_the_overflow_add_up() {
    let (store, _clock) = store(1);
    assert!(take(&store, key(9, 0), one_a_day()), "the only place");
    let five = Quota::per_day(1).unwrap().with_capacity(5).unwrap();
    let both = |one, other| [Charge::new(key(0, 1), five, one), Charge::new(key(0, 2), five, other)];
    assert!(!store.peek_now(&both(3, 3)).is_granted());
    let denied = store.take_now(&both(3, 3));
    let left: Vec<_> = denied.denied().unwrap().balances().iter().map(|balance| balance.remaining).collect();
    assert_eq!(left, [5, 5]);
    let granted = store.take_now(&both(1, 2));
    let left: Vec<_> =
        granted.granted().unwrap().balances().iter().map(|balance| balance.remaining).collect();
    assert_eq!(left, [2, 2]);
    let back = [1, 2].map(|number| Settlement::new(key(0, number), five, 1));
    let left: Vec<_> = store.settle_now(&back).iter().map(|balance| balance.remaining).collect();
    assert_eq!(left, [4, 4]);
}

/// A clock that steps back meets buckets that were forgotten in what is now the future.
#[test]
fn what_was_forgotten_is_not_handed_out_again() {
    // So small that there is one shard, and a few new buckets sweep all of it.
    let (store, clock) = store(25);
    let quota = Quota::per_second(10).unwrap();
    let all = || store.take_now(&[Charge::new(key(0, 1), quota, 10)]).is_granted();
    assert!(all());
    clock.advance(Duration::from_secs(1));
    (0..16).for_each(|number| assert!(take(&store, key(1, number), one_a_day())));
    assert_eq!(store.stats().forgotten, 1, "it had filled up");
    clock.set(Timestamp::from_micros(1_500_000));
    assert!(all(), "it is full, by what had flowed in until a second after the start");
    clock.set(Timestamp::from_micros(2_000_000));
    assert!(!take(&store, key(0, 1), quota), "which was all there was");
    clock.advance(Duration::from_millis(100));
    assert!(take(&store, key(0, 1), quota));
}

/// The last full bucket is found among thousands that are not, wherever it is.
#[test]
fn room_is_found_while_there_is_any() {
    let (store, clock) = store(5_000);
    let (fast, slow) = (Quota::per_second(1).unwrap(), one_a_day());
    for number in 0..5_000 {
        assert!(take(&store, key(0, number), if number % 100 == 7 { fast } else { slow }));
    }
    assert!(take(&store, key(1, 0), slow) && store.overflowed() == 1, "none is full");
    clock.advance(Duration::from_secs(1));
    for number in 0..50 {
        assert!(store.peek_now(&[Charge::new(key(2, number), slow, 1)]).is_granted());
        assert!(take(&store, key(2, number), slow), "there is room for {number}");
        assert_eq!(store.overflowed(), 1);
    }
    assert!(take(&store, key(2, 50), slow) && store.overflowed() == 2, "and no more");
    // A settlement, and a raised quota, make buckets full earlier than was foreseen.
    assert!(!take(&store, key(2, 0), fast), "still empty");
    store.settle_now(&[Settlement::new(key(2, 1), slow, 1)]);
    assert!(take(&store, key(2, 51), slow) && store.overflowed() == 2);
    clock.advance(Duration::from_secs(1));
    assert!(take(&store, key(2, 52), slow) && store.overflowed() == 2);
}

#[test]
fn a_pinned_bucket_keeps_its_content_and_its_name() {
    let (store, _clock) = store(100);
    let quota = Quota::per_day(10).unwrap();
    let plain = key(0, 1);
    (0..4).for_each(|_| assert!(take(&store, plain, quota)));
    let pinned = store.pin(plain);
    assert_eq!(store.pin(pinned), plain);
    for (turn, key) in [pinned, plain, pinned, plain, pinned, plain].into_iter().enumerate() {
        let decision = store.take_now(&[Charge::new(key, quota, 1)]);
        let left = decision.granted().unwrap().balances().get(0).unwrap().remaining;
        assert_eq!(left, 5 - i64::try_from(turn).unwrap(), "one bucket under both keys");
    }
    assert!(!take(&store, plain, quota) && !take(&store, pinned, quota));
    assert_eq!((store.len(), store.stats().pinned), (1, 1));
    let both = store.take_now(&[Charge::new(pinned, quota, 0), Charge::new(plain, quota, 0)]);
    assert!(both.is_granted(), "both keys in one decision");
}

#[test]
fn a_key_pinned_elsewhere_works_as_a_plain_one() {
    let (store, _clock) = store(100);
    let (other, _) = self::store(100);
    let quota = one_a_day();
    let foreign = other.pin(key(0, 1));
    let ours = store.pin(key(0, 2));
    assert!(take(&store, foreign, quota), "before");
    assert!(take(&store, ours, quota), "the place that the foreign key names belongs to this one");
    assert!(!take(&store, key(0, 1), quota));
}

#[test]
fn pins_are_bounded() {
    let (store, _clock) = store(100);
    let quota = one_a_day();
    for number in 0..50 {
        let key = store.pin(key(0, number));
        assert!(take(&store, key, quota) && !take(&store, key, quota));
    }
    assert_eq!((store.len(), store.stats().pinned), (50, 8));
}
