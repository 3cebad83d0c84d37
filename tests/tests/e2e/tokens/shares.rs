//! Tenants who share a budget share it by weight in tokens, whatever the sizes of their requests.

use std::sync::Arc;

use fairlane_tests::{Backend, Call, Config, Gateway, Reply, Seen, wait::until};
use serde_json::json;
use tokio::{task::JoinSet, time::Instant};

/// Tokens a second of the team's budget.
const RATE: usize = 2_000;

struct Load {
    backend: Backend,
    gateway: Arc<Gateway>,
    tasks: JoinSet<()>,
}

/// A tenant's request for so many tokens, which says so to the backend.
fn call(tenant: &str, tokens: usize) -> Call {
    let body = json!({"model": "m", "input": "word".repeat(tokens)});
    let call = Call::post("/v1/embeddings", &body).key(&format!("key-of-{tenant}"));
    call.header("x-tenant", tenant).header("x-tokens", &tokens.to_string())
}

fn tokens(seen: &Seen) -> usize {
    seen.header("x-tokens").parse().expect("a number")
}

impl Load {
    async fn new(weights: &str) -> Self {
        let backend = Backend::start().await;
        // What is reserved is what is used.
        backend
            .always(|seen| Reply::json(200, &json!({"data": [], "usage": {"total_tokens": tokens(seen)}})));
        let limit = format!("per_team: {{ tokens_per_minute: {}, token_burst_capacity: 1000 }}", 60 * RATE);
        let mut config = Config::with(&backend)
            .limit(&limit)
            .rate_limiting("deferred_admission: { enabled: true, max_wait_ms: 60000 }")
            .rate_limiting(&format!("fair_queuing: {{ {weights} }}"));
        for tenant in ["a", "b", "c"] {
            config = config.key(tenant, &format!("key-of-{tenant}"), &format!("user: {tenant}, team: t"));
        }
        let gateway = Arc::new(Gateway::start(&config).await);
        Self { backend, gateway, tasks: JoinSet::new() }
    }

    /// Keeps so many requests of a tenant on the way, each followed by the next.
    fn backlog(&mut self, tenant: &'static str, tokens: usize, requests: usize) {
        for _ in 0..requests {
            let gateway = Arc::clone(&self.gateway);
            self.tasks.spawn(async move {
                let mut wire = gateway.client().connect(None).await;
                while wire.try_call(call(tenant, tokens)).await.is_some() {}
            });
        }
    }

    async fn held(&self, at_least: u64) {
        until("the lanes to be filled", async || {
            (self.gateway.queues().await["held"].as_u64()? >= at_least).then_some(())
        })
        .await;
    }

    /// The tokens of all requests that reached the backend, and of a tenant's.
    fn reached(&self, tenant: &str) -> (usize, usize) {
        let seen = self.backend.seen();
        let own = seen.iter().filter(|seen| seen.header("x-tenant") == tenant).map(tokens).sum();
        (seen.iter().map(tokens).sum(), own)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_three_and_one_with_requests_of_different_sizes_share_75_to_25_in_tokens() {
    /// Some eight seconds.
    const MEASURED: usize = 8 * RATE;
    let mut load = Load::new("weights: [{ tenant: a, weight: 3 }]").await;
    load.backlog("a", 20, 24);
    load.backlog("b", 130, 8);
    load.held(28).await;
    let (start, (first, first_of_a)) = (Instant::now(), load.reached("a"));
    until("the budget to be used", async || (load.reached("a").0 >= first + MEASURED).then_some(())).await;
    let (took, (all, of_a)) = (start.elapsed().as_secs_f64(), load.reached("a"));
    let share = (of_a - first_of_a) as f64 * 100.0 / (all - first) as f64;
    assert!((73.0..=77.0).contains(&share), "a got {share:.1} % of {} tokens", all - first);
    let used = (all - first) as f64 / took / RATE as f64;
    assert!(used >= 0.97, "{:.1} % of the budget was used", used * 100.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_among_a_flood_of_small_ones_is_admitted_within_its_fair_time() {
    let mut load = Load::new("").await;
    load.backlog("a", 10, 30);
    load.held(20).await;
    // Half of the budget is b's: 900 tokens take 0.9 s.
    for _ in 0..3 {
        let start = Instant::now();
        let answer = load.gateway.call(call("b", 900)).await;
        let took = start.elapsed().as_secs_f64();
        assert_eq!(answer.status, 200, "{}", answer.printed());
        assert!(took <= 0.9 * 1.5, "admitted after {took:.2} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_tenant_is_not_held_up_by_the_large_requests_of_another() {
    let mut load = Load::new("").await;
    load.backlog("a", 800, 8);
    load.held(7).await;
    let mut waits = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let answer = load.gateway.call(call("b", 10)).await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
        waits.push(start.elapsed().as_secs_f64());
    }
    // At worst the bucket is being saved up for a large one, which takes 0.4 s.
    let worst = waits.iter().copied().fold(0.0, f64::max);
    assert!(worst <= 0.6, "waited {waits:.2?}");
}
