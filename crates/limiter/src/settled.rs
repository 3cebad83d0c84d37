//! What became of settlements, each for itself.

use crate::decision::PerCharge;
use crate::{Balances, StoreError};

/// What became of settlements, each for itself: where buckets are on several servers, some can be settled while others
/// cannot.
#[derive(Debug)]
pub struct Settled(Outcome);

#[derive(Debug)]
enum Outcome {
    All(Balances),
    Some { happened: Balances, missing: PerCharge<usize>, error: StoreError },
    Nothing(StoreError),
}

impl Settled {
    /// Because of `error`, the settlements at the positions `missing` have not happened, as far as is known; the others
    /// have, and left these balances, in their order.
    #[must_use]
    pub fn in_part(happened: Balances, missing: &[usize], error: StoreError) -> Self {
        Self(Outcome::Some { happened, missing: missing.into(), error })
    }

    /// Whether the settlement at this position has happened, as far as is known.
    #[must_use]
    pub fn has_happened(&self, index: usize) -> bool {
        match &self.0 {
            Outcome::All(balances) => index < balances.len(),
            Outcome::Some { happened, missing, .. } => {
                index < happened.len() + missing.len() && !missing.contains(&index)
            }
            Outcome::Nothing(_) => false,
        }
    }

    /// Why some or all of the settlements have not happened, as far as is known; the first of the reasons.
    #[must_use]
    pub const fn error(&self) -> Option<&StoreError> {
        match &self.0 {
            Outcome::All(_) => None,
            Outcome::Some { error, .. } | Outcome::Nothing(error) => Some(error),
        }
    }

    /// The balances after those settlements that have happened, in their order.
    #[must_use]
    pub fn happened(self) -> Balances {
        match self.0 {
            Outcome::All(happened) | Outcome::Some { happened, .. } => happened,
            Outcome::Nothing(_) => Balances::default(),
        }
    }

    /// The balances after all of the settlements.
    ///
    /// # Errors
    ///
    /// Some of them have not happened, as far as is known.
    pub fn all(self) -> Result<Balances, StoreError> {
        match self.0 {
            Outcome::All(balances) => Ok(balances),
            Outcome::Some { error, .. } | Outcome::Nothing(error) => Err(error),
        }
    }
}

// === impl From ===

impl From<Result<Balances, StoreError>> for Settled {
    /// All of them happened, or none.
    fn from(settled: Result<Balances, StoreError>) -> Self {
        Self(match settled {
            Ok(balances) => Outcome::All(balances),
            Err(error) => Outcome::Nothing(error),
        })
    }
}
