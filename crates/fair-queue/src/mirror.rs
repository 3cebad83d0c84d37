use crate::time::nanos;
use crate::{GateLevel, Timestamp};

/// How long a gate stays closed after a refusal that told nothing, in nanoseconds: there is no bucket to
/// compute with, and asking again at once would be a loop.
const BLIND_REST: u64 = 100_000_000;

/// What a gate's bucket is believed to hold: the last word of the limiter, moved on by the refill, less the
/// attempts that are out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mirror {
    bucket: Option<Bucket>,
    /// Units of attempts that are out, and of room that is kept for a waiter.
    taken: u128,
    /// The queue's event number when the bucket was last believed anew.
    believed: u64,
    /// Closed until then whatever the bucket says.
    rests_until: Timestamp,
}

/// A bucket in exact integers: its content is counted in units times nanoseconds of a period, so that one
/// nanosecond adds exactly `refill` to it.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    content: i128,
    at: Timestamp,
    capacity: u64,
    refill: u64,
    period: u64,
}

/// When something will be possible, as far as the mirror can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Now.
    Open,
    /// Not before then.
    At(Timestamp),
    /// Not by the passing of time.
    Never,
}

// === impl Opening ===

impl Opening {
    /// As a moment, "never" being the last one.
    pub(crate) fn moment(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Open => now,
            Self::At(at) => at,
            Self::Never => Timestamp::MAX,
        }
    }
}

// === impl Bucket ===

impl Bucket {
    /// Panics never, whatever it is told: an impossible period counts as the shortest, an impossible level
    /// is cut down to the capacity.
    fn new(told: &GateLevel, now: Timestamp) -> Self {
        let period = nanos(told.period).max(1);
        let mut bucket = Self {
            content: i128::from(told.level).saturating_mul(i128::from(period)),
            at: now,
            capacity: told.capacity,
            refill: told.refill,
            period,
        };
        // The next unit comes in `until_next`, so this much of it is there already. `until_next` may have
        // been rounded up, which makes this a lower bound: late by less than that rounding, never early.
        let missing = u128::from(told.refill).saturating_mul(u128::from(nanos(told.until_next)));
        let part = u128::from(period).saturating_sub(missing.max(1));
        bucket.content = bucket.content.saturating_add(part.cast_signed()).min(bucket.full());
        bucket
    }

    fn full(&self) -> i128 {
        units(self.capacity.into(), self.period)
    }

    fn content(&self, now: Timestamp) -> i128 {
        let elapsed = now.nanos_since(self.at);
        let gained = u128::from(self.refill).saturating_mul(u128::from(elapsed));
        let gained = i128::try_from(gained).unwrap_or(i128::MAX);
        self.content.saturating_add(gained).min(self.full())
    }

    /// When it will have held this much, if that is taken away as it flows in.
    fn reaches(&self, amount: u128, now: Timestamp) -> Opening {
        let missing = units(amount, self.period).saturating_sub(self.content(now));
        if missing <= 0 {
            return Opening::Open;
        }
        if self.refill == 0 {
            return Opening::Never;
        }
        let wait = missing.unsigned_abs().div_ceil(u128::from(self.refill));
        u64::try_from(wait).map_or(Opening::Never, |wait| Opening::At(now.after_nanos(wait)))
    }
}

fn units(amount: u128, period: u64) -> i128 {
    i128::try_from(amount.saturating_mul(u128::from(period))).unwrap_or(i128::MAX)
}

// === impl Mirror ===

impl Mirror {
    /// Believes what was told. True if the bucket's quota is not what it was.
    pub(crate) fn believe(&mut self, told: &GateLevel, event: u64, now: Timestamp) -> bool {
        let bucket = Bucket::new(told, now);
        let changed = self.bucket.is_some_and(|old| {
            (old.capacity, old.refill, old.period) != (bucket.capacity, bucket.refill, bucket.period)
        });
        self.bucket = Some(bucket);
        self.believed = event;
        self.rests_until = Timestamp::ZERO;
        changed
    }

    /// Hears from an attempt that went out at the event `sent`.
    ///
    /// An attempt that went out after the last word was heard has seen a later state of the bucket, and is
    /// believed. Of two whose times overlapped nobody knows which the bucket served last; each take lowers
    /// it, so the lower word is the later one.
    pub(crate) fn hear(&mut self, told: &GateLevel, sent: u64, event: u64, now: Timestamp) -> bool {
        if sent > self.believed {
            return self.believe(told, event, now);
        }
        let old = self.bucket;
        let believed = self.believed;
        let changed = self.believe(told, event, now);
        self.believed = believed;
        if !changed && let (Some(old), Some(new)) = (old, self.bucket.as_mut()) {
            new.content = new.content.min(old.content(now));
        }
        changed
    }

    /// An attempt of this cost was accepted, and nothing was told of the bucket.
    pub(crate) fn spend(&mut self, cost: u64, now: Timestamp) {
        if let Some(bucket) = &mut self.bucket {
            bucket.content = bucket.content(now).saturating_sub(units(cost.into(), bucket.period));
            bucket.at = now;
        }
    }

    /// An attempt of this cost was refused although the mirror had room for it: whatever else it may hold,
    /// it does not hold that. Otherwise the next attempt would go out in the same instant.
    pub(crate) fn doubt(&mut self, cost: u64, now: Timestamp) {
        if let Some(bucket) = &mut self.bucket {
            let most = units(u128::from(cost).saturating_sub(1), bucket.period);
            bucket.content = bucket.content(now).min(most);
            bucket.at = now;
            if bucket.refill > 0 {
                return;
            }
        }
        self.rests_until = now.after_nanos(BLIND_REST);
    }

