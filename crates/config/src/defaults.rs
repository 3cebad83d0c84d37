//! Defaults that depend on something: on the environment, or on another key.

/// The default of `admin.token`.
pub(crate) const ADMIN_TOKEN: &str = "${FAIRLANE_ADMIN_TOKEN:-}";

/// The default of `identity.hash_key`.
pub(crate) const HASH_KEY: &str = "${FAIRLANE_HASH_KEY:-}";
