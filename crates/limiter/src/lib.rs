#![doc = include_str!("../README.md")]

mod bucket;
mod charge;
mod clock;
#[cfg(feature = "test-util")]
pub mod conformance;
mod decision;
mod key;
mod memory;
mod quota;
#[cfg(feature = "redis")]
pub mod redis;
mod settled;
mod store;

pub use bucket::{Balance, Bucket};
pub use charge::{Charge, Settlement};
#[cfg(any(test, feature = "test-util"))]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock, Timestamp};
pub use decision::{Balances, Decision, Denied, Granted, Impossible, Refusal};
pub use key::{BucketKey, Dimension};
pub use memory::{MemoryLimits, MemoryStats, MemoryStore};
pub use quota::{Quota, QuotaError};
#[cfg(feature = "redis")]
pub use redis::{RedisSettings, RedisStore};
pub use settled::Settled;
pub use store::{Store, StoreError};
