//! Whether the servers can be asked, for readiness and metrics.

/// What is known of the servers; see [`RedisStore::health`](super::RedisStore::health).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisHealth {
    /// Whether every decision can be made. In a cluster, all shards are needed for that; while one is down, decisions
    /// on the others are still made.
    pub up: bool,
    /// The servers that decisions are made on: one, or the master of each shard. Empty until they are known.
    pub nodes: Vec<NodeHealth>,
}

/// What is known of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// Host and port.
    pub address: String,
    /// Whether it is asked at all: while it is not, calls fail at once.
    pub up: bool,
}
