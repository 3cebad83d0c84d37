//! What a backend is, as the rest of the gateway describes it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fairlane_identity::ModelRules;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderValue, uri::PathAndQuery};

use super::headers::X_API_KEY;
use super::{BackendQuota, Target};

/// One backend.
#[derive(Debug, Clone)]
pub struct Backend {
    /// What it is called in metrics and logs.
    pub name: Arc<str>,
    /// Where it is.
    pub target: Target,
    /// What it wants to be shown; the caller's own credential never reaches it.
    pub credential: Option<Credential>,
    /// A PEM file whose certificates are trusted for an `https` target instead of the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Its share of the requests, relative to the other candidates'. Zero is taken as one.
    pub weight: u32,
    /// The models it serves.
    pub models: ModelRules,
    /// How it is watched.
    pub health: HealthSettings,
    /// What a request to it is charged to, if it has a limit of its own.
    pub quota: Option<Arc<dyn BackendQuota>>,
}

/// The form in which a backend wants its credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Auth {
    /// `Authorization: Bearer …`, as OpenAI's API has it.
    #[default]
    Bearer,
    /// `x-api-key: …`, as Anthropic's API has it.
    XApiKey,
}

/// A backend's credential, ready to be sent. `Debug` does not show it.
#[derive(Clone)]
pub struct Credential {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
}

/// A credential with characters that no header can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the credential holds a character that a header cannot carry")]
pub struct InvalidCredential;

/// How a backend is watched. Always on: three failed connections in a row rest it for five seconds.
#[derive(Debug, Clone)]
pub struct HealthSettings {
    /// What is asked for by `GET` in the background; nothing is if it is absent.
    pub path: Option<PathAndQuery>,
    /// The time from one such question to the next, and the longest that one may take.
    pub interval: Duration,
    /// How many failed answers in a row mark the backend down. One good answer marks it up again.
    pub failures: u32,
}

/// How long things may take. Zero is not special: it has always passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// One connection, name resolution and TLS handshake included.
    pub connect: Duration,
    /// A request that is not streamed, from its arrival to the last byte of its answer.
    pub standard_total: Duration,
    /// A streamed one.
    pub streaming: StreamingTimeouts,
}

/// How long a streamed answer may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamingTimeouts {
    /// From the request's arrival to the first byte of the answer's body.
    pub first_byte: Duration,
    /// From one chunk to the next.
    pub idle: Duration,
    /// From the request's arrival to the last byte.
    pub total: Duration,
}

// === impl Credential ===

impl Credential {
    /// Prepares a credential in the form that `auth` names.
    ///
    /// # Errors
    ///
    /// When it holds a character that a header cannot carry.
    pub fn new(auth: Auth, secret: &str) -> Result<Self, InvalidCredential> {
        let (name, value) = match auth {
            Auth::Bearer => {
                let mut value = String::with_capacity("Bearer ".len() + secret.len());
                value.push_str("Bearer ");
                value.push_str(secret);
                (AUTHORIZATION, HeaderValue::try_from(value))
            }
            Auth::XApiKey => (X_API_KEY, HeaderValue::from_str(secret)),
        };
        let mut value = value.map_err(|_| InvalidCredential)?;
        // Keeps it out of `Debug` of header maps, and out of HTTP/2's shared compression state.
        value.set_sensitive(true);
        Ok(Self { name, value })
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("header", &self.name).finish_non_exhaustive()
    }
}

// === impl HealthSettings ===

impl Default for HealthSettings {
    fn default() -> Self {
        Self { path: None, interval: Duration::from_secs(10), failures: 3 }
    }
}

// === impl Timeouts ===

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            standard_total: Duration::from_secs(180),
            streaming: StreamingTimeouts {
                first_byte: Duration::from_secs(60),
                idle: Duration::from_secs(30),
                total: Duration::from_secs(600),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_does_not_show_itself() {
        for auth in [Auth::Bearer, Auth::XApiKey] {
            let credential = Credential::new(auth, "sk-canary").unwrap();
            assert!(!format!("{credential:?} {:?}", credential.value).contains("canary"));
        }
        assert_eq!(Credential::new(Auth::Bearer, "a\nb").unwrap_err(), InvalidCredential);
    }
}
