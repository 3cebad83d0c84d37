use std::path::Path;

use super::Rules;
use crate::{diagnostic::KeyPath, model::RedisMode, tree::Value, values::RedisUrl};

const URL: &str = "rate_limiting.redis.url";

impl Rules<'_> {
    pub(super) fn redis(&mut self, folder: &Path) {
        if self.text("rate_limiting.storage") == Some("redis") {
            self.shared_hash_key();
        }
        if let Some(url) = self.text(URL).and_then(|text| text.parse::<RedisUrl>().ok()) {
            if let Some(mode) = self.redis_mode() {
                self.url_fits_mode(&url, mode);
            }
            self.certificates(
                KeyPath::of("rate_limiting.redis.ca_file"),
                url.is_tls(),
                "a `rediss` URL",
                folder,
            );
        }
    }

    /// Gateways that hash one user in two ways would count two users.
    fn shared_hash_key(&mut self) {
        let hash_key = "identity.hash_key";
        if self.text(hash_key) != Some("") {
            return;
        }
        // A key that the file does not give has no place there: the choice of the storage has.
        let is_in_file = self.find(hash_key).is_some_and(|node| node.at.is_some());
        self.conflict(
            KeyPath::of(if is_in_file { hash_key } else { "rate_limiting.storage" }),
            "gateways that share their limits must hash identities alike, and `identity.hash_key` is empty",
            "set the variable FAIRLANE_HASH_KEY (or `identity.hash_key`) to one secret, the same for all of them",
        );
    }

    /// The mode, unless what is there is none.
    fn redis_mode(&self) -> Option<RedisMode> {
        let known = [RedisMode::Standalone, RedisMode::Sentinel, RedisMode::Cluster];
        match self.find("rate_limiting.redis.mode").map(|node| &node.value) {
            None => Some(RedisMode::default()),
            Some(Value::Text(text)) => known.into_iter().find(|mode| mode.as_str() == text),
            Some(_) => None,
        }
    }

    fn url_fits_mode(&mut self, url: &RedisUrl, mode: RedisMode) {
        let s = if url.is_tls() { "s" } else { "" };
        let (message, help) = match (mode, url.master()) {
            (RedisMode::Standalone, Some(_)) => (
                "the URL names sentinels, and `mode` is standalone",
                format!("set `mode` to sentinel, or write one server, as redis{s}://host:6379"),
            ),
            (RedisMode::Standalone, None) if url.servers().len() > 1 => (
                "the URL names several servers, and `mode` is standalone",
                format!(
                    "set `mode` to cluster; sentinels are written redis{s}+sentinel://host1:26379,host2:26379/name"
                ),
            ),
            (RedisMode::Sentinel, None) => (
                "the URL names no sentinels, and `mode` is sentinel",
                format!(
                    "write redis{s}+sentinel://host1:26379,host2:26379/name, with the name of the master"
                ),
            ),
            (RedisMode::Cluster, Some(_)) => (
                "the URL names sentinels, and `mode` is cluster",
                format!("set `mode` to sentinel, or write some nodes, as redis{s}://host1:6379,host2:6379"),
            ),
            (RedisMode::Cluster, None) if url.database().is_some() => {
                ("a cluster has no databases with numbers", "remove the number after the servers".to_owned())
            }
            _ => return,
        };
        self.conflict(KeyPath::of(URL), message, &help);
    }
}
