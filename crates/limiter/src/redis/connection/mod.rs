//! Connections: who makes them, who watches them, and who is told.
//!
//! Every server that decisions are made on is a [`Node`](node::Node): a connection that all calls share, a breaker,
//! and a task that watches over both. A pool of `deadpool-redis` makes and checks the connection. Calls do not check
//! it out: that would send two more commands for each of them, and leave all others waiting.

pub(super) mod board;
pub(super) mod dial;
pub(super) mod node;
pub(super) mod sentinel;
pub(super) mod supervisor;
