//! What a request settles to, by how far it came; once, whatever is dropped when.

use std::time::Duration;

use fairlane_gateway::{
    admission::Permit,
    usage::{Ended, Ending, Outcome, Usage},
};
use http::StatusCode;

use crate::{
    far::Fate,
    house::{House, Kept, nobody_waits, reservation},
};

/// A backend answered, told its usage or not, and some more output was seen.
pub(crate) fn answered(status: u16, total: Option<u64>, observed_output: u64) -> Ending {
    let usage = total.map(|total| Usage { prompt: 0, output: total, total });
    let outcome = Outcome { usage, observed_output, ended: Ended::Complete };
    Ending::Answered { status: StatusCode::from_u16(status).unwrap(), outcome }
}

/// Admits a request with a prompt of 100 and a cap of 300, lets it come to its end, and tells what the team has left of
/// 100 requests and 1000 tokens.
async fn left_after(kept: Kept, end: impl FnOnce(Permit)) -> [i64; 2] {
    let house = House::new(kept, nobody_waits());
    let permit = house.admit(house.ask(1, reservation(100, 300))).await.unwrap();
    end(permit);
    let [requests, tokens, model] = house.left().await;
    assert_eq!(1_000 - tokens, 5_000 - model, "both budgets alike");
    let spent = (1_000 - tokens) as f64;
    let counted = |name: &str| house.metric(&format!("rate_limit_tokens_{name}_total{{dimension=\"team\"}}"));
    assert_eq!(counted("reserved"), 400.0);
    assert_eq!(counted("settled"), spent);
    assert_eq!(counted("returned"), (400.0 - spent).max(0.0));
    [requests, tokens]
}

async fn check(end: impl Fn(Permit) + Copy, expected: [i64; 2]) {
    for kept in [Kept::Here, Kept::FarAway] {
        assert_eq!(left_after(kept, end).await, expected, "{kept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_reached_no_backend_costs_nothing_at_all() {
    check(drop, [100, 1_000]).await;
    check(|permit| permit.settle(Ending::Unsent), [100, 1_000]).await;
}

#[tokio::test(start_paused = true)]
async fn what_got_no_status_counts_as_a_request_and_costs_no_tokens() {
    let unanswered = |permit: Permit| {
        permit.keep_charges();
        permit.settle(Ending::Unanswered);
    };
    check(unanswered, [99, 1_000]).await;
    let failed = |permit: Permit| {
        permit.keep_charges();
        permit.settle(answered(500, Some(350), 9));
    };
    check(failed, [99, 1_000]).await;
}

#[tokio::test(start_paused = true)]
async fn the_backends_count_is_what_is_charged() {
    let less = |permit: Permit| {
        permit.keep_charges();
        permit.settle(answered(200, Some(250), 0));
    };
    check(less, [99, 750]).await;
    let exactly = |permit: Permit| {
        permit.keep_charges();
        permit.settle(answered(200, Some(400), 0));
    };
    check(exactly, [99, 600]).await;
    let more = |permit: Permit| {
        permit.keep_charges();
        permit.settle(answered(200, Some(900), 0));
    };
    check(more, [99, 100]).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_count_the_prompt_and_what_was_seen_are_charged() {
    let seen = |permit: Permit| {
        permit.keep_charges();
        permit.settle(answered(200, None, 37));
    };
    check(seen, [99, 863]).await;
    check(|permit| permit.keep_charges(), [99, 900]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_first_ending_counts_and_only_once_over_all_copies() {
    let twice = |permit: Permit| {
        permit.keep_charges();
        let twin = permit.clone();
        permit.settle(answered(200, Some(150), 0));
        twin.settle(answered(200, Some(999), 0));
        drop(permit);
        twin.settle(Ending::Unanswered);
    };
    check(twice, [99, 850]).await;
}

#[tokio::test(start_paused = true)]
async fn a_debt_delays_what_comes_next_by_exactly_its_refill() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, nobody_waits());
        let permit = house.admit(house.ask(1, reservation(100, 0))).await.unwrap();
        permit.keep_charges();
        permit.settle(answered(200, Some(1_500), 0));
        assert_eq!(house.left().await, [99, -500, 3_500]);
        let refused = house.admit(house.ask(1, reservation(50, 0))).await.unwrap_err();
        assert_eq!(refused.fault.retry_after(), Some(Duration::from_millis(550)));
        assert_eq!(refused.quotas.tokens.as_ref().unwrap().remaining, 0, "a debt is told as nothing");
        tokio::time::advance(Duration::from_millis(549)).await;
        house.admit(house.ask(1, reservation(50, 0))).await.unwrap_err();
        tokio::time::advance(Duration::from_millis(1)).await;
        house.admit(house.ask(1, reservation(50, 0))).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_lost_is_counted_for_each_budget() {
    let house = House::new(Kept::FarAway, nobody_waits());
    let far = house.far.as_ref().unwrap();
    far.settlements(Fate::Fails);
    let permit = house.admit(house.ask(1, reservation(100, 300))).await.unwrap();
    permit.keep_charges();
    permit.settle(answered(200, Some(120), 0));
    assert_eq!(house.left().await, [99, 600, 4_600], "it refills instead");
    assert_eq!(house.metric("rate_limit_settlements_lost_total"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn many_at_once_never_take_more_than_there_is() {
    for kept in [Kept::Here, Kept::FarAway] {
        let house = House::new(kept, nobody_waits());
        let asks = (0..64).map(|at| tokio::spawn(house.admit(house.ask(at, reservation(30, 40)))));
        let mut admitted = Vec::new();
        for ask in asks.collect::<Vec<_>>() {
            admitted.extend(ask.await.unwrap());
        }
        assert_eq!(admitted.len(), 14, "14 of 70 tokens fit into 1000");
        assert_eq!(house.tokens_left().await, 20);
        drop(admitted);
        assert_eq!(house.left().await, [100, 1_000, 5_000]);
    }
}
