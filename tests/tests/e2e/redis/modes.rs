//! Redis behind sentinels.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fairlane_redis_servers::{Sentinels, Server};
use fairlane_tests::{Backend, Config};

use super::{TIMEOUT, assert_out, shared, started};
use crate::support::{alice, assert_limited, bob, exhaust};

fn config(backend: &Backend, url: &str, mode: &str) -> Config {
    let mode = format!("mode: {mode}");
    crate::support::people(shared(Config::with(backend), url, TIMEOUT, &mode))
}

/// A day's requests: more than a test makes, so that nobody is refused for another reason than an outage.
const PLENTY: usize = 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn another_master_is_found_by_itself_and_limits_go_on() {
    let (backend, sentinels) = (Backend::start().await, Sentinels::start().await);
    let config = config(&backend, &sentinels.url(), "sentinel")
        .limit("per_user: { requests_per_day: 5 }")
        .limit(&format!("global: {{ requests_per_day: {PLENTY} }}"));
    let gateway = Arc::new(started(&config).await);
    for _ in 0..3 {
        assert_eq!(gateway.call(alice()).await.status, 200);
    }
    // Bob goes on asking; until the other master is there, he is told that the store is out, and nothing else.
    let (over, load) = (Arc::new(AtomicBool::new(false)), Arc::clone(&gateway));
    let asking = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut wire = load.client().connect(None).await;
            while !over.load(Ordering::SeqCst) {
                let answer = wire.call(bob()).await;
                if !matches!(answer.status, 200 | 429) {
                    assert_out(&answer);
                }
            }
        }
    });
    sentinels.fail_over(Server::stop).await;
    super::ready(&gateway).await;
    over.store(true, Ordering::SeqCst);
    asking.await.unwrap();

    // What the old master had passed on is not forgotten: two are left of five.
    let (passed, refused) = exhaust(&gateway, &alice(), 10).await;
    assert_limited(&refused, "user");
    assert_eq!(passed, 2);
}
