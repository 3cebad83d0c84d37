//! Limits that concern nobody.

use super::Watch;
use crate::{
    diagnostic::KeyPath,
    model::{ApiKey, DimensionLimit},
};

impl Watch<'_> {
    /// Limits of a dimension that no key has.
    pub(super) fn limits_of_nobody(&mut self) {
        let config = self.config;
        let limits = &config.rate_limiting.limits;
        let has = |identity: fn(&ApiKey) -> bool| config.api_keys.keys.iter().any(identity);
        let dimensions = [
            (
                "per_api_key",
                &limits.per_api_key.limit,
                has(|_| true),
                "there is no key, so this limits nobody",
            ),
            (
                "per_user",
                &limits.per_user.limit,
                has(|key| key.user.is_some()),
                "no key belongs to a user, so this limits nobody",
            ),
            (
                "per_team",
                &limits.per_team.limit,
                has(|key| key.team.is_some()),
                "no key belongs to a team, so this limits nobody",
            ),
        ];
        for (dimension, limit, has_identity, message) in dimensions {
            if !limit.is_unlimited() && !has_identity {
                let path = KeyPath::of("rate_limiting.limits").key(dimension);
                self.warn(path, message, "say in `api_keys.keys` whose the keys are, or remove it");
            }
        }
    }

    /// Empty overrides of a dimension that has no limit: it is unlimited with them and without.
    pub(super) fn limits_that_lift_nothing(&mut self) {
        let limits = &self.config.rate_limiting.limits;
        let found = [
            ("per_client", lifting_nothing(&limits.per_client, ToString::to_string)),
            ("per_backend", lifting_nothing(&limits.per_backend, Clone::clone)),
            ("per_api_key", lifting_nothing(&limits.per_api_key, Clone::clone)),
            ("per_user", lifting_nothing(&limits.per_user, |name| name.as_str().to_owned())),
            ("per_team", lifting_nothing(&limits.per_team, |name| name.as_str().to_owned())),
        ];
        for (dimension, names) in found {
            let message = "an empty limit lifts that of its dimension, and there is none";
            self.unmatched(dimension, names.iter().map(String::as_str), message);
        }
    }
}

fn lifting_nothing<K: Ord, L: Default + PartialEq>(
    limits: &DimensionLimit<K, L>,
    name: impl Fn(&K) -> String,
) -> Vec<String> {
    let nothing = L::default();
    // Beside a broader override that limits, an empty one lifts that.
    if limits.limit != nothing || limits.overrides.values().any(|limit| *limit != nothing) {
        return Vec::new();
    }
    limits.overrides.keys().map(name).collect()
}
