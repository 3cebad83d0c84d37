//! Token budgets under a paused clock, over a store in memory and one far away: what is reserved, what is settled and
//! given back at every way out, and who waits for what.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper of a test that fails is a test that fails, and a panic is how a test says so"
)]

#[path = "budgets/deferring.rs"]
mod deferring;
mod far;
#[path = "budgets/house.rs"]
mod house;
#[path = "budgets/racing.rs"]
mod racing;
#[path = "budgets/random.rs"]
mod random;
#[path = "budgets/reserving.rs"]
mod reserving;
#[path = "budgets/settling.rs"]
mod settling;
