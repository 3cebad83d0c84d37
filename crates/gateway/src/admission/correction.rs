//! By how much buckets are moved when it is known what a request really cost.

use fairlane_fair_queue::Class;
use fairlane_limiter::Settlement;

use crate::limits::Charges;

/// A request's buckets, and by how much each of them is moved.
#[derive(Clone, Debug)]
pub(super) struct Correction {
    charges: Charges,
    amount: Amount,
}

#[derive(Clone, Copy, Debug)]
enum Amount {
    /// What was charged.
    Charged,
    /// So much for each; below zero it is taken.
    Each(i64),
}

impl Correction {
    /// Gives all charges back.
    pub(super) const fn undo(charges: Charges) -> Self {
        Self { charges, amount: Amount::Charged }
    }

    /// Gives back `amount` to each bucket that counts tokens, or takes it where it is negative.
    pub(super) fn of_tokens(charges: &Charges, amount: i64) -> Self {
        Self { charges: charges.of_class(Class::Tokens), amount: Amount::Each(amount) }
    }

    /// The buckets.
    pub(super) const fn charges(&self) -> &Charges {
        &self.charges
    }

    /// The buckets, to go by other quotas.
    pub(super) const fn charges_mut(&mut self) -> &mut Charges {
        &mut self.charges
    }

    /// What is asked of the store, in the order of the charges.
    pub(super) fn settlements(&self) -> impl Iterator<Item = Settlement> {
        self.charges.as_slice().iter().map(|charge| {
            let amount = match self.amount {
                Amount::Charged => i64::try_from(charge.cost).unwrap_or(i64::MAX),
                Amount::Each(amount) => amount,
            };
            Settlement::new(charge.key, charge.quota, amount)
        })
    }
}