    pub(crate) fn take(&mut self, cost: u64) {
        self.taken += u128::from(cost);
    }

    pub(crate) fn give_back(&mut self, cost: u64) {
        self.taken = self.taken.saturating_sub(u128::from(cost));
    }

    /// When an attempt of this cost can go out. One that is larger than the bucket ever holds goes out at
    /// once: the limiter will say so, and nobody behind it waits for what cannot be.
    pub(crate) fn opening(&self, cost: u64, now: Timestamp) -> Opening {
        if self.rests_until > now {
            return Opening::At(self.rests_until);
        }
        match &self.bucket {
            Some(bucket) if cost <= bucket.capacity => bucket.reaches(self.taken + u128::from(cost), now),
            _ => Opening::Open,
        }
    }

    /// The earliest moment at which `cost` can be served behind `ahead` units, if nobody else asks.
    pub(crate) fn earliest(&self, ahead: u64, cost: u64, now: Timestamp) -> Opening {
        match &self.bucket {
            Some(bucket) if cost > bucket.capacity => Opening::Never,
            Some(bucket) => bucket.reaches(u128::from(ahead) + u128::from(cost), now),
            None => Opening::Open,
        }
    }

    /// The bucket's refill, as units in nanoseconds; `None` if nothing was told or nothing flows.
    pub(crate) fn refill(&self) -> Option<(u64, u64)> {
        self.bucket.map(|bucket| (bucket.refill, bucket.period)).filter(|(refill, _)| *refill > 0)
    }

    /// Whole units an attempt could have now.
    pub(crate) fn room(&self, now: Timestamp) -> Option<i64> {
        let bucket = self.bucket?;
        let level = bucket.content(now).div_euclid(i128::from(bucket.period));
        let room = level.saturating_sub(i128::try_from(self.taken).unwrap_or(i128::MAX));
        Some(i64::try_from(room).unwrap_or(if room < 0 { i64::MIN } else { i64::MAX }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn level(level: i64, until_next_ms: u64) -> GateLevel {
        GateLevel {
            gate: crate::GateKey(1),
            level,
            until_next: Duration::from_millis(until_next_ms),
            capacity: 5,
            refill: 10,
            period: Duration::from_secs(1),
        }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn refills_to_the_nanosecond_and_stops_when_full() {
        let mut mirror = Mirror::default();
        mirror.believe(&level(0, 30), 1, at(0));
        assert_eq!(mirror.opening(1, at(0)), Opening::At(at(30)));
        assert_eq!(mirror.opening(3, at(10)), Opening::At(at(230)));
        assert_eq!(mirror.opening(1, at(30)), Opening::Open);
        assert_eq!(mirror.room(at(60_000)), Some(5));
        // Nothing is saved up beyond the capacity.
        mirror.spend(5, at(60_000));
        assert_eq!(mirror.opening(1, at(60_000)), Opening::At(at(60_100)));
    }

    #[test]
    fn debt_delays_by_exactly_its_refill_time() {
        let mut mirror = Mirror::default();
        mirror.believe(&level(-3, 100), 1, at(0));
        assert_eq!(mirror.earliest(0, 1, at(0)), Opening::At(at(400)));
        assert_eq!(mirror.earliest(2, 1, at(0)), Opening::At(at(600)));
    }

    #[test]
    fn attempts_out_count_as_taken_until_they_are_back() {
        let mut mirror = Mirror::default();
        mirror.believe(&level(2, 100), 1, at(0));
        mirror.take(2);
        assert_eq!(mirror.opening(1, at(0)), Opening::At(at(100)));
        mirror.give_back(2);
        assert_eq!(mirror.opening(1, at(0)), Opening::Open);
    }

    #[test]
    fn the_lower_of_two_overlapping_words_holds() {
        let mut mirror = Mirror::default();
        mirror.believe(&level(5, 0), 1, at(0));
        // Sent at events 2 and 3; the second is heard first.
        mirror.hear(&level(3, 100), 3, 4, at(1));
        mirror.hear(&level(4, 100), 2, 5, at(1));
        assert_eq!(mirror.room(at(1)), Some(3));
        // One sent after that is believed, up or down.
        mirror.hear(&level(4, 100), 6, 7, at(2));
        assert_eq!(mirror.room(at(2)), Some(4));
    }

    #[test]
    fn what_can_never_be_is_tried_once_and_never_promised() {
        let mut mirror = Mirror::default();
        mirror.believe(&level(0, 100), 1, at(0));
        assert_eq!(mirror.opening(6, at(0)), Opening::Open);
        assert_eq!(mirror.earliest(0, 6, at(0)), Opening::Never);
        assert_eq!(mirror.earliest(5, 5, at(0)), Opening::At(at(1000)));
    }

    #[test]
    fn nonsense_is_survived() {
        let mut mirror = Mirror::default();
        let told = GateLevel {
            gate: crate::GateKey(1),
            level: i64::MIN,
            until_next: Duration::MAX,
            capacity: u64::MAX,
            refill: u64::MAX,
            period: Duration::ZERO,
        };
        mirror.believe(&told, 1, Timestamp::MAX);
        mirror.take(u64::MAX);
        mirror.take(u64::MAX);
        assert_ne!(mirror.opening(u64::MAX, Timestamp::ZERO), Opening::Open);
        mirror.believe(&GateLevel { refill: 0, level: i64::MAX, ..told }, 2, Timestamp::ZERO);
        assert_eq!(mirror.opening(1, Timestamp::MAX), Opening::Never);
    }
}
