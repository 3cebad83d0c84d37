//! The store of buckets from configuration.

use std::{sync::Arc, time::Duration};

use fairlane_config::{
    GatewayConfig,
    model::{self, RedisMode, Storage},
};
use fairlane_limiter::{
    MemoryLimits, MemoryStore, RedisSettings, RedisStore,
    redis::{Mode, Tls},
};

use super::{AssembleError, limits};
use crate::{
    admission::{Limiter, Outage},
    clock::TokioClock,
    telemetry::Telemetry,
};

pub(super) fn limiter(
    config: &GatewayConfig,
    clock: TokioClock,
    telemetry: Arc<Telemetry>,
) -> Result<Limiter, AssembleError> {
    if let Some(settings) = redis_settings(config)? {
        let outage = match config.rate_limiting.redis.outage {
            model::Outage::FailOpen => Outage::FailOpen,
            // What is not known to let requests through refuses them.
            _ => Outage::FailClosed,
        };
        if outage == Outage::FailOpen {
            tracing::warn!("outage: fail_open: while Redis is out, requests pass unmetered");
        }
        return Ok(Limiter::remote(Arc::new(RedisStore::new(settings)?), outage, telemetry));
    }
    let memory = MemoryLimits {
        max_buckets: config.rate_limiting.max_buckets.get(),
        max_pinned: limits::known_buckets(config),
    };
    Ok(Limiter::new(MemoryStore::new(memory, clock), telemetry))
}

/// How Redis is spoken to, if the limits are there; `None` also where nothing is limited.
///
/// # Errors
///
/// What validation cannot see: the certificates to trust cannot be read.
pub fn redis_settings(config: &GatewayConfig) -> Result<Option<RedisSettings>, AssembleError> {
    let rate_limiting = &config.rate_limiting;
    match rate_limiting.storage {
        Storage::Redis if rate_limiting.enabled => settings(&rate_limiting.redis).map(Some),
        _ => Ok(None),
    }
}

fn settings(redis: &model::Redis) -> Result<RedisSettings, AssembleError> {
    let mode = match redis.mode {
        RedisMode::Standalone => Mode::Standalone,
        RedisMode::Sentinel => Mode::Sentinel,
        RedisMode::Cluster => Mode::Cluster,
        _ => return Err(AssembleError::Value("this way of running Redis is not supported")),
    };
    let mut settings = RedisSettings::parse(redis.url.with_password().expose(), mode)?;
    settings.key_prefix.clone_from(&redis.key_prefix);
    settings.timeout = Duration::from_millis(redis.timeout_ms.get());
    if let (Some(tls), Some(path)) = (&mut settings.tls, &redis.ca_file) {
        let roots = std::fs::read(path)
            .map_err(|source| AssembleError::Certificates { path: path.clone(), source })?;
        *tls = Tls::with_roots(roots);
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use fairlane_config::model::Redis;
    use fairlane_limiter::redis::{Address, Topology};

    use super::*;

    fn check(url: &str, mode: RedisMode) -> RedisSettings {
        settings(&Redis { url: url.parse().unwrap(), mode, ..Redis::default() }).unwrap()
    }

    #[test]
    fn every_form_of_a_url_means_the_same_to_the_client() {
        let one = check("rediss://limiter:p%40ss@h:1/3", RedisMode::Standalone);
        assert_eq!(one.topology, Topology::Standalone { server: Address::new("h", 1) });
        assert_eq!((one.username.as_deref(), one.database, one.tls.is_some()), (Some("limiter"), 3, true));
        assert_eq!(one.password, Some(fairlane_limiter::redis::Password::new("p@ss")));
        assert_eq!((one.key_prefix.as_str(), one.timeout), ("fairlane", Duration::from_millis(50)));

        let cluster = check("redis://a:1,b", RedisMode::Cluster);
        let seeds = vec![Address::new("a", 1), Address::new("b", 6_379)];
        assert_eq!(cluster.topology, Topology::Cluster { seeds });

        let sentinel = check("redis+sentinel://:pw@[::1],b:2/main/4", RedisMode::Sentinel);
        let sentinels = vec![Address::new("::1", 26_379), Address::new("b", 2)];
        assert_eq!(sentinel.topology, Topology::Sentinel { sentinels, master: "main".to_owned() });
        assert_eq!((sentinel.username, sentinel.database), (None, 4));
    }

    #[test]
    fn certificates_that_cannot_be_read_are_told_with_their_path() {
        let redis = Redis {
            url: "rediss://h".parse().unwrap(),
            ca_file: Some("/nowhere/ca.pem".into()),
            ..Redis::default()
        };
        let error = settings(&redis).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    }
}
