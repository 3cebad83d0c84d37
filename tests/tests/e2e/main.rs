//! The gateway from outside: the real binary, real sockets.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper of a test that fails is a test that fails, and a panic is how a test says so"
)]

mod admin;
mod answers;
mod backends;
mod capacity;
mod clients;
mod command_line;
mod draining;
mod editor;
mod fairness;
mod forwarding;
mod headers;
mod identity;
mod leaving;
mod limits;
mod metrics;
mod python_clients;
mod queue;
mod redis;
mod reload;
mod resets;
mod secrets;
mod statuses;
mod streaming;
mod support;
mod tokens;
mod untaken;
mod wire;
