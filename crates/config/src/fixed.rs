//! What a running gateway keeps when its configuration is loaded again: what only a restart changes.

use std::{fmt, path::Path};

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    diagnostic::{Diagnostic, KeyPath, Kind},
    keys_file::Joined,
    model::{GatewayConfig, Storage},
    rules,
    tree::{Node, Value},
    values::RedisUrl,
};

/// The values of a running gateway that only a restart changes: [`Inspected::fixed`](crate::Inspected::fixed) gives them,
/// [`Loader::keeping`](crate::Loader::keeping) takes them.
///
/// Some are secrets, so `Debug` shows the keys alone.
#[derive(Clone)]
pub struct Fixed(Vec<(&'static Key, Value)>);

/// The paths of the keys that only a restart changes.
///
/// `rate_limiting.enabled` is among them for a gateway that runs with `storage: redis`; with the buckets in memory it
/// changes at once.
pub fn restart_only() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.path)
}

/// A key that only a restart changes.
struct Key {
    path: &'static str,
    /// The value in effect as a file would give it, in one form for one value; null if there is none.
    value: fn(&GatewayConfig) -> Value,
    /// The value for a message, unless it is a secret.
    shown: fn(&Value) -> Option<String>,
    /// Whether only a restart changes it in a gateway that runs with this configuration.
    is_fixed: fn(&GatewayConfig) -> bool,
}

impl Key {
    const fn new(path: &'static str, value: fn(&GatewayConfig) -> Value) -> Self {
        Self { path, value, shown: plain, is_fixed: |_| true }
    }
}

static KEYS: [Key; 13] = [
    Key::new("server.listen", |config| written(&config.server.listen)),
    Key {
        shown: |value| plain(value).or_else(|| Some("off".to_owned())),
        ..Key::new("server.admin_listen", |config| written(&config.server.admin_listen))
    },
    Key::new("log.format", |config| written(&config.log.format)),
    Key {
        shown: |_| None,
        ..Key::new("identity.hash_key", |config| Value::Text(config.identity.hash_key.expose().to_owned()))
    },
    Key {
        is_fixed: |running| running.rate_limiting.storage == Storage::Redis,
        ..Key::new("rate_limiting.enabled", |config| written(&config.rate_limiting.enabled))
    },
    Key::new("rate_limiting.storage", |config| written(&config.rate_limiting.storage)),
    Key {
        shown: without_password,
        ..Key::new("rate_limiting.redis.url", |config| {
            Value::Text(config.rate_limiting.redis.url.with_password().expose().to_owned())
        })
    },
    Key::new("rate_limiting.redis.mode", |config| written(&config.rate_limiting.redis.mode)),
    Key::new("rate_limiting.redis.key_prefix", |config| written(&config.rate_limiting.redis.key_prefix)),
    Key::new("rate_limiting.redis.timeout_ms", |config| written(&config.rate_limiting.redis.timeout_ms)),
    Key::new("rate_limiting.redis.outage", |config| written(&config.rate_limiting.redis.outage)),
    Key {
        shown: |value| plain(value).or_else(|| Some("unset".to_owned())),
        ..Key::new("rate_limiting.redis.ca_file", |config| written(&config.rate_limiting.redis.ca_file))
    },
    Key::new("rate_limiting.max_buckets", |config| written(&config.rate_limiting.max_buckets)),
];

impl Fixed {
    /// The values of a configuration whose relative paths are as they are in its file.
    pub(crate) fn of(config: &GatewayConfig) -> Self {
        let fixed = KEYS.iter().filter(|key| (key.is_fixed)(config));
        Self(fixed.map(|key| (key, (key.value)(config))).collect())
    }

    /// Puts these values into the tree of a configuration, each where the file has its own, and tells for which keys
    /// they differ.
    pub(crate) fn keep(&self, root: &mut Node, config: &GatewayConfig) -> Vec<Diagnostic> {
        let mut kept = Vec::new();
        for (key, value) in self.0.iter().filter(|(key, value)| (key.value)(config) != *value) {
            let path = KeyPath::of(key.path);
            let at = root.find(&path).and_then(|node| node.at);
            let stays = match (key.shown)(value) {
                Some(shown) => format!("it stays {shown}"),
                None => "it stays as it is".to_owned(),
            };
            let message = format!("this changes only at a restart; until then {stays}");
            kept.push(Diagnostic::warning(Kind::NeedsRestart, path, message).at(at));
            root.put(&key.path.split('.').collect::<Vec<_>>(), Node { at, value: value.clone() });
        }
        kept
    }
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(key, _)| key.path)).finish()
    }
}

/// The rules that a file breaks only because a running gateway keeps some values.
pub(crate) fn check(root: &Node, folder: &Path, joined: &Joined) -> Vec<Diagnostic> {
    let mut broken = rules::check(root, folder, joined);
    // What its kept values name, the gateway has read when it started: it may be gone since.
    broken.retain(|problem| problem.kind != Kind::Unreadable);
    for problem in &mut broken {
        problem.message.push_str(" (with the values that the gateway keeps until a restart)");
    }
    broken
}

/// A value as a file has it.
fn written(value: &impl Serialize) -> Value {
    match serde_json::to_value(value) {
        Ok(Json::String(text)) => Value::Text(text),
        Ok(Json::Number(number)) => Value::Number(number),
        Ok(Json::Bool(value)) => Value::Bool(value),
        _ => Value::Null,
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Unresolved | Value::List(_) | Value::Map(_) => None,
    }
}

fn without_password(value: &Value) -> Option<String> {
    let Value::Text(text) = value else { return None };
    text.parse::<RedisUrl>().ok().map(|url| url.to_string())
}
