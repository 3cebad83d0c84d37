//! Real Redis servers for tests, each a process of its own on free ports of 127.0.0.1, and a proxy that spoils the
//! connections to them.
//!
//! - [`Server`]: one server, which can be paused, killed and started again.
//! - [`Sentinels`]: a master, its replicas and three sentinels.
//! - [`Cluster`]: three masters that share the slots, each with a replica if asked for.
//! - [`ChaosProxy`]: stands before a server, counts its commands, and breaks what a test tells it to break.
//!
//! Everything ends with its value: a dropped server is killed by its process id, even a paused one, and even if the
//! test panics. Should the whole test process be killed, a watchdog ends the servers. No server keeps anything on
//! disk, and none is one of the machine's own.
//!
//! Nothing here sleeps to let something happen: whatever has to come about is looked for again and again, and a test
//! that waits in vain panics after [`wait::PATIENCE`] and says for what.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a harness that fails is a test that fails, and a panic is how a test says so"
)]

mod admin;
mod cluster;
mod port;
mod process;
mod proxy;
mod resp;
mod sentinels;
mod server;
pub mod wait;

pub use redis;

pub use self::{
    cluster::{Cluster, ClusterOptions, SlotMove},
    proxy::{ChaosProxy, Commands, Fault},
    sentinels::{Sentinels, SentinelsOptions},
    server::{Server, ServerOptions, Tls},
};
