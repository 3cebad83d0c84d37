//! The three loads that tell a fair queue from an unfair one, on one shared bucket of ten requests a second.
//!
//! Shares are those of the requests as they reach the backend, over two hundred of them. They take twenty seconds, which
//! the tests spend at the same time.

use std::{sync::Arc, time::Duration};

use fairlane_tests::{Backend, Call, Config, Gateway, wait};
use tokio::{
    task::JoinSet,
    time::{Instant, interval},
};

/// Requests per second of the bucket.
const RATE: usize = 10;
/// How many of them are looked at.
const MEASURED: usize = 200;
/// A flood has no more requests on the way than this: far more than are held, far fewer than the gateway's bound on
/// connections.
const MOST_AT_ONCE: usize = 200;

pub(crate) struct Load {
    backend: Backend,
    gateway: Arc<Gateway>,
    tasks: JoinSet<()>,
}

impl Load {
    async fn new(weights: &str) -> Self {
        Self::with(weights, |config| config).await
    }

    /// The same with a configuration that differs.
    pub(crate) async fn with(weights: &str, differ: impl FnOnce(Config) -> Config) -> Self {
        let backend = Backend::start().await;
        let mut config = differ(Config::with(&backend))
            .limit(&format!("per_model: {{ requests_per_second: {RATE}, burst_capacity: 1 }}"))
            .fair_queuing(weights);
        for tenant in ["a", "b", "c", "d"] {
            config = config.key(tenant, &key(tenant), &format!("user: {tenant}"));
        }
        let gateway = Arc::new(Gateway::start(&config).await);
        Self { backend, gateway, tasks: JoinSet::new() }
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// How many requests have reached the backend.
    pub(crate) fn admitted(&self) -> usize {
        self.backend.count()
    }

    /// Keeps so many requests of a tenant waiting, each followed by the next.
    pub(crate) fn backlog(&mut self, tenant: &'static str, requests: usize) {
        for _ in 0..requests {
            let gateway = Arc::clone(&self.gateway);
            self.tasks.spawn(async move {
                let mut wire = gateway.client().connect(None).await;
                while wire.try_call(call(tenant)).await.is_some() {}
            });
        }
    }

    /// Sends a tenant's requests at a steady rate, whatever becomes of them, on as few connections as that takes.
    fn flood(&mut self, tenant: &'static str, per_second: u32) {
        let gateway = Arc::clone(&self.gateway);
        self.tasks.spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / per_second);
            let (mut idle, mut busy) = (Vec::new(), JoinSet::new());
            loop {
                ticks.tick().await;
                while let Some(answered) = busy.try_join_next() {
                    idle.extend(answered.ok().flatten());
                }
                if busy.len() >= MOST_AT_ONCE {
                    continue;
                }
                let wire = idle.pop();
                let gateway = Arc::clone(&gateway);
                busy.spawn(async move {
                    let mut wire = match wire {
                        Some(wire) => wire,
                        None => gateway.client().connect(None).await,
                    };
                    wire.try_call(call(tenant)).await.map(|_| wire)
                });
            }
        });
    }

    /// Waits until so many requests are held: every lane is filled.
    pub(crate) async fn filled(&self, held: u64) {
        wait::until("the lanes to be filled", async || {
            (self.gateway.queues().await["held"].as_u64()? >= held).then_some(())
        })
        .await;
    }

    /// The shares in percent of the admissions from now on, once there are enough.
    pub(crate) async fn shares(&self, tenants: &[&str]) -> Vec<f64> {
        let (first, mut admitted) = (self.backend.count(), self.backend.count());
        while admitted < first + MEASURED {
            // One wait per second of load, since each is bounded.
            admitted = (admitted + RATE).min(first + MEASURED);
            self.backend.request(admitted).await;
        }
        let seen = &self.backend.seen()[first..first + MEASURED];
        let share = |tenant: &&str| {
            let own = seen.iter().filter(|seen| seen.header("x-tenant") == *tenant).count();
            own as f64 * 100.0 / MEASURED as f64
        };
        tenants.iter().map(share).collect()
    }
}

fn key(tenant: &str) -> String {
    format!("key-of-{tenant}")
}

/// A tenant's request, which says so to the backend.
fn call(tenant: &str) -> Call {
    Call::chat("m").key(&key(tenant)).header("x-tenant", tenant)
}

/// Every share within two points of what is wanted.
pub(crate) fn check(shares: &[f64], wanted: &[f64]) {
    let off = shares.iter().zip(wanted).map(|(share, wanted)| (share - wanted).abs());
    assert!(off.fold(0.0, f64::max) <= 2.0, "shares {shares:?}, wanted {wanted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_floods_of_weights_three_and_one_share_75_to_25() {
    let mut load = Load::new("weights: [{ tenant: a, weight: 3 }]").await;
    load.backlog("a", 16);
    load.backlog("b", 16);
    load.filled(30).await;
    check(&load.shares(&["a", "b"]).await, &[75.0, 25.0]);

    // One attempt for each admission, but for the first of all.
    let metrics = load.gateway.metrics().await;
    let grants = metrics.value("rate_limit_fair_queue_grants_total", &[]).unwrap();
    let admitted = load.backend.count() as f64;
    assert!(grants <= 1.05 * admitted, "{grants} grants for {admitted} admissions");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_a_thousand_a_second_gets_no_more_than_its_equals() {
    let mut load = Load::new("").await;
    for tenant in ["a", "b", "c"] {
        load.backlog(tenant, 6);
    }
    load.flood("d", 1_000);
    load.filled(3 * 5 + 32).await;
    check(&load.shares(&["a", "b", "c", "d"]).await, &[25.0; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_light_tenant_beside_a_flood_gets_all_it_asks_for_and_soon() {
    let mut load = Load::new("").await;
    load.flood("a", 1_000);
    load.filled(32).await;
    let first = load.backend.count();

    let (mut light, mut ticks) = (JoinSet::new(), interval(Duration::from_secs(1) / 3));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        ticks.tick().await;
        let gateway = Arc::clone(&load.gateway);
        light.spawn(async move { gateway.call(call("b")).await });
    }
    let answers = light.join_all().await;
    let refused = answers.iter().filter(|answer| answer.status != 200).count();
    assert_eq!(refused, 0, "of {}", answers.len());
    let waits = answers.iter().map(|answer| answer.number("x-fair-queue-wait-ms").unwrap_or(0));
    let mean = waits.sum::<u64>() / answers.len() as u64;
    assert!(mean <= 350, "a mean wait of {mean} ms");
    // Of what flows into the bucket meanwhile: how much of that is lost to a busy machine does not depend on the tenant.
    let flowed = RATE as f64 * start.elapsed().as_secs_f64();
    let seen = &load.backend.seen()[first..];
    let own = seen.iter().filter(|seen| seen.header("x-tenant") == "b").count();
    check(&[own as f64 * 100.0 / flowed], &[30.0]);
}
