//! What a call asks of each bucket, every bucket once.

use super::failure::Failure;
use super::script::{Nonsense, States, Verdict};
use crate::bucket::Bucket;
use crate::decision::{self, PerCharge};
use crate::{Balances, BucketKey, Charge, Decision, Impossible, Quota, Settlement, StoreError, Timestamp};

/// The most that one settlement can move a bucket by: from the deepest debt to the largest capacity.
const FARTHEST: i128 = 2 * Quota::MAX_CAPACITY as i128;

/// What is asked of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) key: BucketKey,
    pub(super) quota: Quota,
    /// Units to take; to give back, if negative.
    pub(super) amount: i64,
}

/// Lines, each about another bucket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lines<'a> {
    /// As a caller gave them, which spares copying them.
    Charges(&'a [Charge]),
    Lines(&'a [Line]),
}

/// The lines of a call, and which of them each of its items is part of.
#[derive(Clone, Debug)]
pub(super) enum Plan<'a> {
    /// Each charge is a line.
    Plain(&'a [Charge]),
    /// Several items are about one bucket, or items are not charges.
    Merged { lines: Vec<Line>, places: Vec<usize> },
}

impl<'a> Plan<'a> {
    #[inline]
    pub(super) fn charges(charges: &'a [Charge]) -> Result<Self, Impossible> {
        let plain = charges.iter().enumerate().all(|(nth, charge)| {
            charge.cost <= charge.quota.capacity()
                && charges.iter().take(nth).all(|other| other.key != charge.key)
        });
        if plain { Ok(Self::Plain(charges)) } else { Self::merge(charges) }
    }

    #[cold]
    fn merge(charges: &[Charge]) -> Result<Self, Impossible> {
        let totals = decision::totals(charges)?;
        Ok(Self::merged(charges.iter().zip(totals).map(|(charge, total)| Line::take(charge, total))))
    }

    pub(super) fn settlements(settlements: &[Settlement]) -> Self {
        Self::merged(settlements.iter().map(|one| {
            let sharing = settlements.iter().filter(|other| other.key == one.key);
            let sum: i128 = sharing.map(|other| i128::from(other.amount)).sum();
            let amount = i64::try_from(-sum.clamp(-FARTHEST, FARTHEST)).unwrap_or(0);
            Line { key: one.key, quota: one.quota, amount }
        }))
    }

    /// What gives back all that these lines took.
    pub(super) fn giving_back(lines: &[Line]) -> Self {
        Self::merged(lines.iter().map(|line| Line { amount: -line.amount, ..*line }))
    }

    fn merged(items: impl Iterator<Item = Line>) -> Self {
        let (mut lines, mut places) = (Vec::<Line>::new(), Vec::new());
        for item in items {
            let known = lines.iter().position(|line| line.key == item.key);
            places.push(known.unwrap_or(lines.len()));
            if known.is_none() {
                lines.push(item);
            }
        }
        Self::Merged { lines, places }
    }

    #[inline]
    pub(super) fn lines(&self) -> Lines<'_> {
        match self {
            Self::Plain(charges) => Lines::Charges(charges),
            Self::Merged { lines, .. } => Lines::Lines(lines),
        }
    }

    /// How many items there are.
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Plain(charges) => charges.len(),
            Self::Merged { places, .. } => places.len(),
        }
    }

    /// The items that are part of one of these lines.
    pub(super) fn items_of(&self, lines: &[usize]) -> PerCharge<usize> {
        (0..self.len()).filter(|item| lines.contains(&self.place(*item))).collect()
    }

    /// Which line an item is part of.
    #[inline]
    fn place(&self, item: usize) -> usize {
        match self {
            Self::Plain(_) => item,
            Self::Merged { places, .. } => places[item],
        }
    }

    #[inline]
    fn cost(&self, item: usize) -> u64 {
        match self {
            Self::Plain(charges) => charges[item].cost,
            Self::Merged { lines, places } => u64::try_from(lines[places[item]].amount).unwrap_or(0),
        }
    }

    // The three answers are made where they are returned from: wrapped once more, they would be copied as often.

    /// The decision that was to be made on these buckets.
    ///
    /// The server decides, and we work out the same from what it saw: should the two differ, nothing is sure.
    #[inline(always)]
    pub(super) fn judge(&self, seen: &Seen, verdict: Verdict) -> Result<Decision, StoreError> {
        let buckets = match self.observe(seen) {
            Ok(buckets) => buckets,
            Err(nonsense) => return Err(Failure::Nonsense(nonsense).into()),
        };
        let decision = Decision::judge(seen.now, buckets, |item| self.cost(item));
        if decision.is_granted() == (verdict == Verdict::Granted) {
            Ok(decision)
        } else {
            Err(disagreement())
        }
    }

    /// The same for a look.
    pub(super) fn foresee(&self, seen: &Seen, verdict: Verdict) -> Result<Decision, StoreError> {
        let buckets = self.observe(seen).map_err(Failure::Nonsense)?;
        let decision = Decision::foresee(seen.now, buckets, |item| self.cost(item));
        if decision.is_granted() == (verdict == Verdict::Granted) {
            Ok(decision)
        } else {
            Err(disagreement())
        }
    }

    /// What became of the buckets; `before`: whether a line had been settled before its bucket was seen.
    pub(super) fn settle(&self, seen: &Seen, before: impl Fn(usize) -> bool) -> Result<Balances, StoreError> {
        let mut buckets = self.observe(seen).map_err(Failure::Nonsense)?;
        for (item, bucket) in buckets.iter_mut().enumerate() {
            let place = self.place(item);
            if !before(place) {
                *bucket = bucket.settle_sum(-i128::from(self.lines().get(place).amount));
            }
        }
        Ok(Balances::new(seen.now, buckets))
    }

    #[inline(always)]
    fn observe(&self, seen: &Seen) -> Result<PerCharge<Bucket>, Nonsense> {
        let mut buckets = PerCharge::new();
        for item in 0..self.len() {
            let place = self.place(item);
            buckets.push(Bucket::observe(seen.stored(place)?, self.lines().get(place).quota, seen.now));
        }
        Ok(buckets)
    }
}

