//! What a limit is counted per, and how each is called outside.

/// What a limit is counted per, in the order in which a request meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Everything that passes this gateway.
    Global,
    /// A caller's network address.
    Client,
    /// An API key.
    ApiKey,
    /// A user, whatever keys it has.
    User,
    /// A team, whatever users it has.
    Team,
    /// A configured model rule.
    Model,
    /// A backend.
    Backend,
}

impl Dimension {
    /// Every dimension, in declaration order.
    pub const ALL: [Self; 7] =
        [Self::Global, Self::Client, Self::ApiKey, Self::User, Self::Team, Self::Model, Self::Backend];

    /// The name in `limit_type` and in metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Client => "client",
            Self::ApiKey => "api_key",
            Self::User => "user",
            Self::Team => "team",
            Self::Model => "model",
            Self::Backend => "backend",
        }
    }

    /// The name of its policy in the `RateLimit` header fields.
    #[must_use]
    pub const fn policy_name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Client => "per-client",
            Self::ApiKey => "per-api-key",
            Self::User => "per-user",
            Self::Team => "per-team",
            Self::Model => "per-model",
            Self::Backend => "per-backend",
        }
    }

    /// The limiter's number for it.
    #[must_use]
    pub const fn in_limiter(self) -> fairlane_limiter::Dimension {
        fairlane_limiter::Dimension::new(self as u8)
    }

    /// The dimension of a bucket.
    #[must_use]
    pub fn of(bucket: &fairlane_limiter::BucketKey) -> Option<Self> {
        Self::ALL.get(usize::from(bucket.dimension().number())).copied()
    }

    /// Its place in [`Dimension::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
