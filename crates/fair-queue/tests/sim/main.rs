//! The queue under load, in virtual time: real buckets, a store with latency, and schedulers to compare with.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod bucket;
mod driver;
mod loads;
mod scheduler;