#[cold]
fn disagreement() -> StoreError {
    Failure::Nonsense("a verdict that does not follow from the buckets").into()
}

impl Line {
    /// A cost is at most a capacity, which fits.
    #[inline]
    fn take(charge: &Charge, cost: u64) -> Self {
        Self { key: charge.key, quota: charge.quota, amount: i64::try_from(cost).unwrap_or(i64::MAX) }
    }
}

impl<'a> Lines<'a> {
    #[inline]
    pub(super) const fn len(self) -> usize {
        match self {
            Self::Charges(charges) => charges.len(),
            Self::Lines(lines) => lines.len(),
        }
    }

    #[inline]
    pub(super) fn get(self, place: usize) -> Line {
        match self {
            Self::Charges(charges) => Line::take(&charges[place], charges[place].cost),
            Self::Lines(lines) => lines[place],
        }
    }

    #[inline]
    pub(super) fn iter(self) -> impl Iterator<Item = Line> + 'a {
        (0..self.len()).map(move |place| self.get(place))
    }
}

/// What was stored of each line's bucket, and when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) now: Timestamp,
    pub(super) buckets: Buckets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Buckets {
    /// As a server sent them.
    Sent(States),
    /// From several servers.
    Known(Vec<Option<Bucket>>),
}

impl Seen {
    /// What is seen when there is nothing to look at.
    pub(super) const fn nothing() -> Self {
        Self { now: Timestamp::ZERO, buckets: Buckets::Known(Vec::new()) }
    }

    /// What was stored of the bucket of the line in this place.
    #[inline]
    pub(super) fn stored(&self, place: usize) -> Result<Option<Bucket>, Nonsense> {
        match &self.buckets {
            Buckets::Sent(states) => states.get(place),
            Buckets::Known(buckets) => buckets.get(place).copied().ok_or("too few buckets"),
        }
    }
}
