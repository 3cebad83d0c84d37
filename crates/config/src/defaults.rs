//! Defaults that depend on something: on the environment, or on another key.

use crate::{
    diagnostic::KeyPath,
    interpolate::{Interpolated, interpolate},
    tree::{Node, Value},
};

/// The default of `admin.token`.
pub(crate) const ADMIN_TOKEN: &str = "${FAIRLANE_ADMIN_TOKEN:-}";

/// The default of `identity.hash_key`.
pub(crate) const HASH_KEY: &str = "${FAIRLANE_HASH_KEY:-}";

/// The default of `rate_limiting.redis.url`.
pub(crate) const REDIS_URL: &str = "${REDIS_URL:-redis://127.0.0.1:6379}";

/// Fills in the defaults that the model cannot know. Returns what came from a variable, with its name.
pub(crate) fn fill(root: &mut Node, interpolated: &mut Interpolated<'_>) -> Vec<(KeyPath, &'static str)> {
    let mut defaults = vec![
        ("admin.token", "FAIRLANE_ADMIN_TOKEN", ADMIN_TOKEN),
        ("identity.hash_key", "FAIRLANE_HASH_KEY", HASH_KEY),
    ];
    // Who keeps the buckets in memory need not care what Redis the environment has for others.
    if root.find(&KeyPath::of("rate_limiting.storage")).and_then(Node::text) == Some("redis") {
        defaults.push(("rate_limiting.redis.url", "REDIS_URL", REDIS_URL));
    }
    let mut from_variables = Vec::new();
    for (path, variable, default) in defaults {
        let key_path = KeyPath::of(path);
        if root.find(&key_path).is_none() {
            let mut node = Node::made(Value::Text(default.to_owned()));
            interpolate(&mut node, &key_path, interpolated);
            root.put(&path.split('.').collect::<Vec<_>>(), node);
            if interpolated.environment.get(variable).is_some_and(|value| !value.is_empty()) {
                from_variables.push((key_path, variable));
            }
        }
    }
    // Who writes limits wants them; who writes only, say, bounds may not have got there yet.
    let enabled = KeyPath::of("rate_limiting.enabled");
    let limits = KeyPath::of("rate_limiting.limits");
    if root.find(&limits).is_some() && root.find(&enabled).is_none() {
        root.put(&["rate_limiting", "enabled"], Node::made(Value::Bool(true)));
    }
    from_variables
}
