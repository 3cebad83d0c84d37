use std::fmt;

/// Who shares: the opaque name of a tenant.
///
/// The queue only compares it. Where names come from outside, give their digests: the index behind it is
/// deterministic (no random seed), and its speed counts on keys that nobody has chosen to collide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantKey(pub u128);

/// The opaque name of a gate: one bucket, as the queue sees it.
///
/// What was said of [`TenantKey`] holds here too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateKey(pub u128);

/// One held request, as the queue that issued it knows it.
///
/// No two requests of a queue's life have the same ticket, so that a stale one, used after its request has
/// left, finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Arrival number: never reused, and the order of seniority.
    pub(crate) serial: u64,
    /// Where it is kept: reused, hence the number.
    pub(crate) slot: u32,
}

/// A tenant's share, relative to the shares of the others: 1 to [`Weight::MAX`].
///
/// # Examples
///
/// ```
/// use fairlane_fair_queue::Weight;
///
/// assert_eq!(Weight::new(3).map(Weight::get), Some(3));
/// assert_eq!(Weight::new(0), None);
/// assert_eq!(Weight::new(Weight::MAX.get() + 1), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

// === impl Weight ===

impl Weight {
    /// The smallest weight, and the usual one.
    pub const MIN: Self = Self(1);
    /// The largest weight: a million. Virtual time is exact up to here (see the crate's documentation).
    pub const MAX: Self = Self(1_000_000);

    /// `None` for zero and for more than [`Weight::MAX`].
    #[must_use]
    pub const fn new(weight: u32) -> Option<Self> {
        if weight >= Self::MIN.0 && weight <= Self::MAX.0 { Some(Self(weight)) } else { None }
    }

    /// As a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::MIN
    }
}

// Keys are digests: short in a dump, and the same in every place where they are printed.
impl fmt::Debug for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantKey({:x})", self.0)
    }
}

impl fmt::Debug for GateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GateKey({:x})", self.0)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.serial)
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weight({})", self.0)
    }
}
