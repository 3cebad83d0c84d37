//! What a gateway keeps for its whole life, however often its configuration is reloaded.

use std::sync::Arc;

use fairlane_config::{GatewayConfig, model};
use fairlane_identity::Hasher;

use super::{AssembleError, max_buffered_bytes, queue, routes, store, telemetry};
use crate::{
    admission::{Admission, Limiter},
    clock::TokioClock,
    edge::Room,
};

/// The buckets and those who wait for them, and the key by which both are named.
#[derive(Debug)]
pub struct Foundation {
    pub(super) hasher: Hasher,
    /// The store of buckets.
    pub limiter: Arc<Limiter>,
    /// Decides and holds; each configuration has a [successor](Admission::successor) of it.
    pub admission: Arc<Admission>,
    /// The memory for bodies.
    pub room: Room,
}

impl Foundation {
    /// Lays it for a gateway that begins with `config`. Must be called on a Tokio runtime.
    ///
    /// # Errors
    ///
    /// What validation cannot see: the certificates to check Redis by cannot be read, or the system refuses random bytes.
    pub fn lay(config: &GatewayConfig) -> Result<Self, AssembleError> {
        let clock = TokioClock::start();
        let hasher = hasher(&config.identity)?;
        let telemetry = Arc::new(telemetry(config, &routes(config)));
        let limiter = Arc::new(store::limiter(config, clock, Arc::clone(&telemetry))?);
        let admission = Arc::new(Admission::new(Arc::clone(&limiter), queue(config), clock, telemetry));
        Ok(Self { hasher, limiter, admission, room: Room::new(max_buffered_bytes(config)) })
    }
}

fn hasher(identity: &model::Identity) -> Result<Hasher, AssembleError> {
    let random;
    let key = if identity.hash_key.is_empty() {
        tracing::warn!("identity.hash_key is not set: names are hashed with a key of this process only");
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| AssembleError::Random)?;
        random = bytes;
        &random[..]
    } else {
        identity.hash_key.expose().as_bytes()
    };
    Hasher::new(key).map_err(|_| AssembleError::Value("the hash key is empty"))
}
