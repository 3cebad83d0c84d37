use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use crate::Class;

/// The bounds of a queue. Each number is at least one, by its type, and each can be changed while requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What may be held because requests are counted (queued); `None` if nothing is.
    pub requests: Option<ClassLimits>,
    /// What may be held because tokens are counted (deferred); `None` if nothing is.
    pub tokens: Option<ClassLimits>,
    /// Tenants tracked at once, whatever they have held; also how many empty lanes are remembered.
    pub max_tenants: NonZeroUsize,
    /// Grants out at once, over all gates.
    pub max_in_flight: NonZeroU32,
}

/// The bounds of what is held in one class.
///
/// A request counts against those of the class of the gate where it waits, or from which its attempt went out: against
/// one class at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassLimits {
    /// Requests held in this class in all. Both classes together never hold more than 16,777,215, whatever is given
    /// here.
    pub max_held: NonZeroUsize,
    /// Requests held in this class for one tenant, over all gates.
    pub max_held_per_tenant: NonZeroUsize,
    /// The longest that a request is held: counted from when it was first held, for the class in which that was; and from
    /// its [arrival](crate::Request::arrived) for one that it moves into later.
    pub max_wait: Duration,
}

const fn size(value: usize) -> NonZeroUsize {
    match NonZeroUsize::new(value) {
        Some(value) => value,
        None => NonZeroUsize::MIN,
    }
}

// === impl Limits ===

impl Limits {
    /// The bounds of a class; `None` if nothing is held in it.
    #[must_use]
    pub const fn of(&self, class: Class) -> Option<&ClassLimits> {
        match class {
            Class::Requests => self.requests.as_ref(),
            Class::Tokens => self.tokens.as_ref(),
        }
    }
}

impl Default for Limits {
    /// Requests are queued within the bounds that [`ClassLimits`] has by default, and not deferred; 1024 tenants, 8
    /// attempts in flight.
    fn default() -> Self {
        Self {
            requests: Some(ClassLimits::default()),
            tokens: None,
            max_tenants: size(1024),
            max_in_flight: NonZeroU32::MIN.saturating_add(7),
        }
    }
}

// === impl ClassLimits ===

impl Default for ClassLimits {
    /// 4096 in all, 32 a tenant, 5 seconds.
    fn default() -> Self {
        Self { max_held: size(4096), max_held_per_tenant: size(32), max_wait: Duration::from_secs(5) }
    }
}
