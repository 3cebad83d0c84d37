//! Changes while requests come, as fast as both can.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use fairlane_tests::{Backend, Config, Gateway, Pending};
use rustix::process::Signal;

use super::{held_by, hold, of, ten_an_hour, users, waiting};

#[tokio::test]
async fn nobody_who_comes_while_limits_change_is_left_behind() {
    let backend = Backend::start().await;
    let free = waiting(users(Config::with(&backend)));
    let limits = [
        ten_an_hour(&backend),
        held_by(&backend, "per_team: { requests_per_hour: 5, burst_capacity: 1 }"),
        held_by(&backend, "per_team: { requests_per_second: 5 }")
            .limit("per_user: { requests_per_hour: 10, burst_capacity: 1 }"),
        free.clone(),
    ];
    let gateway = Gateway::start(&free).await;
    let over = AtomicBool::new(false);
    let ask = async |user: usize| {
        let mut pending = Vec::<Pending>::new();
        while !over.load(Ordering::Relaxed) {
            pending.push(gateway.begin(of(user)));
            // Those who are held are not to be more than may be.
            while pending.iter().filter(|pending| !pending.is_answered()).count() > 40
                && !over.load(Ordering::Relaxed)
            {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
        }
        pending
    };
    let change = async {
        for round in 0..40 {
            gateway.reconfigure(&limits[round % limits.len()]).await;
        }
        over.store(true, Ordering::Relaxed);
    };
    let (one, two, three, four, ()) = tokio::join!(ask(0), ask(1), ask(2), ask(3), change);
    // The last change has set everybody free.
    for pending in [one, two, three, four].into_iter().flatten() {
        let answer = pending.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.printed());
    }
    gateway.metric("rate_limit_fair_queue_depth", &[], 0.0).await;
}

#[tokio::test]
async fn a_storm_of_signals_and_of_writes_ends_with_the_last_word() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&ten_an_hour(&backend)).await;
    let pending = hold(&gateway).await;
    let file = gateway.folder().join("fairlane.yaml");
    let (good, free) = (ten_an_hour(&backend).yaml(), waiting(users(Config::with(&backend))).yaml());
    for round in 0..500 {
        gateway.signal(Signal::HUP);
        fs::write(&file, if round % 3 == 0 { &good[..good.len() / 2] } else { &good }).unwrap();
        fs::write(gateway.folder().join(".fairlane.yaml.swp"), "x").unwrap();
    }
    assert_eq!(gateway.queues().await["held"], pending.len() as u64);
    fs::write(&file, &free).unwrap();
    super::all_answered(pending).await;
    assert_eq!(gateway.call(of(0)).await.status, 200);
    let log = gateway.stderr().text();
    assert!(!log.contains("panicked"), "{log}");
}
