//! Limits of the backends themselves.

use std::sync::Arc;
use std::time::Duration;

use fairlane_gateway::echo::EchoSettings;
use fairlane_gateway::proxy::{
    Backend, BackendCharges, BackendQuota, ForwardError, Outbound, QuotaFuture, Reached, Target,
};
use fairlane_limiter::{
    BucketKey, Charge, Decision, Dimension, ManualClock, MemoryLimits, MemoryStore, Quota, Store, StoreError,
};

use tokio::sync::Notify;

use crate::backend::{Server, backend, dead, post, proxy, soon};
use crate::cancel::drop_after;

type Limiter = Arc<MemoryStore<ManualClock>>;

fn limiter() -> Limiter {
    Arc::new(MemoryStore::new(MemoryLimits::default(), ManualClock::default()))
}

/// One more request every so many seconds.
fn charge(digest: u128, capacity: u64, seconds: u64) -> Charge {
    let quota = Quota::new(capacity, 1, Duration::from_secs(seconds)).unwrap();
    Charge::new(BucketKey::new(Dimension::new(1), digest), quota, 1)
}

fn limited(backend: Backend, limiter: &Limiter, requests: Charge) -> Backend {
    Backend {
        quota: Some(Arc::new(BackendCharges::new(Arc::clone(limiter), vec![requests], vec![]))),
        ..backend
    }
}

fn echo(name: &str) -> Backend {
    Backend { target: Target::Echo(EchoSettings::default()), ..backend(name, "http://unused") }
}

async fn remaining(limiter: &Limiter, charge: Charge) -> i64 {
    let decision = limiter.peek(&[Charge { cost: 0, ..charge }]).await.unwrap();
    decision.granted().unwrap().balances().get(0).unwrap().remaining
}

#[tokio::test]
async fn an_exhausted_backend_is_passed_over_and_all_exhausted_tell_the_shortest_wait() {
    let limiter = limiter();
    let (few, more) = (charge(1, 2, 60), charge(2, 3, 10));
    let proxy = proxy([limited(echo("few"), &limiter, few), limited(echo("more"), &limiter, more)]);
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
    let (unreached, reached) = (charge(1, 10, 60), charge(2, 10, 60));
    let first = Backend { weight: u32::MAX, ..limited(dead("dead").await, &limiter, unreached) };
    let proxy = proxy([first, limited(echo("echo"), &limiter, reached)]);
    assert_eq!(&*proxy.forward(post("{}")).await.unwrap().backend, "echo");
    assert_eq!((remaining(&limiter, unreached).await, remaining(&limiter, reached).await), (10, 9));
}

#[tokio::test]
async fn a_caller_that_leaves_while_connecting_costs_the_backend_nothing() {
    let (limiter, server) = (limiter(), Server::start().await);
    let charge = charge(1, 1, 60);
    // The server takes the connection and never says a word of TLS.
    let mute = backend("mute", &format!("https://{}", server.address));
    let proxy = proxy([limited(mute, &limiter, charge)]);
    // More often than the limit has room for.
    for _ in 0..3 {
        let reached = Reached::default();
        let phase = async {
            let connection = server.accept().await;
            assert_eq!(remaining(&limiter, charge).await, 0);
            connection
        };
        soon(drop_after(&proxy, post("{}"), &reached, phase)).await;
        assert_eq!((reached.get(), remaining(&limiter, charge).await), (false, 1));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_once_the_backend_has_its_request_has_used_it() {
    let (limiter, server) = (limiter(), Server::start().await);
    let charge = charge(1, 1, 60);
    let proxy = proxy([limited(server.backend("a"), &limiter, charge)]);
    soon(drop_after(&proxy, post("{}"), &Reached::default(), server.request())).await;
    assert_eq!(remaining(&limiter, charge).await, 0);
}

/// A store far away: what is given back to it arrives after a wait.
#[derive(Debug)]
struct Distant {
    near: BackendCharges<MemoryStore<ManualClock>>,
    arrived: Arc<Notify>,
}

impl BackendQuota for Distant {
    fn take(&self, tokens: u64) -> QuotaFuture<'_, Result<Decision, StoreError>> {
        self.near.take(tokens)
    }

    fn give_back(&self, tokens: u64) -> QuotaFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let given = self.near.give_back(tokens).await;
            self.arrived.notify_one();
            given
        })
    }
}

#[tokio::test]
async fn a_store_that_has_to_be_waited_for_is_given_back_to_as_well() {
    let (limiter, server) = (limiter(), Server::start().await);
    let (charge, arrived) = (charge(1, 1, 60), Arc::new(Notify::new()));
    let near = BackendCharges::new(Arc::clone(&limiter), vec![charge], vec![]);
    let quota = Arc::new(Distant { near, arrived: Arc::clone(&arrived) });
    let mute = backend("mute", &format!("https://{}", server.address));
    let proxy = proxy([Backend { quota: Some(quota), ..mute }]);
    soon(drop_after(&proxy, post("{}"), &Reached::default(), server.accept())).await;
    soon(arrived.notified()).await;
    assert_eq!(remaining(&limiter, charge).await, 1);
}

#[tokio::test]
async fn what_can_never_fit_is_told_as_that() {
    let limiter = limiter();
    let tokens = charge(1, 100, 1);
    let quota = BackendCharges::new(Arc::clone(&limiter), vec![], vec![tokens]);
    let proxy = proxy([Backend { quota: Some(Arc::new(quota)), ..echo("a") }]);
    assert!(proxy.forward(Outbound { tokens: 60, ..post("{}") }).await.is_ok());
    let error = proxy.forward(Outbound { tokens: 60, ..post("{}") }).await.unwrap_err();
    assert!(matches!(error, ForwardError::AllExhausted { .. }), "{error:?}");
    let error = proxy.forward(Outbound { tokens: 101, ..post("{}") }).await.unwrap_err();
    assert!(matches!(error, ForwardError::ExceedsLimit), "{error:?}");
}

#[derive(Debug)]
struct Outage;

impl BackendQuota for Outage {
    fn take(&self, _: u64) -> QuotaFuture<'_, Result<Decision, StoreError>> {
        Box::pin(async { Err(StoreError::Timeout) })
    }

    fn give_back(&self, _: u64) -> QuotaFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::Timeout) })
    }
}

#[tokio::test]
async fn a_store_that_cannot_decide_lets_nothing_through() {
    let proxy = proxy([Backend { quota: Some(Arc::new(Outage)), ..echo("a") }]);
    let error = proxy.forward(post("{}")).await.unwrap_err();
    assert!(matches!(error, ForwardError::StoreUnavailable(StoreError::Timeout)), "{error:?}");
    assert!(!error.reached_backend());
}
