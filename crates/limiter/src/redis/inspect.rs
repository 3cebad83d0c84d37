//! What an operator wants to know of the servers before relying on them.

/// What the servers say of themselves; see [`RedisStore::inspect`](super::RedisStore::inspect).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// One for each server that decisions are made on.
    pub nodes: Vec<NodeInspection>,
}

/// What one server says of itself. What its access rules do not let it say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInspection {
    /// Host and port.
    pub address: String,
    /// The version, as `7.0.15`.
    pub version: Option<String>,
    /// `master` or `slave`, in the server's own words.
    pub role: Option<String>,
    /// `maxmemory`, in bytes; 0 is no bound.
    pub max_memory: Option<u64>,
    /// `maxmemory-policy`, in the server's own words.
    pub max_memory_policy: Option<String>,
    /// Whether `EVALSHA` is allowed.
    pub evalsha: bool,
    /// Whether `SCRIPT LOAD` is allowed. It is not needed if `EVAL` is.
    pub script_load: bool,
    /// Whether `EVAL` is allowed.
    pub eval: bool,
}

impl NodeInspection {
    /// Whether the server may throw away buckets that are not full, which would reset their limits: it has bounded
    /// memory and a policy other than `noeviction`.
    #[must_use]
    pub fn may_evict(&self) -> bool {
        self.max_memory != Some(0)
            && self.max_memory_policy.as_deref().is_some_and(|policy| policy != "noeviction")
    }

    /// Whether decisions can be made by a script.
    #[must_use]
    pub const fn runs_scripts(&self) -> bool {
        self.eval || (self.evalsha && self.script_load)
    }
}
