//! Reloads that change nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fairlane_tests::{Backend, Config, Gateway, Reply};
use rustix::process::Signal;

use super::{all_answered, hold, of, ten_an_hour, users};

#[tokio::test]
async fn a_hundred_of_them_add_no_token_and_lose_no_request() {
    const BURST: usize = 40;
    let backend = Backend::start().await;
    // One user has a bucket that hardly refills, the others have none.
    let limit = format!("per_user: {{ overrides: {{ user-0: {{ requests_per_day: {BURST} }} }} }}");
    let gateway = Gateway::start(&users(Config::with(&backend)).limit(&limit)).await;

    let (chunks, reply) = Reply::stream();
    backend.next(reply);
    chunks.event("before");
    let mut stream = gateway.open(fairlane_tests::Call::chat_stream("m").key("key-1")).await;
    stream.until("before").await;

    let (over, granted, served) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let load = async |caller: usize| {
        let mut connection = gateway.client().connect(None).await;
        while !over.load(Ordering::Relaxed) {
            // Every second one is of the user whose bucket is limited.
            let answer = connection.call(of(if caller.is_multiple_of(2) { 0 } else { 1 })).await;
            let counter = if caller.is_multiple_of(2) { &granted } else { &served };
            match answer.status {
                200 => _ = counter.fetch_add(1, Ordering::Relaxed),
                status => assert_eq!((status, caller % 2), (429, 0), "{}", answer.printed()),
            }
        }
    };
    let reload = async {
        for _ in 0..100 {
            gateway.reloaded("success", async || gateway.signal(Signal::HUP)).await;
        }
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(load(0), load(1), load(2), load(3), reload);

    assert_eq!(granted.into_inner(), BURST, "a reload fills no bucket, and empties none");
    assert!(served.into_inner() > 100, "there was load");
    chunks.event("after");
    stream.until("after").await;
    chunks.done();
    assert!(stream.answer().await.complete);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("config_reloads_total", &[("result", "success")]), Some(100.0));
    assert_eq!(metrics.value("config_reloads_total", &[("result", "failure")]), Some(0.0));
}

#[tokio::test]
async fn those_who_are_held_keep_their_places() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    let before = gateway.queues().await;
    for _ in 0..20 {
        gateway.reloaded("success", async || gateway.signal(Signal::HUP)).await;
    }
    let lanes = |queues: &serde_json::Value| {
        let lanes = queues["gates"][0]["lanes"].as_array().unwrap().clone();
        lanes.iter().map(|lane| (lane["tenant"].clone(), lane["waiting"].clone())).collect::<Vec<_>>()
    };
    let after = gateway.queues().await;
    assert_eq!(lanes(&after), lanes(&before));
    assert_eq!(backend.count(), 1, "nobody was let through");
    // The limit goes: everybody is served, each user in the order in which its requests came.
    gateway.reconfigure(&super::waiting(users(Config::with(&backend)))).await;
    all_answered(pending).await;
}
