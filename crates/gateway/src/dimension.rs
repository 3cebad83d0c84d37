//! What a limit is counted per, and how each is called outside.

use fairlane_fair_queue::Class;
use fairlane_limiter::BucketKey;

/// Set in the limiter's number of a dimension whose buckets count tokens.
const TOKENS: u8 = 0x40;

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

    /// The limiter's number for its buckets of a class.
    ///
    /// Those that count tokens are a dimension of their own to the limiter: no identity's tokens share a bucket with
    /// anybody's requests, not even the overflow bucket of a full store.
    #[must_use]
    pub const fn in_limiter(self, class: Class) -> fairlane_limiter::Dimension {
        let tokens = match class {
            Class::Requests => 0,
            Class::Tokens => TOKENS,
        };
        fairlane_limiter::Dimension::new(self as u8 | tokens)
    }

    /// The dimension of a bucket, whatever it counts.
    #[must_use]
    pub fn of(bucket: &BucketKey) -> Option<Self> {
        Self::ALL.get(usize::from(bucket.dimension().number() & !TOKENS)).copied()
    }

    /// Its place in [`Dimension::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a bucket counts.
#[must_use]
pub const fn class_of(bucket: &BucketKey) -> Class {
    if bucket.dimension().number() & TOKENS == 0 { Class::Requests } else { Class::Tokens }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_tells_its_dimension_and_what_it_counts() {
        for dimension in Dimension::ALL {
            for class in Class::ALL {
                let key = BucketKey::new(dimension.in_limiter(class), 7);
                assert_eq!((Dimension::of(&key), class_of(&key)), (Some(dimension), class));
            }
        }
    }
}
