//! The quotas that hold now, for requests that were charged by those which held before.

use std::collections::{HashMap, HashSet};

use fairlane_fair_queue::GateKey;
use fairlane_identity::Digest;
use fairlane_limiter::{BucketKey, Charge, Quota};

use super::Charges;

/// Every bucket that is known beforehand, with the quota that it has, and every identity that might have one.
///
/// A request that is held while limits are changed is charged by what its identities are limited by now: if that is
/// given for other periods, by other buckets. What a request took goes back to where it was taken from, by the quotas of
/// now, and nowhere if there is no such limit any more. A bucket whose identity is gone keeps the quota that it had: a key
/// that is removed must not set those free who still wait with it.
#[derive(Debug, Default)]
pub struct QuotaTable {
    quotas: HashMap<BucketKey, Quota>,
    identities: HashSet<u128>,
}

impl QuotaTable {
    /// Notes an identity, whether anything of it is limited or not.
    pub fn know(&mut self, identity: Digest) {
        self.identities.insert(group(u128::from_be_bytes(identity.to_bytes())));
    }

    /// Notes the quotas of buckets.
    pub fn set<'a>(&mut self, charges: impl IntoIterator<Item = &'a Charge>) {
        self.quotas.extend(charges.into_iter().map(|charge| (charge.key, charge.quota)));
    }

    /// Has what is yet to be taken be taken from the buckets that there are now: where an identity has limits of the same
    /// kind (of requests, or of tokens) for other periods, from those.
    pub fn renew(&self, charges: &mut Charges) {
        let before = std::mem::take(charges);
        let before = before.as_slice();
        for (at, charge) in before.iter().enumerate() {
            if before.iter().take(at).any(|earlier| is_of_the_same_limit(&earlier.key, &charge.key)) {
                continue;
            }
            let mut limited = false;
            for key in periods(&charge.key) {
                if let Some((key, quota)) = self.quotas.get_key_value(&key) {
                    charges.push(Charge::new(*key, *quota, charge.cost));
                    limited = true;
                }
            }
            if !limited && !self.identities.contains(&group(charge.key.digest())) {
                let same = |other: &&Charge| is_of_the_same_limit(&other.key, &charge.key);
                before.iter().filter(same).for_each(|charge| charges.push(*charge));
            }
        }
    }

    /// Has what was taken go back by the quotas that hold now.
    pub fn refresh(&self, charges: &mut Charges) {
        charges.retain(|charge| match self.quotas.get(&charge.key) {
            Some(quota) => {
                charge.quota = *quota;
                true
            }
            None => !self.identities.contains(&group(charge.key.digest())),
        });
    }

    /// The buckets of some gates, and the gates of identities whose bucket has no limit any more.
    #[must_use]
    pub fn at(&self, gates: &HashSet<GateKey>) -> (Charges, Vec<GateKey>) {
        let mut charges = Charges::default();
        let mut found = HashSet::new();
        for (key, quota) in &self.quotas {
            let gate = GateKey(key.digest());
            if gates.contains(&gate) {
                charges.push(Charge::new(*key, *quota, 0));
                found.insert(gate);
            }
        }
        let is_free = |gate: &&GateKey| !found.contains(gate) && self.identities.contains(&group(gate.0));
        (charges, gates.iter().filter(is_free).copied().collect())
    }
}

/// What the buckets of an identity have in common: their names differ in the low four bits, by period and class.
const fn group(bucket: u128) -> u128 {
    bucket & !0xf
}

/// The buckets of a limit, one for each period that it may be given for, `bucket` being one of them.
fn periods(bucket: &BucketKey) -> impl Iterator<Item = BucketKey> {
    let (dimension, digest) = (bucket.dimension(), bucket.digest());
    (0..PERIODS).map(move |other| BucketKey::new(dimension, digest ^ other))
}

fn is_of_the_same_limit(one: &BucketKey, other: &BucketKey) -> bool {
    one.dimension() == other.dimension() && one.digest() ^ other.digest() < PERIODS
}

/// How many numbers of periods there are; see [`Period::number`].
const PERIODS: u128 = 4;

#[cfg(test)]
mod tests {
    use fairlane_identity::Hasher;

    use super::*;
    use crate::{
        dimension::Dimension,
        limits::{Buckets, IdentityQuotas, Period, PeriodQuota},
    };

