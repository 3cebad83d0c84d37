//! The harness does what its users rely on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod proxy;
mod sentinels;
mod server;
