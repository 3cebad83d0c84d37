//! Admission over a store that has to be waited for and may be out, under a paused clock: who passes, what an outage
//! means, and that every way out gives back exactly once.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper of a test that fails is a test that fails, and a panic is how a test says so"
)]

#[path = "remote/deciding.rs"]
mod deciding;
mod far;
#[path = "remote/house.rs"]
mod house;
#[path = "remote/leaving.rs"]
mod leaving;
#[path = "remote/outage.rs"]
mod outage;
#[path = "remote/reloading.rs"]
mod reloading;
#[path = "remote/settling.rs"]
mod settling;
