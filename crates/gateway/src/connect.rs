//! Tries the limit store that a configuration names, and tells what it is.

use std::fmt::Write as _;

use fairlane_config::GatewayConfig;
use fairlane_gateway::assemble::redis_settings;
use fairlane_limiter::{RedisStore, redis::NodeInspection};

/// What was found: lines for standard output, and lines that say what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) report: String,
    /// What an operator should know, though it works.
    pub(crate) warnings: Vec<String>,
    /// Why no decision could be made.
    pub(crate) problems: Vec<String>,
}

/// Connects as `serve` would.
pub(crate) async fn connect(config: &GatewayConfig) -> Found {
    let mut found = Found::default();
    let store = match redis_settings(config) {
        Ok(Some(settings)) => RedisStore::new(settings).map_err(|error| told(&error)),
        Ok(None) => {
            found.report = "limits: in memory, there is no store to connect to\n".to_owned();
            return found;
        }
        Err(error) => Err(told(&error)),
    };
    let inspected = match store {
        Ok(store) => store.inspect().await.map_err(|error| told(&error)),
        Err(problem) => Err(problem),
    };
    match inspected {
        Ok(inspection) => inspection.nodes.iter().for_each(|node| found.note(node)),
        Err(problem) => {
            let url = &config.rate_limiting.redis.url;
            found.problems.push(format!("the limit store at {url} cannot be reached: {problem}"));
        }
    }
    found
}

impl Found {
    fn note(&mut self, node: &NodeInspection) {
        let address = &node.address;
        let unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let scripts = match (node.runs_scripts(), node.script_load) {
            (false, _) => "not allowed",
            (true, true) => "allowed",
            (true, false) => "allowed by EVAL only",
        };
        // Writing to a string does not fail.
        _ = writeln!(
            self.report,
            "redis {address}: reachable, version {}, role {}, maxmemory-policy {}, scripts {scripts}",
            unknown(&node.version),
            unknown(&node.role),
            unknown(&node.max_memory_policy),
        );
        if !node.runs_scripts() {
            self.problems.push(format!("redis {address}: no script may be run, and every decision is one"));
        }
        if node.role.as_deref().is_some_and(|role| role != "master") {
            self.problems.push(format!("redis {address}: it is a replica, and takes no writes"));
        }
        if node.may_evict() {
            self.warnings.push(format!(
                "redis {address}: it may evict buckets that are in use, which resets their limits: set \
                 maxmemory-policy to noeviction"
            ));
        }
    }
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string);
    let mut told = vec![error.to_string()];
    told.extend(causes);
    // Clients wrap errors in themselves.
    told.dedup();
    told.join(": ")
}
