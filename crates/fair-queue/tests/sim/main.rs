//! The queue under load, in virtual time: real buckets, a store with latency, and schedulers to compare with.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers here are small")]

mod bucket;
mod driver;
mod estimates;
mod gates;
mod loads;
mod oracle;
mod picks;
mod rig;
mod scheduler;
mod shares;
mod tokens;
