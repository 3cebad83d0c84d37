//! Limits of the backends themselves.

use std::sync::Arc;
use std::time::Duration;

use fairlane_fair_queue::Reason;
use fairlane_gateway::admission::{BackendCharges, Limiter, Outage};
use fairlane_gateway::clock::TokioClock;
use fairlane_gateway::dimension::Dimension;
use fairlane_gateway::echo::EchoSettings;
use fairlane_gateway::limits::{Charges, Period, PeriodQuota};
use fairlane_gateway::proxy::{Backend, ForwardError, Reached, Target};
use fairlane_gateway::telemetry::Telemetry;
use fairlane_identity::Hasher;
use fairlane_limiter::{MemoryLimits, MemoryStore, Quota, StoreError};

use crate::backend::{Server, backend, dead, post, proxy, soon};
use crate::cancel::drop_after;
use crate::far::{Far, Fate};

fn telemetry() -> Arc<Telemetry> {
    Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), []))
}

fn limiter() -> Arc<Limiter> {
    let store = MemoryStore::new(MemoryLimits::default(), TokioClock::start());
    Arc::new(Limiter::new(store, telemetry()))
}

/// One more request every so many seconds.
fn charge(name: &str, capacity: u64, seconds: u64) -> Charges {
    let quota = Quota::new(capacity, 1, Duration::from_secs(seconds)).unwrap();
    Charges::of_identity(
        Dimension::Backend,
        Hasher::new(b"test").unwrap().backend(name),
        &[PeriodQuota::new(Period::Second, quota)],
    )
}

fn limited(backend: Backend, limiter: &Arc<Limiter>, requests: &Charges) -> Backend {
    let quota = BackendCharges::new(Arc::clone(limiter), requests.clone(), limiter.generation());
    Backend { quota: Some(Arc::new(quota)), ..backend }
}

fn echo(name: &str) -> Backend {
    Backend { target: Target::Echo(EchoSettings::default()), ..backend(name, "http://unused") }
}

