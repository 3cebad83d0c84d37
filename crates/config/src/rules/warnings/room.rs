//! Bounds that are too narrow for what the file itself asks for.

use std::collections::BTreeSet;

use super::Watch;
use crate::{
    diagnostic::KeyPath,
    model::{ApiKey, DimensionLimit, Storage},
};

impl Watch<'_> {
    /// A body that may be sent, and that memory may not hold.
    pub(super) fn room_for_bodies(&mut self) {
        let server = &self.config.server;
        if server.max_body_bytes <= server.max_buffered_bytes {
            return;
        }
        let path = |key| KeyPath::of("server").key(key);
        let bound = path("max_buffered_bytes");
        let is_given = self.root.find(&bound).is_some();
        let message = format!(
            "bodies of up to {} bytes are let in, and there is room for {} bytes of all bodies together",
            server.max_body_bytes, server.max_buffered_bytes
        );
        self.risk(
            if is_given { bound } else { path("max_body_bytes") },
            &message,
            "raise `max_buffered_bytes`, for as many such bodies as may come at once, or lower `max_body_bytes`",
        );
    }

    /// Fewer buckets than the identities that the file names have.
    pub(super) fn room_for_buckets(&mut self) {
        let limiting = &self.config.rate_limiting;
        let needed = self.limited_identities();
        if limiting.storage == Storage::Memory && limiting.enabled && needed > limiting.max_buckets.get() {
            self.risk(
                KeyPath::of("rate_limiting.max_buckets"),
                &format!("the keys, users and teams that are limited need {needed} buckets or more"),
                "raise it: beyond it identities share one bucket, and so one another's limits",
            );
        }
    }

    /// Keys, users and teams with a limit. Each has a bucket, or one for each period that it is limited over.
    fn limited_identities(&self) -> usize {
        let limits = &self.config.rate_limiting.limits;
        let keys = &self.config.api_keys.keys;
        let own = |key: &&ApiKey| {
            key.rate_limit
                .as_ref()
                .map_or_else(|| is_limited(&limits.per_api_key, &key.id), |own| !own.is_unlimited())
        };
        let users: BTreeSet<_> = keys.iter().filter_map(|key| key.user.as_ref()).collect();
        let teams: BTreeSet<_> = keys.iter().filter_map(|key| key.team.as_ref()).collect();
        keys.iter().filter(own).count()
            + users.into_iter().filter(|user| is_limited(&limits.per_user, *user)).count()
            + teams.into_iter().filter(|team| is_limited(&limits.per_team, *team)).count()
    }
}

fn is_limited<K: Ord>(dimension: &DimensionLimit<K>, name: &K) -> bool {
    !dimension.overrides.get(name).unwrap_or(&dimension.limit).is_unlimited()
}
