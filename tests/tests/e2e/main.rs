//! The gateway from outside: the real binary, real sockets.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper of a test that fails is a test that fails, and a panic is how a test says so"
)]

mod backends;
mod capacity;
mod clients;
mod draining;
mod fairness;
mod forwarding;
mod headers;
mod identity;
mod leaving;
mod limits;
mod queue;
mod statuses;
mod streaming;
mod support;
