//! The store in Redis, against real servers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod support;
