use std::num::{NonZeroU32, NonZeroUsize};

/// The bounds of a queue. Each is at least one, by its type, and each can be changed while requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests held for one tenant, over all gates.
    pub max_queue_depth_per_tenant: NonZeroUsize,
    /// Requests held in all.
    pub max_total_queued: NonZeroUsize,
    /// Tenants tracked at once; also how many empty lanes are remembered.
    pub max_tenants: NonZeroUsize,
    /// Grants out at once, over all gates.
    pub max_in_flight: NonZeroU32,
}

// === impl Limits ===

impl Default for Limits {
    /// 32 a tenant, 4096 in all, 1024 tenants, 8 attempts in flight.
    fn default() -> Self {
        const fn size(value: usize) -> NonZeroUsize {
            match NonZeroUsize::new(value) {
                Some(value) => value,
                None => NonZeroUsize::MIN,
            }
        }
        Self {
            max_queue_depth_per_tenant: size(32),
            max_total_queued: size(4096),
            max_tenants: size(1024),
            max_in_flight: NonZeroU32::MIN.saturating_add(7),
        }
    }
}
