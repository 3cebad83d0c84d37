//! A cluster of which a part is out: what the other shards decide on goes on as if nothing had happened.

use fairlane_redis_servers::{Cluster, ClusterOptions};
use fairlane_tests::{Answer, Backend, Call, Config, Gateway, wait::until};

use super::{TIMEOUT, assert_out, readiness, scripts, shared, started, unready};

/// So many that there are some on each shard.
const MODELS: usize = 30;

fn model(number: usize) -> String {
    format!("model-{number}")
}

/// One request at once and one a minute for each model: whoever comes second waits for as long as a test lasts.
fn config(backend: &Backend, url: &str) -> Config {
    let limit = |number| format!("{}: {{ requests_per_minute: 1, burst_capacity: 1 }}", model(number));
    let limits = (0..MODELS).map(limit).collect::<Vec<_>>().join(", ");
    crate::support::people(shared(Config::with(backend), url, TIMEOUT, "mode: cluster"))
        .limit(&format!("per_model: {{ overrides: {{ {limits} }} }}"))
        .fair_queuing("max_wait_ms: 170000")
}

/// Alice asks a model.
fn ask(model: &str) -> Call {
    Call::chat(model).key("key-of-alice")
}

/// Uses up the bucket of one model after the other, until there is one on each of the three shards; whose they are.
async fn one_model_on_each(gateway: &Gateway, cluster: &Cluster) -> [String; 3] {
    let mut found = [const { None }; 3];
    for model in (0..MODELS).map(model) {
        let answer = gateway.call(ask(&model)).await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
        for (found, node) in found.iter_mut().zip(cluster.nodes()).filter(|(found, _)| found.is_none()) {
            let names: Vec<String> = node.query(&["KEYS", "*"]).await;
            if names.iter().any(|name| !name.contains("probe")) {
                *found = Some(model.clone());
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    found.map(|model| model.expect("a model on each shard"))
}

#[tokio::test(flavor = "multi_thread")]
async fn newcomers_queue_behind_those_who_wait_while_another_shard_is_out() {
    let (backend, cluster) = (Backend::start().await, Cluster::start().await);
    let gateway = started(&config(&backend, &cluster.url())).await;
    let [dead, alive, _] = one_model_on_each(&gateway, &cluster).await;
    let passed = backend.count();
    let _waiting = gateway.begin(ask(&alive));
    gateway.held(1).await;
    cluster.nodes()[0].stop();
    gateway.metric("rate_limit_store_up", &[("store", "redis")], 0.0).await;

    let asked = scripts(&cluster.nodes()[1]).await;
    let _newcomer = gateway.begin(ask(&alive));
    gateway.held(2).await;
    assert_eq!(scripts(&cluster.nodes()[1]).await, asked, "the newcomer has not asked before those who wait");
    assert_out(&gateway.call(ask(&dead)).await);
    gateway.held(2).await;
    assert_eq!(backend.count(), passed);
}

/// Waits until the gateway is ready, and says so with these words.
async fn ready_with(gateway: &Gateway, words: &str) -> Answer {
    until(&format!("the gateway to be ready, with {words:?}"), async || {
        let answer = readiness(gateway).await;
        (answer.status == 200 && answer.text().contains(words)).then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_ready_while_a_shard_answers_and_says_how_many_do_not() {
    let (backend, cluster) = (Backend::start().await, Cluster::start().await);
    let gateway = started(&config(&backend, &cluster.url())).await;
    ready_with(&gateway, "ready\n").await;
    let [first, second, third] = cluster.nodes() else { panic!("three shards") };
    first.stop();
    let answer = ready_with(&gateway, "1 of 3").await;
    assert!(answer.text().contains("redis"), "{}", answer.text());
    for node in cluster.nodes() {
        assert!(!answer.text().contains(&node.addr().port().to_string()), "{}", answer.text());
    }
    gateway.metric("rate_limit_store_up", &[("store", "redis")], 0.0).await;
    for node in [second, third] {
        node.pause();
    }
    unready(&gateway).await;
    for node in [second, third] {
        node.resume();
    }
    ready_with(&gateway, "1 of 3").await;
    first.restart_empty().await;
    cluster.whole().await;
    until("all to be well", async || (readiness(&gateway).await.text() == "ready\n").then_some(())).await;
    gateway.metric("rate_limit_store_up", &[("store", "redis")], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_is_it_ready_where_a_cluster_refuses_to_serve_in_part() {
    let options = ClusterOptions::new().line("cluster-require-full-coverage yes");
    let (backend, cluster) = (Backend::start().await, Cluster::start_with(options).await);
    let gateway = started(&config(&backend, &cluster.url())).await;
    cluster.nodes()[0].stop();
    unready(&gateway).await;
    assert_out(&gateway.call(ask(&model(0))).await);
    assert_eq!(backend.count(), 0);
}
