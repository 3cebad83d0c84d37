//! What the edge can be told.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Workers;

/// Bounds of the wire edge.
#[derive(Clone)]
pub struct EdgeSettings {
    /// Open connections in all; more wait in the listen queue.
    pub max_connections: usize,
    /// Open connections of one client; more are closed at once.
    pub max_connections_per_client: usize,
    /// Bytes of one request head: request line and fields (HTTP/1), the decoded field list (HTTP/2).
    /// Larger ones are answered 431 (HTTP/2: the stream is reset or answered 431).
    pub max_header_bytes: usize,
    /// How long a client may take.
    pub timeouts: EdgeTimeouts,
    /// How many leading bits of an IPv4 address are one client, 0 to 32.
    pub ipv4_prefix: u8,
    /// How many leading bits of an IPv6 address are one client, 0 to 128.
    pub ipv6_prefix: u8,
    /// Whether a peer's address is free of the bound per client, as a trusted proxy is: its connections carry
    /// many clients.
    pub exempt: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Where connections are served.
    pub workers: Workers,
}

/// How long a client may take for what is due from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeTimeouts {
    /// From the accept to the first byte, or to a whole HTTP/2 preface.
    pub first_byte: Duration,
    /// From the first byte of a request head to its last.
    pub header: Duration,
    /// Between two pieces of a body that is due from the client, or taken by it.
    pub body_progress: Duration,
    /// With no request in flight, until the next one begins.
    pub keep_alive: Duration,
}

impl Default for EdgeTimeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(10),
            header: Duration::from_secs(10),
            body_progress: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
        }
    }
}

impl Default for EdgeSettings {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_connections_per_client: 1_000,
            max_header_bytes: 65_536,
            timeouts: EdgeTimeouts::default(),
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            exempt: Arc::new(|_| false),
            workers: Workers::default(),
        }
    }
}

impl EdgeSettings {
    /// These settings for ever, for an edge that nobody changes.
    #[must_use]
    pub fn for_ever(self) -> watch::Receiver<Self> {
        watch::channel(self).1
    }
}

impl fmt::Debug for EdgeSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EdgeSettings")
            .field("max_connections", &self.max_connections)
            .field("max_connections_per_client", &self.max_connections_per_client)
            .field("max_header_bytes", &self.max_header_bytes)
            .field("timeouts", &self.timeouts)
            .field("ipv4_prefix", &self.ipv4_prefix)
            .field("ipv6_prefix", &self.ipv6_prefix)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
