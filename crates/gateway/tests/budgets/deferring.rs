//! Who is refused for want of tokens waits until they fit, within bounds, under one deadline with the queue.

use std::{num::NonZeroUsize, pin::pin, time::Duration};

use fairlane_fair_queue::{Class, ClassLimits};
use fairlane_gateway::{admission::Ask, answer::HoldRefusal};
use tokio::time::Instant;

use crate::{
    house::{BURST, House, Kept, deferral, deferring, limited, pending, queuing_and_deferring, reservation},
    settling::answered,
};

const HELD: &str = "rate_limit_deferred_admission_held";

fn refused_total(reason: &str) -> String {
    format!("rate_limit_deferred_admission_refused_total{{reason=\"{reason}\"}}")
}

fn at_most(max_held: usize, max_held_per_tenant: usize) -> ClassLimits {
    ClassLimits {
        max_held: NonZeroUsize::new(max_held).unwrap(),
        max_held_per_tenant: NonZeroUsize::new(max_held_per_tenant).unwrap(),
        ..ClassLimits::default()
    }
}

fn no_longer_than(millis: u64) -> ClassLimits {
    ClassLimits { max_wait: Duration::from_millis(millis), ..ClassLimits::default() }
}

#[track_caller]
fn assert_about(waited: Duration, millis: u64) {
    // Timers tick in milliseconds.
    let expected = Duration::from_millis(millis);
    assert!((expected..expected + Duration::from_millis(5)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_until_its_tokens_have_flowed_in() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, deferring(ClassLimits::default()));
        house.exhaust(1_000).await;
        let start = Instant::now();
        let waiting = tokio::spawn(house.admit(house.ask(1, reservation(100, 300))));
        house.until_held(1).await;
        assert_eq!(house.metric(HELD), 1.0);
        assert_eq!(house.metric("rate_limit_fair_queue_depth"), 0.0);
        let permit = waiting.await.unwrap().unwrap();
        assert_about(start.elapsed(), 400);
        assert_eq!(house.metric(HELD), 0.0);
        assert_eq!(house.metric("rate_limit_deferred_admission_wait_seconds_count"), 1.0);
        let mut headers = http::HeaderMap::new();
        permit.write_headers(&mut headers);
        let told: u64 = headers["x-deferred-admission-wait-ms"].to_str().unwrap().parse().unwrap();
        assert!((400..405).contains(&told), "{told}");
        assert!(!headers.contains_key("x-fair-queue-position"), "it was never queued");
        assert_eq!(permit.reservation().unwrap().total, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_admits_who_waits_for_it_at_once() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, deferring(ClassLimits::default()));
        let [generous, gone] = [(); 2].map(|()| house.ask(1, reservation(10, 490)));
        let (generous, gone) = (house.admit(generous).await.unwrap(), house.admit(gone).await.unwrap());
        let start = Instant::now();
        let waiting = tokio::spawn(house.admit(house.ask(2, reservation(0, 900))));
        house.until_held(1).await;
        // One used 20 of its 500 tokens, the other never reached a backend.
        generous.keep_charges();
        generous.settle(answered(200, Some(20), 0));
        house.limiter.settled().await;
        assert_eq!(house.held(), 1, "480 are not enough");
        drop(gone);
        waiting.await.unwrap().unwrap();
        assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_debt_is_waited_out() {
    let house = House::new(Kept::Here, deferring(ClassLimits::default()));
    let greedy = house.admit(house.ask(1, reservation(1_000, 0))).await.unwrap();
    let start = Instant::now();
    let waiting = tokio::spawn(house.admit(house.ask(2, reservation(100, 0))));
    house.until_held(1).await;
    greedy.keep_charges();
    greedy.settle(answered(200, Some(1_700), 0));
    waiting.await.unwrap().unwrap();
    assert_about(start.elapsed(), 800);
}

#[tokio::test(start_paused = true)]
async fn nobody_passes_those_who_wait_and_nobody_without_a_tenant_is_held() {
    let house = House::new(Kept::Here, deferring(ClassLimits::default()));
    house.exhaust(1_000).await;
    let mut large = pin!(house.admit(house.ask(1, reservation(500, 0))));
    assert!(pending(large.as_mut()).await);
    tokio::time::advance(Duration::from_millis(300)).await;
    // 300 are there, and kept for who came first.
    let mut small = pin!(house.admit(house.ask(2, reservation(100, 0))));
    assert!(pending(small.as_mut()).await);
    let nobody = || Ask { tenant: None, ..house.ask(1, reservation(100, 0)) };
    let refused = house.admit(nobody()).await.unwrap_err();
    assert_eq!((limited(&refused).class, limited(&refused).held.is_none()), (Class::Tokens, true));
    assert_eq!(limited(&refused).retry_after, Duration::from_millis(100));
    large.await.unwrap().keep_charges();
    small.await.unwrap().keep_charges();
}

#[tokio::test(start_paused = true)]
async fn each_bound_refuses_under_its_own_name() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, deferring(at_most(2, 1)));
        house.exhaust(1_000).await;
        let first = tokio::spawn(house.admit(house.ask(1, reservation(100, 0))));
        house.until_held(1).await;
        let refused = house.admit(house.ask(1, reservation(200, 50))).await.unwrap_err();
        assert_eq!(deferral(&refused), ("tenant_hold_full", Duration::ZERO, 250));
        assert_eq!(limited(&refused).deferred, Some(Duration::ZERO));
        // Behind its own lane it takes 100 and 250 tokens.
        assert_eq!(limited(&refused).retry_after, Duration::from_millis(350));
        let second = tokio::spawn(house.admit(house.ask(2, reservation(100, 0))));
        house.until_held(2).await;
        let refused = house.admit(house.ask(3, reservation(100, 0))).await.unwrap_err();
        assert_eq!(deferral(&refused).0, "hold_full");
        assert_eq!(refused.quotas.tokens.as_ref().unwrap().remaining, 0);
        for reason in ["tenant_hold_full", "hold_full"] {
            assert_eq!(house.metric(&refused_total(reason)), 1.0);
        }
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_fit_its_budget_of_time_is_told_at_once_and_what_does_not_make_it_at_its_deadline() {
    let house = House::new(Kept::Here, deferring(no_longer_than(250)));
    house.exhaust(1_000).await;
    let start = Instant::now();
    let refused = house.admit(house.ask(1, reservation(300, 0))).await.unwrap_err();
    assert_eq!(deferral(&refused), ("wait_exceeds_budget", Duration::ZERO, 300));
    assert_eq!(limited(&refused).retry_after, Duration::from_millis(300));
    assert_eq!(start.elapsed(), Duration::ZERO);

    // Two tenants want 200 each, and only one of them can have it in time.
    let [one, other] = [1, 2].map(|tenant| tokio::spawn(house.admit(house.ask(tenant, reservation(200, 0)))));
    one.await.unwrap().unwrap().keep_charges();
    let refused = other.await.unwrap().unwrap_err();
    let (reason, waited, tokens) = deferral(&refused);
    assert_eq!((reason, tokens), ("deadline_exceeded", 200));
    assert_about(waited, 250);
    assert_eq!(house.metric(&refused_total("deadline_exceeded")), 1.0);
    assert_eq!(house.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn bodies_of_the_deferred_are_bounded_too() {
    let house = House::new(Kept::Here, deferring(ClassLimits::default()));
    house.exhaust(1_000).await;
    let mut first = pin!(house.admit(Ask { body_bytes: 950, ..house.ask(1, reservation(100, 0)) }));
    assert!(pending(first.as_mut()).await);
    let refused = house.admit(house.ask(2, reservation(100, 0))).await.unwrap_err();
    assert_eq!(deferral(&refused).0, "hold_full", "100 bytes more than the 1000 allowed");
    assert_eq!(house.held(), 1);
    first.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_deferral_a_budget_refuses_at_once_whatever_is_queued() {
    let queue = fairlane_gateway::admission::QueueSettings {
        limits: fairlane_fair_queue::Limits::default(),
        ..deferring(ClassLimits::default()).unwrap()
    };
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, Some(queue));
        house.exhaust(900).await;
        let refused = house.admit(house.ask(1, reservation(300, 0))).await.unwrap_err();
        assert_eq!((limited(&refused).class, limited(&refused).held.is_none()), (Class::Tokens, true));
        assert_eq!(limited(&refused).retry_after, Duration::from_millis(200));
        assert_eq!(house.held(), 0);
    }
}

/// Takes all of the team's requests, and leaves nothing of its tokens.
async fn exhaust_both(house: &House) {
    for _ in 0..BURST {
        house.admit(house.ask(99, reservation(10, 0))).await.unwrap().keep_charges();
    }
    house.limiter.settled().await;
}

#[tokio::test(start_paused = true)]
async fn first_queued_then_deferred_is_one_wait_in_one_place_at_a_time() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, queuing_and_deferring(ClassLimits::default(), ClassLimits::default()));
        exhaust_both(&house).await;
        let start = Instant::now();
        let waiting = tokio::spawn(house.admit(house.ask(1, reservation(300, 0))));
        house.until_held(1).await;
        let queued = house.metric("rate_limit_fair_queue_depth");
        assert_eq!((queued, house.metric(HELD)), (1.0, 0.0), "the count binds first");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let queued = house.metric("rate_limit_fair_queue_depth");
        assert_eq!((queued, house.metric(HELD)), (0.0, 1.0), "then the tokens");
        let permit = waiting.await.unwrap().unwrap();
        assert_about(start.elapsed(), 300);

        let mut headers = http::HeaderMap::new();
        permit.write_headers(&mut headers);
        let told = |name: &str| headers[name].to_str().unwrap().parse::<u64>().unwrap();
        let (queued, deferred) = (told("x-fair-queue-wait-ms"), told("x-deferred-admission-wait-ms"));
        assert!((10..20).contains(&queued), "{queued}");
        assert!((280..=295).contains(&deferred), "{deferred}");
        assert_eq!(headers["x-fair-queue-position"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_given_back_meanwhile_are_known_to_who_is_queued() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, queuing_and_deferring(ClassLimits::default(), ClassLimits::default()));
        let generous = house.admit(house.ask(99, reservation(0, 900))).await.unwrap();
        for _ in 1..BURST {
            house.admit(house.ask(99, reservation(1, 0))).await.unwrap().keep_charges();
        }
        let start = Instant::now();
        let waiting = tokio::spawn(house.admit(house.ask(1, reservation(300, 0))));
        house.until_held(1).await;
        assert_eq!(house.metric("rate_limit_fair_queue_depth"), 1.0, "the count binds first");
        generous.keep_charges();
        generous.settle(answered(200, Some(20), 0));
        house.limiter.settled().await;
        waiting.await.unwrap().unwrap();
        assert_about(start.elapsed(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn one_deadline_covers_both() {
    // The queue would hold for 300 ms, deferral for 150 from the arrival.
    let house = House::new(Kept::Here, queuing_and_deferring(no_longer_than(300), no_longer_than(150)));
    exhaust_both(&house).await;
    let start = Instant::now();
    let refused = house.admit(house.ask(1, reservation(200, 0))).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_millis(160), "{:?}", start.elapsed());
    let limited = limited(&refused);
    assert_eq!(limited.class, Class::Tokens);
    let Some(HoldRefusal::Deferral(deferral)) = limited.held else { panic!("{limited:?}") };
    assert_eq!((deferral.reason, deferral.tokens), ("wait_exceeds_budget", 200));
}

#[tokio::test(start_paused = true)]
async fn leaving_in_every_state_leaves_full_budgets() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, deferring(ClassLimits::default()));
        for round in 0..200_u64 {
            let mut holder = Some(house.admit(house.ask(1, reservation(1_000, 0))).await.unwrap());
            {
                let mut waiting = Box::pin(house.admit(house.ask(u128::from(round), reservation(400, 100))));
                while house.held() == 0 {
                    assert!(pending(waiting.as_mut()).await);
                    tokio::task::yield_now().await;
                }
                match round % 3 {
                    // Granted by the timer, and never polled again.
                    1 => tokio::time::sleep(Duration::from_millis(510)).await,
                    // Granted by what was given back.
                    2 => {
                        holder = None;
                        house.limiter.settled().await;
                    }
                    _ => {}
                }
            }
            drop(holder);
            house.limiter.settled().await;
            assert_eq!(house.held(), 0);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(house.left().await, [100, 1_000, 5_000], "{kept:?}");
        let snapshot = house.admission.snapshot().unwrap();
        assert_eq!((snapshot.held, snapshot.in_flight), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_everybody_deferred_is_told() {
    let house = House::new(Kept::Here, deferring(ClassLimits::default()));
    house.exhaust(1_000).await;
    let held = tokio::spawn(house.admit(house.ask(1, reservation(100, 0))));
    house.until_held(1).await;
    assert_eq!(house.admission.close(), 1);
    let refused = held.await.unwrap().unwrap_err();
    assert!(matches!(refused.fault, fairlane_gateway::answer::Fault::ShuttingDown));
}
