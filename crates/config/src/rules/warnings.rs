//! What is accepted and hardly meant.

mod nobody;
mod room;
mod waiting;

use std::collections::{BTreeSet, HashSet};

use super::Written;
use crate::{
    diagnostic::{Diagnostic, KeyPath, Kind},
    model::{AuthMode, GatewayConfig, Outage, Storage},
    suggest,
    tenants::{Weights, tenants, tier_weights},
    tree::Node,
};

/// Looks for what has no effect, or another than it seems. `written`: the secrets that the file gives itself.
pub(crate) fn warnings(config: &GatewayConfig, root: &Node, written: &Written) -> Vec<Diagnostic> {
    let mut watch = Watch { config, root, found: Vec::new() };
    watch.room_for_bodies();
    watch.room_for_buckets();
    watch.backends();
    watch.keys();
    watch.limits();
    watch.tokens();
    watch.waiting();
    watch.overrides();
    watch.weights();
    watch.storage();
    watch.written(written);
    watch.found
}

struct Watch<'a> {
    config: &'a GatewayConfig,
    root: &'a Node,
    found: Vec<Diagnostic>,
}

impl Watch<'_> {
    fn warn(&mut self, path: KeyPath, message: &str, help: &str) {
        let place = self.root.place(&path);
        self.found.push(Diagnostic::warning(Kind::NoEffect, path, message).help(help).at(place));
    }

    fn risk(&mut self, path: KeyPath, message: &str, help: &str) {
        let place = self.root.place(&path);
        self.found.push(Diagnostic::warning(Kind::Risk, path, message).help(help).at(place));
    }

    /// A secret in the file is read by all who read the file, and stays in what it was copied to.
    fn written(&mut self, written: &Written) {
        if let Some(url) = &written.redis {
            self.risk(
                url.clone(),
                "the password is written in the file",
                "take it from the environment, as redis://user:${REDIS_PASSWORD}@host:6379",
            );
        }
        for path in &written.own {
            self.risk(
                path.clone(),
                "this secret is written in the file in plain text",
                "take it from the environment, as \"${NAME}\"",
            );
        }
        // There may be a hundred thousand: one line for all of them says it.
        if let [first, others @ ..] = &written.keys[..] {
            let message = match others.len() {
                0 => "this key is written in the file in plain text".to_owned(),
                1 => "this key and another are written in the file in plain text".to_owned(),
                more => format!("this key and {more} others are written in the file in plain text"),
            };
            let help = "take it from the environment, as \"${NAME}\", or give its `sha256`, or keep keys in `api_keys.file`";
            self.risk(first.clone(), &message, help);
        }
    }

    fn backends(&mut self) {
        let config = self.config;
        for (n, backend) in config.backends.iter().enumerate() {
            let path = KeyPath::of("backends").index(n);
            if backend.url.is_echo() && backend.health.path.is_some() {
                self.warn(
                    path.key("health").key("path"),
                    "the embedded backend is not asked for its health",
                    "remove the path",
                );
            }
        }
    }

    fn keys(&mut self) {
        let keys = &self.config.api_keys;
        if keys.mode == AuthMode::Blocking && keys.keys.is_empty() {
            self.warn(
                KeyPath::of("api_keys.keys"),
                "there is no key, so every request will be answered 401",
                "add keys, or set `api_keys.mode` to permissive",
            );
        }
    }

    fn limits(&mut self) {
        let limiting = &self.config.rate_limiting;
        let limits = KeyPath::of("rate_limiting.limits");
        let given = self.root.find(&limits).map_or(&[][..], Node::entries);
        for entry in given {
            if entry.node.entries().is_empty() {
                self.warn(limits.key(&entry.key), "this limits nothing", "give a rate, or remove it");
            }
        }
        self.limits_of_nobody();
        self.limits_that_lift_nothing();
        let with_own_limit = self.config.api_keys.keys.iter().position(|key| key.rate_limit.is_some());
        let enabled = KeyPath::of("rate_limiting.enabled");
        if let Some(n) = with_own_limit
            && !limiting.enabled
            && self.root.find(&enabled).is_none()
        {
            self.warn(
                KeyPath::of("api_keys.keys").index(n).key("rate_limit"),
                "rate limiting is off without `rate_limiting.limits`, so this limits nothing",
                "set `rate_limiting.enabled` to true",
            );
        }
        if limiting.enabled && given.is_empty() && with_own_limit.is_none() {
            self.warn(
                KeyPath::of("rate_limiting.enabled"),
                "there is no limit",
                "add `rate_limiting.limits`",
            );
        }
    }

    fn storage(&mut self) {
        let limiting = &self.config.rate_limiting;
        let path = |key| KeyPath::of("rate_limiting").key(key);
        let [has_redis, has_max_buckets] =
            ["redis", "max_buckets"].map(|key| self.root.find(&path(key)).is_some());
        if limiting.storage == Storage::Memory {
            if has_redis {
                self.warn(
                    path("redis"),
                    "the buckets are in memory, so this has no effect",
                    "set `rate_limiting.storage` to redis, or remove it",
                );
            }
            return;
        }
        if !limiting.enabled {
            self.warn(
                path("storage"),
                "rate limiting is off, so nothing is counted in Redis",
                "add `rate_limiting.limits`, or set `rate_limiting.enabled` to true",
            );
        }
        if has_max_buckets {
            self.warn(
                path("max_buckets"),
                "this bounds buckets in memory; in Redis each expires by itself",
                "remove it",
            );
        }
        if limiting.redis.outage == Outage::FailOpen {
            self.risk(
                path("redis").key("outage"),
                "while Redis cannot decide, every request passes unmetered",
                "with fail_closed it is answered 503",
            );
        }
    }

    fn overrides(&mut self) {
        let config = self.config;
        let limits = &config.rate_limiting.limits;
        let keys = &config.api_keys.keys;
        let users: HashSet<_> = keys.iter().filter_map(|key| key.user.as_ref()).collect();
        let teams: HashSet<_> = keys.iter().filter_map(|key| key.team.as_ref()).collect();
        let ids: HashSet<_> = keys.iter().map(|key| key.id.as_str()).collect();
        let backends: HashSet<_> = config.backends.iter().map(|backend| backend.name.as_str()).collect();
        let served = || config.backends.iter().flat_map(|backend| &backend.models);

        let per_user = limits.per_user.overrides.keys().filter(|name| !users.contains(name));
        let known = users.iter().map(|name| name.as_str());
        self.misnamed("per_user", per_user.map(|name| name.as_str()), "no key belongs to this user", known);
        let per_team = limits.per_team.overrides.keys().filter(|name| !teams.contains(name));
        let known = teams.iter().map(|name| name.as_str());
        self.misnamed("per_team", per_team.map(|name| name.as_str()), "no key belongs to this team", known);
        let per_key = limits.per_api_key.overrides.keys().filter(|id| !ids.contains(id.as_str()));
        self.misnamed("per_api_key", per_key.map(String::as_str), "no key has this id", ids.iter().copied());
        let per_backend =
            limits.per_backend.overrides.keys().filter(|name| !backends.contains(name.as_str()));
        let known = backends.iter().copied();
        self.misnamed("per_backend", per_backend.map(String::as_str), "no backend has this name", known);
        let per_model =
            limits.per_model.overrides.keys().filter(|model| !served().any(|other| model.overlaps(other)));
        self.unmatched("per_model", per_model.map(|model| model.as_str()), "no backend serves such a model");

        let twice = keys.iter().filter(|key| key.rate_limit.is_some());
        let twice = twice.filter(|key| limits.per_api_key.overrides.contains_key(&key.id));
        self.unmatched(
            "per_api_key",
            twice.map(|key| key.id.as_str()),
            "the key's own `rate_limit` goes before this",
        );
    }

    /// Overrides that match nothing; what they could have meant is among the `known` names.
    fn misnamed<'k>(
        &mut self,
        dimension: &str,
        keys: impl Iterator<Item = &'k str>,
        message: &str,
        known: impl Iterator<Item = &'k str> + Clone,
    ) {
        for key in keys {
            self.unmatched(dimension, std::iter::once(key), message);
            if let (Some(close), Some(warning)) =
                (suggest::closest_name(key, known.clone()), self.found.last_mut())
            {
                warning.help = Some(format!("did you mean `{close}`?"));
            }
        }
    }

    fn unmatched<'k>(&mut self, dimension: &str, keys: impl Iterator<Item = &'k str>, message: &str) {
        let overrides = KeyPath::of("rate_limiting.limits").key(dimension).key("overrides");
        for key in keys {
            let place = self.root.place_of_key(&overrides, key);
            let warning = Diagnostic::warning(Kind::NoEffect, overrides.key(key), message).at(place);
            self.found.push(warning.help("remove it, or correct its name"));
        }
    }

    fn weights(&mut self) {
        let config = self.config;
        let queuing = &config.rate_limiting.fair_queuing;
        let weights = Weights::new(&queuing.weights);
        let mut used = BTreeSet::new();
        for (tenant, keys) in tenants(config) {
            let named = weights.of(tenant, &keys).map(|(n, _)| used.insert(n)).is_some();
            let by_tier: BTreeSet<_> = tier_weights(config, &keys).collect();
            if by_tier.len() > 1 && !named {
                let last = keys
                    .iter()
                    .filter(|key| key.tier.is_some())
                    .filter_map(|key| config.api_keys.keys.iter().position(|other| other.id == key.id));
                let path = KeyPath::of("api_keys.keys").index(last.max().unwrap_or(0)).key("tier");
                let message = format!(
                    "another key of the same tenant has a tier of another weight: the largest, {}, counts",
                    by_tier.last().map_or(0, |weight| weight.get())
                );
                self.warn(
                    path,
                    &message,
                    "give the keys of one tenant one tier, or the tenant an entry in `weights`",
                );
            }
        }
        let path = KeyPath::of("rate_limiting.fair_queuing.weights");
        for (n, weight) in queuing.weights.iter().enumerate().filter(|(n, _)| !used.contains(n)) {
            let is_id = config.api_keys.keys.iter().any(|key| key.id == weight.tenant.as_str());
            let help = if is_id {
                "it is the id of a key: name the key itself (`${…}` works)".to_owned()
            } else {
                format!(
                    "tenants are made by `tenant_dimension` ({}), else by the first of user, team and key",
                    queuing.tenant_dimension.as_str()
                )
            };
            self.warn(path.index(n).key("tenant"), "no key makes this tenant", &help);
        }
    }
}