    fn per(period: Period, amount: u64) -> PeriodQuota {
        PeriodQuota::new(period, Quota::per_second(amount).unwrap())
    }

    fn buckets(name: &str, requests: &[PeriodQuota], tokens: &[PeriodQuota]) -> Buckets {
        let user = Hasher::new(b"test").unwrap().user(name);
        let quotas = IdentityQuotas { requests: requests.to_vec(), tokens: tokens.to_vec() };
        Buckets::of_identity(Dimension::User, user, &quotas)
    }

    fn all(buckets: &Buckets) -> Charges {
        let mut charges = buckets.requests.clone();
        charges.reserve(&buckets.tokens, 7);
        charges
    }

    fn capacities(charges: &Charges) -> Vec<u64> {
        charges.as_slice().iter().map(|charge| charge.quota.capacity()).collect()
    }

    #[test]
    fn a_bucket_goes_by_the_quota_that_it_has_now() {
        let mut charges =
            all(&buckets("a", &[per(Period::Second, 1), per(Period::Minute, 2)], &[per(Period::Minute, 3)]));
        let mut table = QuotaTable::default();
        table.know(Hasher::new(b"test").unwrap().user("a"));
        // A period is new, one is changed, one is gone; the budget of tokens is changed.
        table.set(
            buckets("a", &[per(Period::Minute, 20), per(Period::Day, 40)], &[per(Period::Minute, 30)]).iter(),
        );
        table.refresh(&mut charges);
        assert_eq!(capacities(&charges), [20, 30]);
        assert_eq!(charges.as_slice().iter().map(|charge| charge.cost).collect::<Vec<_>>(), [1, 7]);
    }

    #[test]
    fn what_is_asked_for_is_charged_by_the_periods_that_there_are_now() {
        let mut charges =
            all(&buckets("a", &[per(Period::Second, 1), per(Period::Day, 2)], &[per(Period::Minute, 3)]));
        let mut table = QuotaTable::default();
        table.know(Hasher::new(b"test").unwrap().user("a"));
        let now = buckets("a", &[per(Period::Hour, 10), per(Period::Day, 20)], &[per(Period::Day, 30)]);
        table.set(now.iter());
        table.renew(&mut charges);
        let of = |charges: &Charges| {
            charges.as_slice().iter().map(|charge| (charge.key, charge.cost)).collect::<Vec<_>>()
        };
        let (mut found, mut expected) = (of(&charges), of(&all(&now)));
        assert!(found.is_sorted_by_key(|(key, _)| crate::dimension::class_of(key)), "requests come first");
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);

        // Without a limit of tokens none are charged, whatever is said of requests.
        table = QuotaTable::default();
        table.know(Hasher::new(b"test").unwrap().user("a"));
        table.set(now.requests.as_slice());
        table.renew(&mut charges);
        assert_eq!(charges.as_slice().len(), 2);
        // Who is gone is charged as it was.
        QuotaTable::default().renew(&mut charges);
        assert_eq!(charges.as_slice().len(), 2);
    }

    #[test]
    fn who_is_gone_keeps_the_quota_that_it_had() {
        let mut charges = all(&buckets("a", &[per(Period::Second, 1)], &[]));
        QuotaTable::default().refresh(&mut charges);
        assert_eq!(capacities(&charges), [1]);
    }

    #[test]
    fn gates_are_told_apart_by_whether_their_bucket_still_has_a_limit() {
        let hasher = Hasher::new(b"test").unwrap();
        let (limited, free, gone) = (
            buckets("limited", &[per(Period::Second, 5)], &[]),
            buckets("free", &[per(Period::Second, 5)], &[]),
            buckets("gone", &[per(Period::Second, 5)], &[]),
        );
        let mut table = QuotaTable::default();
        table.know(hasher.user("limited"));
        table.know(hasher.user("free"));
        table.set(limited.iter());
        let gate = |buckets: &Buckets| GateKey(buckets.requests.as_slice()[0].key.digest());
        let (charges, unlimited) = table.at(&HashSet::from([gate(&limited), gate(&free), gate(&gone)]));
        assert_eq!((capacities(&charges), unlimited), (vec![5], vec![gate(&free)]));
    }
}
