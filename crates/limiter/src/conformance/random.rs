//! Random calls, compared with the model one by one.

use std::time::Duration;

use super::{Harness, Model};
use crate::{BucketKey, Charge, Dimension, Quota, Settlement, Store, Timestamp};

const SEEDS: u64 = 4;

/// A small generator that is the same everywhere (Vigna's splitmix64).
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Small numbers often, large ones sometimes, `most` at most.
    const fn skewed(&mut self, most: u64) -> u64 {
        let bits = self.below(64 - most.leading_zeros() as u64 + 1);
        let number = self.next() & ((1 << bits) - 1);
        if number > most { most } else { number }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)]
    }

    const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

pub(super) async fn run<H: Harness>(harness: &H, calls: u64) {
    for seed in 0..SEEDS {
        compare(harness, seed, calls.div_ceil(SEEDS)).await;
    }
}

async fn compare<H: Harness>(harness: &H, seed: u64, calls: u64) {
    let store = harness.empty_store().await;
    let mut model = Model::new();
    let mut random = Random(seed);
    // Only differences of time count, so the model need not know the harness's clock.
    let mut now = Timestamp::from_micros(1_000_000);
    for call in 0..calls {
        let by = Duration::from_micros(random.skewed(200_000_000_000));
        if !random.one_in(3) {
            harness.advance(by).await;
            now = now.saturating_add(by);
        }
        let context = format!("random calls, seed {seed}, call {call}");
        if random.one_in(5) {
            let settlements = some(&mut random, settlement);
            let told = store.settle(&settlements).await.expect("the store answers");
            assert_eq!(told, model.settle(&settlements, now), "{context}: {settlements:?}");
            continue;
        }
        let charges = some(&mut random, charge);
        if random.one_in(5) {
            let told = store.peek(&charges).await.expect("the store answers");
            assert_eq!(told, model.peek(&charges, now), "{context}: peek {charges:?}");
        } else {
            let told = store.take(&charges).await.expect("the store answers");
            assert_eq!(told, model.take(&charges, now), "{context}: take {charges:?}");
        }
    }
}

fn some<T>(random: &mut Random, one: impl Fn(&mut Random) -> T) -> Vec<T> {
    let most = if random.one_in(20) { 20 } else { 6 };
    (0..random.below(most)).map(|_| one(random)).collect()
}

fn key(random: &mut Random) -> BucketKey {
    let dimension = u8::try_from(random.below(3)).unwrap_or(0);
    BucketKey::new(Dimension::new(dimension), u128::from(random.below(4)) << 70 | 7)
}

/// One of a few per dimension, so that they sometimes change and mostly do not.
fn quota(random: &mut Random, key: BucketKey) -> Quota {
    let [slow, usual, fast] = [1, 5_000_001, 60_000_000_000_000].map(|per_day| {
        Quota::per_day(per_day).and_then(|quota| quota.with_capacity(1_000)).expect("a valid quota")
    });
    let usual = match key.dimension().number() {
        0 => usual,
        1 => slow,
        _ => fast,
    };
    if random.one_in(10) {
        let capacity = random.pick(&[1, 10, 100_000, 1_000_000_000_000, Quota::MAX_CAPACITY]);
        let refill = random.pick(&[slow, usual, fast]);
        refill.with_capacity(capacity).expect("a valid quota")
    } else {
        usual
    }
}

fn charge(random: &mut Random) -> Charge {
    let key = key(random);
    let cost = if random.one_in(50) { u64::MAX } else { random.skewed(700) };
    Charge::new(key, quota(random, key), cost)
}

fn settlement(random: &mut Random) -> Settlement {
    let key = key(random);
    let size = if random.one_in(50) { i64::MAX } else { i64::try_from(random.skewed(3_000)).unwrap_or(0) };
    let amount = if random.one_in(2) { size } else { -size };
    Settlement::new(key, quota(random, key), amount)
}
