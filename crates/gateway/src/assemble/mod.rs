//! Configuration in, working parts out: the one place where the leaves' types are made from configured values.

mod backends;
mod foundation;
mod identities;
mod limits;
mod store;

use std::{collections::HashMap, io, num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use fairlane_config::{
    GatewayConfig,
    model::{self, TokenEstimator},
};
use fairlane_fair_queue::{Class, ClassLimits, Limits, Reason, TenantKey, Weight};
use fairlane_identity::{AddressSet, ClientPrefix, Directory, DirectoryError, TrustedProxies};
use fairlane_limiter::{QuotaError, redis::SettingsError};
use parking_lot::Mutex;

pub use self::{foundation::Foundation, store::redis_settings};

use crate::{
    admission::{Admission, Edge, Generation, Limiter, QueueSettings},
    edge::{EdgeSettings, EdgeTimeouts, Room, Workers},
    limits::{Charges, IdentityLimits, QuotaTable},
    proxy::{InvalidCredential, InvalidTarget, Proxy, ProxyError},
    request::{Estimator, Routes, TokenSettings},
    telemetry::Telemetry,
};

/// What a request meets, in the order in which it meets them.
#[derive(Debug)]
pub struct Parts {
    /// Every metric.
    pub telemetry: Arc<Telemetry>,
    /// Whose word on a caller's address is taken.
    pub trusted_proxies: TrustedProxies,
    /// The limits on the wire.
    pub edge: Edge,
    /// Which paths exist.
    pub routes: Routes,
    /// Who may call.
    pub directory: Directory,
    /// Whether somebody without a key may call too.
    pub permissive: bool,
    /// The bounds on a body.
    pub body: BodyBounds,
    /// The memory for all bodies.
    pub room: Room,
    /// How many bytes of them there may be, from when these parts are in force.
    max_buffered_bytes: usize,
    /// Exact names of models that the list of models tells.
    pub models: Vec<Box<str>>,
    /// What callers are charged.
    pub limits: IdentityLimits,
    /// How their tokens are counted.
    pub tokens: TokenCounting,
    /// Decides and holds.
    pub admission: Arc<Admission>,
    /// The store, for metrics.
    pub limiter: Arc<Limiter>,
    /// The backends.
    pub proxy: Arc<Proxy>,
    /// What a request is charged at each of them.
    pub backend_charges: HashMap<Arc<str>, Charges>,
    /// The weight of each tenant.
    pub weights: HashMap<TenantKey, Weight>,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// Which in the row of limits these are.
    generation: Generation,
    /// The quotas that are to be put in force.
    quotas: Mutex<QuotaTable>,
}

/// How a body is read.
#[derive(Clone, Copy, Debug)]
pub struct BodyBounds {
    /// Its size, in bytes.
    pub max_bytes: usize,
    /// The longest pause in it.
    pub progress: Duration,
    /// All of it, from the request's head: no class of request may take longer.
    pub total: Duration,
}

/// How tokens are counted before a backend has counted them.
#[derive(Clone, Copy, Debug)]
pub struct TokenCounting {
    /// What is taken for a token, and for an answer.
    pub settings: TokenSettings,
    /// What counts a prompt.
    pub estimator: Estimator,
}

/// A configuration that was accepted cannot be put to work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A limit is out of the limiter's range.
    #[error("a limit cannot be kept")]
    Quota(#[from] QuotaError),
    /// The API keys contradict each other.
    #[error("the API keys cannot be used")]
    Directory(#[from] DirectoryError),
    /// A backend's address.
    #[error("a backend's address cannot be used")]
    Target(#[from] InvalidTarget),
    /// A backend's credential.
    #[error("a backend's API key cannot be sent")]
    Credential(#[from] InvalidCredential),
    /// The backends' client.
    #[error("the backends cannot be set up")]
    Proxy(#[from] ProxyError),
    /// Redis is not described as the client wants it.
    #[error("the Redis of the limits cannot be used")]
    Redis(#[from] SettingsError),
    /// The certificates that Redis is checked against.
    #[error("the certificates in {} cannot be read", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system gives no random bytes for a hash key.
    #[error("the system gives no random bytes")]
    Random,
    /// A value that validation should have refused.
    #[error("{0}")]
    Value(&'static str),
}

/// Builds everything that a request meets, over what the gateway keeps. Must be called on a Tokio runtime.
///
/// Nothing that serves requests is changed: that is for [`Parts::commit`] and for whoever puts the parts in the place of
/// `previous`, the parts of the configuration before. Of these, connections to backends and what is known of their health
/// are kept where a backend is the same.
///
/// # Errors
///
/// What validation cannot see: certificates that cannot be read, say.
pub fn assemble(
    config: &GatewayConfig,
    foundation: &Foundation,
    previous: Option<&Parts>,
) -> Result<Parts, AssembleError> {
    let request = &config.timeouts.request;
    let Foundation { hasher, limiter, admission, room } = foundation;
    let generation = limiter.generation().next();
    let routes = routes(config);
    let telemetry = Arc::new(telemetry(config, &routes));

    let directory = identities::directory(&config.api_keys, hasher)?;
    let edge_limits = limits::edge(config, hasher, limiter)?;
    let limits = limits::identity(config, hasher, &directory, limiter)?;
    let backend_charges = backends::charges(config, hasher)?;
    let quotas = limits::table(config, hasher, &directory, &edge_limits, &limits, &backend_charges);
    let tokens = tokens(config);
    if limits.count_tokens() {
        tokens.estimator.prepare();
    }
    let quota = |name: &str| backends::quota(backend_charges.get(name)?, limiter, generation);
    let proxy = backends::proxy(config, quota, previous.map(|parts| &*parts.proxy))?;
    Ok(Parts {
        trusted_proxies: TrustedProxies::new(
            config.server.trusted_proxies.iter().map(model_range).collect::<AddressSet>(),
        ),
        edge: Edge::new(Arc::clone(limiter), edge_limits),
        routes,
        permissive: config.api_keys.mode == model::AuthMode::Permissive,
        body: BodyBounds {
            max_bytes: usize::try_from(config.server.max_body_bytes.get()).unwrap_or(usize::MAX),
            progress: config.server.timeouts.body_progress,
            total: request.standard.total.max(request.streaming.total),
        },
        room: room.clone(),
        max_buffered_bytes: max_buffered_bytes(config),
        models: backends::listed_models(config),
        weights: identities::weights(config, hasher, &directory),
        directory,
        limits,
        tokens,
        admission: Arc::new(admission.successor(queue(config), generation)),
        limiter: Arc::clone(limiter),
        proxy: Arc::new(proxy),
        backend_charges,
        telemetry,
        drain_timeout: config.server.drain_timeout,
        generation,
        quotas: Mutex::new(quotas),
    })
}

impl Parts {
    /// Puts the limits of these parts in force, for all that is held or under way too. Cannot fail.
    pub fn commit(&self) {
        self.limiter.adopt(std::mem::take(&mut *self.quotas.lock()), self.generation);
        self.admission.take_over(&self.weights, Arc::clone(&self.telemetry));
        self.room.resize(self.max_buffered_bytes);
    }

    /// Whether their limits are those that hold.
    pub fn are_in_force(&self) -> bool {
        self.limiter.generation() == self.generation
    }
}

fn max_buffered_bytes(config: &GatewayConfig) -> usize {
    usize::try_from(config.server.max_buffered_bytes.get()).unwrap_or(usize::MAX)
}

fn routes(config: &GatewayConfig) -> Routes {
    Routes::new(config.server.paths.iter().map(String::as_str))
}

fn telemetry(config: &GatewayConfig, routes: &Routes) -> Telemetry {
    Telemetry::new(
        config.rate_limiting.fair_queuing.tenant_dimension.as_str(),
        Reason::of(Class::Requests).iter().map(|reason| reason.as_str()),
        routes.all().iter().map(|route| &*route.path),
    )
}

/// What the accept loop is told.
pub fn edge_settings(config: &GatewayConfig) -> EdgeSettings {
    let server = &config.server;
    let proxies: AddressSet = server.trusted_proxies.iter().map(model_range).collect();
    EdgeSettings {
        max_connections: server.max_connections.get(),
        max_connections_per_client: server.max_connections_per_client.get(),
        max_header_bytes: usize::try_from(server.max_header_bytes.get()).unwrap_or(usize::MAX),
        timeouts: EdgeTimeouts {
            first_byte: server.timeouts.first_byte,
            header: server.timeouts.header,
            body_progress: server.timeouts.body_progress,
            keep_alive: server.timeouts.keep_alive,
        },
        ipv4_prefix: server.ipv4_prefix.get(),
        ipv6_prefix: server.ipv6_prefix.get(),
        // A proxy stands for many clients.
        exempt: Arc::new(move |address| proxies.contains(address)),
        workers: Workers::default(),
    }
}

fn model_range(range: &fairlane_config::AddressRange) -> ipnet::IpNet {
    range.network()
}

fn prefix(config: &GatewayConfig) -> Result<ClientPrefix, AssembleError> {
    ClientPrefix::new(config.server.ipv4_prefix.get(), config.server.ipv6_prefix.get())
        .map_err(|_| AssembleError::Value("a client's address prefix is longer than an address"))
}

/// How requests are held, if they are: queued for want of requests, deferred for want of tokens.
fn queue(config: &GatewayConfig) -> Option<QueueSettings> {
    let rate_limiting = &config.rate_limiting;
    let (fair, deferred) = (&rate_limiting.fair_queuing, &rate_limiting.deferred_admission);
    let requests = fair.enabled.then(|| ClassLimits {
        max_held: fair.max_total_queued,
        max_held_per_tenant: fair.max_queue_depth_per_tenant,
        max_wait: Duration::from_millis(fair.max_wait_ms.get()),
    });
    let tokens = deferred.enabled.then(|| ClassLimits {
        max_held: deferred.max_held,
        max_held_per_tenant: deferred.max_held_per_tenant,
        max_wait: Duration::from_millis(deferred.max_wait_ms.get()),
    });
    let holds = requests.is_some() || tokens.is_some();
    (rate_limiting.enabled && holds).then(|| QueueSettings {
        limits: Limits {
            requests,
            tokens,
            max_tenants: fair.max_tenants,
            max_in_flight: u32::try_from(fair.max_in_flight.get())
                .ok()
                .and_then(NonZeroU32::new)
                .unwrap_or(NonZeroU32::MAX),
        },
        smallest_total: config.timeouts.request.smallest_total(),
        tenant_dimension: fair.tenant_dimension.as_str(),
        max_body_bytes: config.server.max_buffered_bytes.get(),
    })
}

/// How tokens are counted before a backend has counted them.
fn tokens(config: &GatewayConfig) -> TokenCounting {
    let tokens = &config.rate_limiting.tokens;
    TokenCounting {
        settings: TokenSettings {
            default_output: tokens.default_output,
            bytes_per_token: tokens.bytes_per_token,
        },
        estimator: match tokens.estimator {
            TokenEstimator::Tiktoken => Estimator::Tiktoken,
            _ => Estimator::Bytes,
        },
    }
}