async fn remaining(limiter: &Limiter, charges: &Charges) -> i64 {
    let mut look = charges.clone();
    look.as_mut_slice()[0].cost = 0;
    let decision = limiter.peek(&look).await.unwrap();
    decision.granted().unwrap().balances().get(0).unwrap().remaining
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_backend_is_passed_over_and_all_exhausted_tell_the_shortest_wait() {
    let limiter = limiter();
    let (few, more) = (charge("few", 2, 60), charge("more", 3, 10));
    let proxy = proxy([limited(echo("few"), &limiter, &few), limited(echo("more"), &limiter, &more)]);
    let mut served = Vec::new();
    for _ in 0..5 {
        let forwarded = proxy.forward(post("{}")).await.unwrap();
        assert_eq!(forwarded.granted.unwrap().balances().len(), 1);
        served.push(forwarded.backend.to_string());
    }
    served.sort();
    assert_eq!(served, ["few", "few", "more", "more", "more"]);
    let error = proxy.forward(post("{}")).await.unwrap_err();
    assert!(!error.reached_backend());
    let ForwardError::AllExhausted { backend, retry_after, denied } = error else { panic!("{error:?}") };
    assert_eq!((&*backend, retry_after), ("more", Duration::from_secs(10)));
    assert_eq!(denied.retry_after(), retry_after);
}

#[tokio::test]
async fn a_backend_that_was_not_reached_gets_its_charge_back() {
    let limiter = limiter();
    let (unreached, reached) = (charge("dead", 10, 60), charge("echo", 10, 60));
    let first = Backend { weight: u32::MAX, ..limited(dead("dead").await, &limiter, &unreached) };
    let proxy = proxy([first, limited(echo("echo"), &limiter, &reached)]);
    assert_eq!(&*proxy.forward(post("{}")).await.unwrap().backend, "echo");
    assert_eq!((remaining(&limiter, &unreached).await, remaining(&limiter, &reached).await), (10, 9));
}

#[tokio::test]
async fn a_caller_that_leaves_while_connecting_costs_the_backend_nothing() {
    let (limiter, server) = (limiter(), Server::start().await);
    let charge = charge("a", 1, 60);
    // The server takes the connection and never says a word of TLS.
    let mute = backend("mute", &format!("https://{}", server.address));
    let proxy = proxy([limited(mute, &limiter, &charge)]);
    // More often than the limit has room for.
    for _ in 0..3 {
        let reached = Reached::default();
        let phase = async {
            let connection = server.accept().await;
            assert_eq!(remaining(&limiter, &charge).await, 0);
            connection
        };
        soon(drop_after(&proxy, post("{}"), &reached, phase)).await;
        assert_eq!((reached.get(), remaining(&limiter, &charge).await), (false, 1));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_once_the_backend_has_its_request_has_used_it() {
    let (limiter, server) = (limiter(), Server::start().await);
    let charge = charge("a", 1, 60);
    let proxy = proxy([limited(server.backend("a"), &limiter, &charge)]);
    soon(drop_after(&proxy, post("{}"), &Reached::default(), server.request())).await;
    assert_eq!(remaining(&limiter, &charge).await, 0);
}

/// A limiter over a store far away, and the limit of a backend that it counts.
fn far_limit(outage: Outage) -> (Arc<Far>, Arc<Limiter>, Charges) {
    let store = Far::new();
    let limiter = Arc::new(Limiter::remote(store.clone(), outage, telemetry()));
    (store, limiter, charge("a", 1, 60))
}

#[tokio::test]
async fn a_store_that_has_to_be_waited_for_is_given_back_to_as_well() {
    let ((store, limiter, charge), server) = (far_limit(Outage::FailClosed), Server::start().await);
    let mute = backend("mute", &format!("https://{}", server.address));
    let proxy = proxy([limited(mute, &limiter, &charge)]);
    soon(drop_after(&proxy, post("{}"), &Reached::default(), server.accept())).await;
    soon(limiter.settled()).await;
    assert_eq!((store.left(&charge), store.calls()), (1, [1, 0, 1]), "one call to take and one to give back");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_while_the_store_is_asked_costs_the_backend_nothing() {
    let (store, limiter, charge) = far_limit(Outage::FailClosed);
    store.takes(Fate::AnsweredAfter(Duration::from_millis(20)));
    let proxy = proxy([limited(echo("a"), &limiter, &charge)]);
    let asked = tokio::time::sleep(Duration::from_millis(10));
    drop_after(&proxy, post("{}"), &Reached::default(), asked).await;
    assert_eq!((store.left(&charge), store.taken_back()), (1, 1));
    limiter.settled().await;
    assert_eq!((store.left(&charge), store.calls()), (1, [1, 0, 0]), "and not once more");
}

#[tokio::test]
async fn what_can_never_fit_is_told_as_that() {
    let limiter = limiter();
    let mut two = charge("a", 1, 60);
    two.as_mut_slice()[0].cost = 2;
    let proxy = proxy([limited(echo("a"), &limiter, &two)]);
    let error = proxy.forward(post("{}")).await.unwrap_err();
    assert!(matches!(error, ForwardError::ExceedsLimit), "{error:?}");
}

#[tokio::test]
async fn a_store_that_cannot_decide_lets_nothing_through() {
    let (store, limiter, charge) = far_limit(Outage::FailClosed);
    store.takes(Fate::Fails);
    let proxy = proxy([limited(echo("a"), &limiter, &charge), limited(echo("b"), &limiter, &charge)]);
    let error = proxy.forward(post("{}")).await.unwrap_err();
    assert!(matches!(error, ForwardError::StoreUnavailable(StoreError::Unavailable(_))), "{error:?}");
    assert!(!error.reached_backend());
    assert_eq!(store.calls(), [1, 0, 0], "and no other backend is tried");
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_lets_requests_through_charges_nothing_and_gives_nothing_back() {
    let (store, limiter, charge) = far_limit(Outage::FailOpen);
    store.takes(Fate::Fails);
    let proxy = proxy([limited(dead("dead").await, &limiter, &charge)]);
    let error = proxy.forward(post("{}")).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unavailable { reached: false, .. }), "{error:?}");
    let proxy = self::proxy([limited(echo("a"), &limiter, &charge)]);
    assert!(proxy.forward(post("{}")).await.unwrap().granted.is_none());
    limiter.settled().await;
    assert_eq!(store.calls(), [2, 0, 0]);
}
