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
}
