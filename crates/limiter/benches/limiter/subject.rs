//! What is measured: the same work done by either limiter.

use std::hint::black_box;
use std::num::NonZeroU32;

use fairlane_limiter::{BucketKey, Charge, Decision, Dimension, MemoryLimits, MemoryStore, Quota};
use governor::RateLimiter;
use governor::middleware::NoOpMiddleware;
use governor::state::InMemoryState;
use governor::state::direct::NotKeyed;
use governor::state::keyed::DashMapStateStore;

use crate::clock::{SharedClock, Tick};

type Keyed = RateLimiter<u128, DashMapStateStore<u128>, SharedClock, NoOpMiddleware<Tick>>;
type Direct = RateLimiter<NotKeyed, InMemoryState, SharedClock, NoOpMiddleware<Tick>>;

/// A stream of numbers that is cheap and the same for both (Vigna's splitmix64).
pub(crate) const fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The digest of identity `number`: 128 bits without a pattern.
#[inline]
pub(crate) const fn digest(number: u64) -> u128 {
    let low = scramble(number);
    ((low.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ number) as u128) << 64 | low as u128
}

/// Which of `keys` identities operation `step` is about.
#[inline]
pub(crate) const fn identity(step: u64, keys: u64) -> u64 {
    ((scramble(step) as u128 * keys as u128) >> 64) as u64
}

/// The sizes of the five dimensions of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes(pub(crate) [u64; 5]);

/// Work of one kind, in steps that may be done by several threads at once.
pub(crate) trait Subject: Sync {
    /// Makes sure that everything the steps touch is there.
    fn prepare(&self);
    /// One operation; returns whether it was granted.
    fn step(&self, step: u64) -> bool;
}

/// Whether the quotas let everything pass or, after the first time, nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Grant,
    Refuse,
}

// === ours ===

pub(crate) fn our_quota(mood: Mood) -> Quota {
    // Slow enough never to be full again: full buckets would be forgotten, and the map stay small.
    let capacity = if mood == Mood::Grant { 1_000_000_000_000 } else { 1 };
    Quota::per_day(1).and_then(|quota| quota.with_capacity(capacity)).expect("a valid quota")
}

pub(crate) fn our_store(max_buckets: usize) -> MemoryStore<SharedClock> {
    MemoryStore::new(MemoryLimits { max_buckets, max_pinned: 16 }, SharedClock::new())
}

/// One charge on one of many buckets.
pub(crate) struct OurSingle {
    store: MemoryStore<SharedClock>,
    quota: Quota,
    keys: u64,
    pinned: Option<BucketKey>,
}

impl OurSingle {
    pub(crate) fn new(keys: u64, mood: Mood) -> Self {
        Self { store: our_store(1_000_000), quota: our_quota(mood), keys, pinned: None }
    }

    /// One bucket only, and pinned.
    pub(crate) fn pinned(mood: Mood) -> Self {
        let this = Self::new(1, mood);
        let pinned = Some(this.store.pin(BucketKey::new(Dimension::new(0), digest(0))));
        Self { pinned, ..this }
    }

    #[inline]
    fn take(&self, number: u64) -> Decision {
        let key = self.pinned.unwrap_or_else(|| BucketKey::new(Dimension::new(0), digest(number)));
        self.store.take_now(&[Charge::new(key, self.quota, 1)])
    }
}

impl Subject for OurSingle {
    fn prepare(&self) {
        (0..self.keys)
            .for_each(|number| assert!(self.take(number).is_granted(), "the first time is granted"));
    }

    #[inline]
    fn step(&self, step: u64) -> bool {
        black_box(self.take(identity(step, self.keys))).is_granted()
    }
}

/// Five charges at once, the first on a pinned bucket.
pub(crate) struct OurFive {
    store: MemoryStore<SharedClock>,
    quota: Quota,
    last_quota: Quota,
    pinned: BucketKey,
    sizes: Sizes,
}

impl OurFive {
    /// With [`Mood::Refuse`] the last dimension refuses.
    pub(crate) fn new(sizes: Sizes, mood: Mood) -> Self {
        let store = our_store(4_000_000);
        let pinned = store.pin(BucketKey::new(Dimension::new(0), 0));
        Self { store, quota: our_quota(Mood::Grant), last_quota: our_quota(mood), pinned, sizes }
    }

