//! The store in Redis, against real servers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod conformance;
mod inspection;
mod keys;
mod late;
mod login;
mod oracle;
mod outage;
mod scripts;
mod sentinel;
mod settlement;
mod support;
mod warnings;
