//! Forwarding, against servers on the loopback interface that do exactly what a test tells them.

#![allow(clippy::unwrap_used, reason = "a test that meets something else has failed")]

#[path = "proxy/backend.rs"]
mod backend;
#[path = "proxy/cancel.rs"]
mod cancel;
#[path = "proxy/choice.rs"]
mod choice;
#[path = "far/mod.rs"]
mod far;
#[path = "proxy/forwarding.rs"]
mod forwarding;
#[path = "proxy/health.rs"]
mod health;
#[path = "proxy/kept.rs"]
mod kept;
#[path = "proxy/quota.rs"]
mod quota;
#[path = "proxy/streams.rs"]
mod streams;
#[path = "proxy/timeouts.rs"]
mod timeouts;
#[path = "proxy/tls.rs"]
mod tls;