    #[inline]
    fn take(&self, numbers: [u64; 5]) -> Decision {
        let [_, a, b, c, d] = numbers;
        let charge = |dimension, number| {
            Charge::new(BucketKey::new(Dimension::new(dimension), digest(number)), self.quota, 1)
        };
        let last = Charge { quota: self.last_quota, ..charge(4, d) };
        self.store.take_now(&[
            Charge::new(self.pinned, self.quota, 1),
            charge(1, a),
            charge(2, b),
            charge(3, c),
            last,
        ])
    }
}

impl Subject for OurFive {
    fn prepare(&self) {
        for number in 0..self.sizes.0.into_iter().max().unwrap_or(0) {
            let take = |dimension, quota| {
                let key = BucketKey::new(Dimension::new(dimension), digest(number));
                assert!(
                    self.store.take_now(&[Charge::new(key, quota, 1)]).is_granted(),
                    "the first time is granted"
                );
            };
            for dimension in 1..5_u8 {
                if number < self.sizes.0[usize::from(dimension)] {
                    take(dimension, if dimension == 4 { self.last_quota } else { self.quota });
                }
            }
        }
    }

    #[inline]
    fn step(&self, step: u64) -> bool {
        black_box(self.take(picks(step, self.sizes))).is_granted()
    }
}

#[inline]
fn picks(step: u64, Sizes(sizes): Sizes) -> [u64; 5] {
    let mut salt = 0;
    sizes.map(|size| {
        salt += 0x5851_f42d_4c95_7f2d;
        if size == 1 { 0 } else { identity(step ^ salt, size) }
    })
}

// === governor's ===

pub(crate) fn peer_quota(mood: Mood) -> governor::Quota {
    match mood {
        Mood::Grant => governor::Quota::per_second(NonZeroU32::MIN.saturating_add(999_999_999)),
        Mood::Refuse => governor::Quota::per_hour(NonZeroU32::MIN),
    }
}

pub(crate) fn peer_keyed(mood: Mood) -> Keyed {
    RateLimiter::new(peer_quota(mood), DashMapStateStore::default(), SharedClock::new())
}

fn peer_direct(mood: Mood) -> Direct {
    RateLimiter::direct_with_clock(peer_quota(mood), SharedClock::new())
}

/// One check of one of many keys.
pub(crate) struct PeerSingle {
    limiter: Keyed,
    keys: u64,
}

impl PeerSingle {
    pub(crate) fn new(keys: u64, mood: Mood) -> Self {
        Self { limiter: peer_keyed(mood), keys }
    }
}

impl Subject for PeerSingle {
    fn prepare(&self) {
        for number in 0..self.keys {
            assert!(self.limiter.check_key(&digest(number)).is_ok(), "the first time is granted");
        }
    }

    #[inline]
    fn step(&self, step: u64) -> bool {
        black_box(self.limiter.check_key(&digest(identity(step, self.keys)))).is_ok()
    }
}

/// Five checks one after the other, the first of a limiter without keys. Not atomic.
pub(crate) struct PeerFive {
    direct: Direct,
    keyed: [Keyed; 4],
    sizes: Sizes,
}

impl PeerFive {
    pub(crate) fn new(sizes: Sizes, mood: Mood) -> Self {
        let grant = || peer_keyed(Mood::Grant);
        Self { direct: peer_direct(Mood::Grant), keyed: [grant(), grant(), grant(), peer_keyed(mood)], sizes }
    }
}

impl Subject for PeerFive {
    fn prepare(&self) {
        for (limiter, size) in self.keyed.iter().zip(&self.sizes.0[1..]) {
            for number in 0..*size {
                assert!(limiter.check_key(&digest(number)).is_ok(), "the first time is granted");
            }
        }
    }

    #[inline]
    fn step(&self, step: u64) -> bool {
        let [_, numbers @ ..] = picks(step, self.sizes);
        black_box(self.direct.check()).is_ok()
            && self
                .keyed
                .iter()
                .zip(numbers)
                .all(|(limiter, number)| black_box(limiter.check_key(&digest(number))).is_ok())
    }
}
