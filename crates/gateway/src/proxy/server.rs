//! The other end of a backend's connections.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::client::{BackendClient, TrustedRoots};
use super::health::Health;
use super::{HttpTarget, ProxyError, Target};
use crate::echo::EchoSettings;

/// Where requests go.
pub(super) enum Server {
    Http(Remote),
    Echo(EchoSettings),
}

/// A server elsewhere, and the connections to it.
pub(super) struct Remote {
    pub(super) client: BackendClient,
    way: Way,
}

/// What the connections were made by. As long as it is the same they are kept.
#[derive(PartialEq)]
struct Way {
    target: HttpTarget,
    connect: Duration,
    /// The content of the file that certificates are checked against, if it is not the system's.
    certificates: Option<Vec<u8>>,
}

// === impl Server ===

impl Server {
    /// Prepares connections to a target, or keeps those of `previous`.
    ///
    /// # Errors
    ///
    /// When the certificates to check it against cannot be read.
    pub(super) fn at(
        target: Target,
        connect: Duration,
        ca_file: Option<&Path>,
        roots: &mut TrustedRoots,
        health: &Arc<Health>,
        previous: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, ProxyError> {
        let target = match target {
            Target::Http(target) => target,
            Target::Echo(settings) => return Ok(Arc::new(Self::Echo(settings))),
        };
        let certificates = match ca_file {
            Some(path) if target.is_https() => Some(fs::read(path).map_err(|source| {
                ProxyError::Certificates { path: path.to_owned(), source: source.into() }
            })?),
            _ => None,
        };
        let way = Way { target, connect, certificates };
        if let Some(previous) = previous
            && matches!(&**previous, Self::Http(remote) if remote.way == way)
        {
            return Ok(Arc::clone(previous));
        }
        let tls = roots.config(way.target.is_https(), ca_file.zip(way.certificates.as_deref()))?;
        let client = BackendClient::new(&way.target, tls, connect, Arc::clone(health));
        Ok(Arc::new(Self::Http(Remote { client, way })))
    }

    /// Whether it is at the target.
    pub(super) fn is_at(&self, target: &Target) -> bool {
        match (self, target) {
            (Self::Http(remote), Target::Http(target)) => remote.way.target == *target,
            (Self::Echo(_), Target::Echo(_)) => true,
            _ => false,
        }
    }
}

// === impl Remote ===

impl Remote {
    /// Its address.
    pub(super) const fn target(&self) -> &HttpTarget {
        &self.way.target
    }
}
