//! The configuration changes while the gateway runs.

mod changes;
mod files;
mod held;
mod racing;
mod redis;
mod refused;
mod unchanged;

use fairlane_tests::{Backend, Call, Config, Gateway, Pending};

/// How many are held while something is changed.
const HELD: usize = 200;

/// Four users with a key each, in one team: `user-0` to `user-3`.
fn users(mut config: Config) -> Config {
    for user in 0..4 {
        let more = format!("user: user-{user}, team: team");
        config = config.key(&format!("id-{user}"), &format!("key-{user}"), &more);
    }
    config
}

/// A request of a user's.
fn of(user: usize) -> Call {
    Call::chat("m").key(&format!("key-{user}")).header("x-user", &user.to_string())
}

/// The team may send one request at once, and one more in six minutes; whoever is refused may wait for long.
fn ten_an_hour(backend: &Backend) -> Config {
    held_by(backend, "per_team: { requests_per_hour: 10, burst_capacity: 1 }")
}

/// The same users under another limit, held where it refuses.
fn held_by(backend: &Backend, limit: &str) -> Config {
    waiting(users(Config::with(backend)).limit(limit))
}

/// Whoever is refused may wait for long.
fn waiting(config: Config) -> Config {
    config
        .fair_queuing("max_queue_depth_per_tenant: 200")
        .fair_queuing("max_wait_ms: 86400000")
        .section(PATIENT)
}

/// Nothing ends by itself.
const PATIENT: &str = "timeouts: { request: { standard: { total: 24h }, streaming: { total: 24h } } }";

/// Begins requests, as many of each user, until all are held; the team's bucket is empty by then.
async fn hold(gateway: &Gateway) -> Vec<Pending> {
    assert_eq!(gateway.call(of(0)).await.status, 200);
    let pending: Vec<_> = (0..HELD).map(|n| gateway.begin(of(n % 4))).collect();
    gateway.held(HELD as u64).await;
    pending
}

/// Waits for the answer of each, all of which are to be good.
async fn all_answered(pending: Vec<Pending>) {
    for pending in pending {
        let answer = pending.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
}
