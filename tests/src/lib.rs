//! What the end-to-end tests share: the real gateway as a process of its own, backends that do as a test says, and a
//! client that shows every byte.
//!
//! Nothing here sleeps to let something happen. A test awaits an event (a request reached the backend, a connection
//! closed, a line was logged); only what the gateway tells on its admin plane alone is asked for again and again, in
//! [`wait::until`].

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a harness that fails is a test that fails, and a panic is how a test says so"
)]

pub mod backend;
mod binary;
mod client;
mod config;
pub mod editor;
mod gateway;
mod log;
mod metrics;
pub mod wait;

pub use self::{
    backend::{Backend, Chunks, Gate, RawBackend, Reply, Seen},
    binary::{Finished, command, run},
    client::{Answer, Call, Client, Http2, Opened, Pending, Raw, Untaken, Wire},
    config::Config,
    gateway::Gateway,
    log::Log,
    metrics::{Family, Metrics, Sample},
};
