//! One decision over requests and tokens: all or nothing, and which of the refusals is told.

use std::time::Duration;

use fairlane_fair_queue::Class;
use fairlane_gateway::{
    answer::Fault,
    dimension::{Dimension, class_of},
};

use crate::house::{BUDGET, BURST, House, Kept, MODEL_BUDGET, limited, nobody_waits, reservation};

const TEAM_RESERVED: &str = r#"rate_limit_tokens_reserved_total{dimension="team"}"#;

#[tokio::test(start_paused = true)]
async fn a_request_takes_its_reservation_from_every_budget_with_its_counts() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, nobody_waits());
        let permit = house.admit(house.ask(1, reservation(100, 300))).await.unwrap();
        assert_eq!(house.left().await, [99, 600, 4_600], "{kept:?}");
        assert_eq!(permit.reservation(), Some(&reservation(100, 300)));
        if let Some(far) = &house.far {
            assert_eq!(far.calls()[0], 1, "one round trip");
        }
        assert_eq!(house.metric(TEAM_RESERVED), 400.0);
        assert_eq!(house.metric(r#"rate_limit_tokens_reserved_total{dimension="user"}"#), 0.0);
        let granted = r#"rate_limit_decisions_total{limit_type="model",class="tokens",decision="granted"}"#;
        assert_eq!(house.metric(granted), 1.0);

        let mut headers = http::HeaderMap::new();
        permit.write_headers(&mut headers);
        assert_eq!(headers["x-ratelimit-remaining-requests"], "99");
        assert_eq!(headers["x-ratelimit-limit-tokens"], "1000", "the tightest of both");
        assert_eq!(headers["x-ratelimit-remaining-tokens"], "600");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "400ms");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_budget_refuses_has_taken_nothing_anywhere() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, nobody_waits());
        house.exhaust(700).await;
        let before = house.left().await;
        let refused = house.admit(house.ask(1, reservation(100, 400))).await.unwrap_err();
        assert_eq!(house.left().await, before);
        let limited = limited(&refused);
        assert_eq!((limited.limit_type, limited.class), (Dimension::Team, Class::Tokens));
        assert_eq!(limited.retry_after, Duration::from_millis(200), "by the size of the ask");
        assert!(limited.held.is_none());
        let denied = r#"rate_limit_decisions_total{limit_type="team",class="tokens",decision="denied"}"#;
        assert_eq!(house.metric(denied), 1.0);
        assert_eq!(house.metric(TEAM_RESERVED), 700.0);

        // A smaller one passes meanwhile, and the same one when it was told to come back.
        house.admit(house.ask(1, reservation(100, 0))).await.unwrap();
        house.limiter.settled().await;
        tokio::time::advance(limited.retry_after - Duration::from_millis(1)).await;
        assert!(house.admit(house.ask(1, reservation(100, 400))).await.is_err());
        tokio::time::advance(Duration::from_millis(1)).await;
        house.admit(house.ask(1, reservation(100, 400))).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusing_count_binds_before_a_budget_and_the_latest_time_is_told() {
    let house = House::new(Kept::Here, nobody_waits());
    // Nothing is left of either: the next request is 10 ms away, the tokens 500 ms.
    let mut permits = Vec::new();
    for _ in 0..BURST {
        permits.push(house.admit(house.ask(1, reservation(BUDGET / BURST, 0))).await.unwrap());
    }
    let refused = house.admit(house.ask(1, reservation(100, 400))).await.unwrap_err();
    assert_eq!(limited(&refused).class, Class::Requests);
    assert_eq!(limited(&refused).retry_after, Duration::from_millis(500));
    drop(permits);
}

#[tokio::test(start_paused = true)]
async fn what_never_fits_is_told_so_without_asking_and_before_any_bound() {
    for kept in [Kept::Here, Kept::FarAway] {
        let queue = crate::house::deferring(fairlane_fair_queue::ClassLimits {
            max_held: std::num::NonZeroUsize::MIN,
            ..Default::default()
        });
        let house = House::new(kept, queue);
        house.exhaust(900).await;
        let waiting = tokio::spawn(house.admit(house.ask(1, reservation(500, 0))));
        house.until_held(1).await;
        let calls = house.far.as_ref().map(|far| far.calls());
        // One hold is all there is, and somebody waits at the gate.
        let refused = house.admit(house.ask(2, reservation(600, 401))).await.unwrap_err();
        let Fault::ExceedsLimit { limit_type, class, .. } = refused.fault else { panic!("{refused:?}") };
        assert_eq!((limit_type, class), (Dimension::Team, Class::Tokens));
        assert_eq!(house.far.as_ref().map(|far| far.calls()), calls);
        let impossible =
            r#"rate_limit_decisions_total{limit_type="team",class="tokens",decision="impossible"}"#;
        assert_eq!(house.metric(impossible), 1.0);
        let response = refused.answer(fairlane_gateway::answer::Dialect::OpenAi);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert!(!response.headers().contains_key("retry-after"));
        waiting.await.unwrap().unwrap();
    }
}

#[test]
fn an_identitys_tokens_and_requests_are_different_buckets_with_different_gates() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let house = House::new(Kept::Here, nobody_waits());
    let keys: Vec<_> = house.buckets.iter().map(|charge| charge.key).collect();
    for (at, key) in keys.iter().enumerate() {
        for other in &keys[..at] {
            assert_ne!(key, other);
            assert_ne!(key.digest(), other.digest(), "gates know the digest alone");
        }
    }
    assert_eq!(keys.iter().filter(|key| class_of(key) == Class::Tokens).count(), 2);
    assert_eq!(house.buckets.tokens.smallest_capacity(), Some(BUDGET.min(MODEL_BUDGET)));
}
