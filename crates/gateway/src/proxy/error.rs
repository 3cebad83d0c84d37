//! Why a request was not answered by a backend.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fairlane_limiter::{Denied, StoreError};

use crate::body::BoxError;

/// Why a request was not answered by a backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// Every backend that serves the model is resting or down.
    #[error("no healthy backend serves the request")]
    NoHealthyBackend,
    /// Every healthy backend that serves the model is at its own limit.
    #[error("every backend is at its limit")]
    AllExhausted {
        /// The backend with the shortest wait.
        backend: Arc<str>,
        /// That wait.
        retry_after: Duration,
        /// What its buckets hold, and which of them refused.
        denied: Box<Denied>,
    },
    /// No healthy backend's limit can ever hold as much as the request asks for.
    #[error("the request is larger than any backend's limit")]
    ExceedsLimit,
    /// No connection could be made, or it broke before an answer came.
    #[error("the backend is unavailable")]
    Unavailable {
        /// The backend tried last.
        backend: Arc<str>,
        /// Whether the request, or a part of it, may have reached it.
        reached: bool,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// No answer came in time.
    #[error("the backend did not answer in time")]
    Timeout {
        /// The backend it was sent to, if the time was not over before.
        backend: Option<Arc<str>>,
        /// Whether the request, or a part of it, may have reached it.
        reached: bool,
    },
    /// The store that counts the backends' limits could not decide.
    #[error("the store of the backends' limits could not decide")]
    StoreUnavailable(#[source] StoreError),
}

/// Why the backends cannot be used as they are described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The certificates of a backend could not be read.
    #[error("the certificates in {} cannot be read", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] BoxError),
}

// === impl ForwardError ===

impl ForwardError {
    /// Whether the request may have reached a backend. One that reached none is given its charges back.
    pub fn reached_backend(&self) -> bool {
        match self {
            Self::Unavailable { reached, .. } | Self::Timeout { reached, .. } => *reached,
            Self::NoHealthyBackend
            | Self::AllExhausted { .. }
            | Self::ExceedsLimit
            | Self::StoreUnavailable(_) => false,
        }
    }
}
