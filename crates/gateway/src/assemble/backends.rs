//! Backends from configuration.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use fairlane_config::{
    BackendUrl, GatewayConfig,
    model::{self, Auth as ConfiguredAuth},
};
use fairlane_identity::{Hasher, ModelPattern, ModelRules};

use super::{AssembleError, limits::quotas};
use crate::{
    admission::{BackendCharges, Generation, Limiter},
    dimension::Dimension,
    echo::EchoSettings,
    limits::Charges,
    proxy::{
        Auth, Backend, BackendQuota, Credential, HealthSettings, HttpTarget, Proxy, StreamingTimeouts,
        Target, Timeouts,
    },
};

pub(super) fn proxy(
    config: &GatewayConfig,
    quota: impl Fn(&str) -> Option<Arc<dyn BackendQuota>>,
    previous: Option<&Proxy>,
) -> Result<Proxy, AssembleError> {
    let backends = config
        .backends
        .iter()
        .map(|backend| self::backend(backend, quota(&backend.name)))
        .collect::<Result<Vec<_>, _>>()?;
    let request = &config.timeouts.request;
    let timeouts = Timeouts {
        connect: config.timeouts.connect,
        standard_total: request.standard.total,
        streaming: StreamingTimeouts {
            first_byte: request.streaming.first_byte,
            idle: request.streaming.idle,
            total: request.streaming.total,
        },
    };
    Ok(match previous {
        Some(previous) => previous.successor(backends, timeouts)?,
        None => Proxy::new(backends, timeouts)?,
    })
}

fn backend(backend: &model::Backend, quota: Option<Arc<dyn BackendQuota>>) -> Result<Backend, AssembleError> {
    let target = match &backend.url {
        BackendUrl::Http(server) => http_target("http", server)?,
        BackendUrl::Https(server) => http_target("https", server)?,
        BackendUrl::Echo { latency, chunk_interval } => {
            Target::Echo(EchoSettings { latency: *latency, chunk_interval: *chunk_interval })
        }
    };
    let auth = match backend.auth {
        ConfiguredAuth::XApiKey => Auth::XApiKey,
        _ => Auth::Bearer,
    };
    let credential = if backend.api_key.is_empty() {
        None
    } else {
        Some(Credential::new(auth, backend.api_key.expose())?)
    };
    let path = match &backend.health.path {
        Some(path) => {
            Some(path.parse().map_err(|_| AssembleError::Value("a backend's health path is not valid"))?)
        }
        None => None,
    };
    Ok(Backend {
        name: backend.name.as_str().into(),
        target,
        credential,
        ca_file: backend.ca_file.clone(),
        weight: backend.weight.get(),
        models: rules(&backend.models)?,
        health: HealthSettings {
            path,
            interval: backend.health.interval,
            failures: backend.health.failures.get(),
        },
        quota,
    })
}

fn http_target(scheme: &str, server: &fairlane_config::ServerUrl) -> Result<Target, AssembleError> {
    let url = format!("{scheme}://{}{}", server.authority(), server.base_path());
    Ok(Target::Http(HttpTarget::parse(&url)?))
}

fn rules(patterns: &[fairlane_config::ModelPattern]) -> Result<ModelRules, AssembleError> {
    patterns
        .iter()
        .map(|pattern| pattern.as_str().parse::<ModelPattern>())
        .collect::<Result<_, _>>()
        .map_err(|_| AssembleError::Value("a model pattern is not valid"))
}

/// The limit of a backend, if it has one.
pub(super) fn quota(
    charges: &Charges,
    limiter: &Arc<Limiter>,
    generation: Generation,
) -> Option<Arc<dyn BackendQuota>> {
    let quota = BackendCharges::new(Arc::clone(limiter), charges.clone(), generation);
    (!charges.is_empty()).then(|| Arc::new(quota) as Arc<dyn BackendQuota>)
}

/// What a request is charged at each backend, by the backend's name.
pub(super) fn charges(
    config: &GatewayConfig,
    hasher: &Hasher,
) -> Result<HashMap<Arc<str>, Charges>, AssembleError> {
    let mut all = HashMap::new();
    if !config.rate_limiting.enabled {
        return Ok(all);
    }
    let per_backend = &config.rate_limiting.limits.per_backend;
    for backend in &config.backends {
        let limit = per_backend.overrides.get(&backend.name).unwrap_or(&per_backend.limit);
        let digest = hasher.backend(&backend.name);
        let charges = Charges::of_identity(Dimension::Backend, digest, &quotas(limit)?);
        all.insert(backend.name.as_str().into(), charges);
    }
    Ok(all)
}

/// Exact names that backends serve, each once, in order; a wildcard names no model.
pub(super) fn listed_models(config: &GatewayConfig) -> Vec<Box<str>> {
    let exact = config
        .backends
        .iter()
        .flat_map(|backend| &backend.models)
        .filter(|pattern| pattern.prefix().is_none())
        .map(|pattern| Box::from(pattern.as_str()));
    exact.collect::<BTreeSet<_>>().into_iter().collect()
}
