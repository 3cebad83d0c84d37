//! Which of the limits' changes something has seen.

/// Counts the limits that have held one after the other.
///
/// What was charged by earlier ones is brought up to date before the limiter is asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub(super) u32);

impl Generation {
    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether other limits have held since: whether it comes before `other`.
    pub(super) const fn is_before(self, other: Self) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead != 0 && ahead <= u32::MAX / 2
    }
}
