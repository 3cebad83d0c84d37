//! The period that a limit is given for.

use std::time::Duration;

use fairlane_limiter::Quota;

/// What an amount is given for. It names the bucket among those of its identity, so that a limit that is changed, or
/// given for one period more, leaves the buckets of the other periods as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

/// A quota and the period that it is given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodQuota {
    /// The period.
    pub period: Period,
    /// The quota.
    pub quota: Quota,
}

// === impl Period ===

impl Period {
    /// Every period, the shortest first.
    pub const ALL: [Self; 4] = [Self::Second, Self::Minute, Self::Hour, Self::Day];

    /// The period that is so long, if there is one.
    #[must_use]
    pub fn lasting(length: Duration) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.length() == length)
    }

    /// How long it is.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        })
    }

    /// A number for the names of buckets, below four.
    pub(super) const fn number(self) -> u128 {
        self as u128
    }
}

// === impl PeriodQuota ===

impl PeriodQuota {
    /// A quota that is given for a period.
    #[must_use]
    pub const fn new(period: Period, quota: Quota) -> Self {
        Self { period, quota }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_is_found_by_its_length() {
        for period in Period::ALL {
            assert_eq!(Period::lasting(period.length()), Some(period));
        }
        assert_eq!(Period::lasting(Duration::from_secs(2)), None);
    }
}
