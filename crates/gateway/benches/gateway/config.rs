//! The gateway's two configurations.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// Callers with a key of their own.
pub(crate) const CALLERS: usize = 16;
/// The model that everybody asks for.
pub(crate) const MODEL: &str = "gpt-4o-mini";

/// The key of a caller.
pub(crate) fn key(caller: usize) -> String {
    format!("sk-bench-{:039}", caller % CALLERS)
}

/// Every dimension limits, and none of them ever refuses.
pub(crate) fn forwarding(backend: SocketAddr) -> String {
    const ENOUGH: &str = "{ requests_per_second: 1000000000 }";
    let mut yaml = common(backend);
    for dimension in
        ["global", "per_client", "per_backend", "per_api_key", "per_user", "per_team", "per_model"]
    {
        _ = writeln!(yaml, "    {dimension}: {ENOUGH}");
    }
    yaml.push_str("  fair_queuing:\n    enabled: true\n");
    yaml
}

/// A key has one request and gets another every 18 seconds: all who come meanwhile are held, and none of them so
/// hopelessly late that it would be refused.
pub(crate) fn holding(backend: SocketAddr) -> String {
    common(backend)
        + "    per_api_key: { requests_per_hour: 200, burst_capacity: 1 }\n\
           \x20 fair_queuing:\n\
           \x20   enabled: true\n\
           \x20   max_queue_depth_per_tenant: 10000\n\
           \x20   max_total_queued: 10000\n\
           \x20   max_wait_ms: 86400000\n\
           timeouts:\n\
           \x20 request:\n\
           \x20   standard: { total: 24h }\n\
           \x20   streaming: { total: 24h }\n"
}

/// What both have, up to the limits.
fn common(backend: SocketAddr) -> String {
    let mut yaml = format!(
        "server:\n\
         \x20 max_connections_per_client: 10000\n\
         backends:\n\
         \x20 - {{ name: primary, url: \"http://{backend}\", models: [\"*\"], api_key: sk-backend }}\n\
         identity:\n\
         \x20 hash_key: 0123456789abcdef0123456789abcdef\n\
         api_keys:\n\
         \x20 keys:\n",
    );
    for caller in 0..CALLERS {
        let team = caller % 4;
        let key = key(caller);
        _ = writeln!(yaml, "    - {{ id: k{caller}, key: {key}, user: user{caller}, team: team{team} }}");
    }
    yaml + "rate_limiting:\n  limits:\n"
}
