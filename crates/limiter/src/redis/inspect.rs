//! What an operator wants to know of the servers before relying on them.

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::connection::node::{Link, Node};
use super::core::Core;
use super::failure::Failure;

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

impl Core {
    /// Asks a server what it is. Nothing that it refuses to tell is an error.
    pub(super) async fn inspect_node(
        &self,
        node: &Node,
        deadline: Instant,
    ) -> Result<NodeInspection, Failure> {
        // A server that is connected but does not serve can say why.
        let ready = node.ready(deadline).await;
        let link = match (node.link(), ready) {
            (Ok(link), _) => link,
            (Err(_), Err(failure)) | (Err(failure), Ok(())) => return Err(failure),
        };
        let mut found = self.inspect_link(&link, node.address(), deadline).await?;
        found.script_load = self.allowed(&link, &["SCRIPT", "LOAD", "return 1"], deadline).await?;
        found.evalsha = self.allowed(&link, &["EVALSHA", UNKNOWN_SCRIPT, "0"], deadline).await?;
        found.eval = self.allowed(&link, &["EVAL", "return 1", "0"], deadline).await?;
        Ok(found)
    }

    /// The part of an inspection that is about memory, version and role.
    pub(super) async fn inspect_link(
        &self,
        link: &Link,
        address: String,
        deadline: Instant,
    ) -> Result<NodeInspection, Failure> {
        let mut found = NodeInspection { address, ..NodeInspection::default() };
        for section in ["server", "memory", "replication"] {
            let text = match self.command(link, command(&["INFO", section]), deadline).await {
                Ok(Value::BulkString(text)) => String::from_utf8_lossy(&text).into_owned(),
                Ok(Value::VerbatimString { text, .. }) => text,
                Ok(_) | Err(Failure::Refused(_) | Failure::Failed(_)) => continue,
                Err(failure) => return Err(failure),
            };
            let field = |name: &str| {
                let mut fields = text.lines().filter_map(|line| line.split_once(':'));
                fields.find(|(known, _)| *known == name).map(|(_, value)| value.trim().to_owned())
            };
            match section {
                "server" => found.version = field("valkey_version").or_else(|| field("redis_version")),
                "replication" => found.role = field("role"),
                _ => {
                    found.max_memory = field("maxmemory").and_then(|bytes| bytes.parse().ok());
                    found.max_memory_policy = field("maxmemory_policy");
                }
            }
        }
        Ok(found)
    }

    async fn allowed(&self, link: &Link, words: &[&str], deadline: Instant) -> Result<bool, Failure> {
        match self.command(link, command(words), deadline).await {
            // A script that is not known was looked for, at least.
            Ok(_) | Err(Failure::NoScript) => Ok(true),
            Err(Failure::Refused(_) | Failure::Failed(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

/// The digest of no script.
const UNKNOWN_SCRIPT: &str = "0000000000000000000000000000000000000000";

fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}
