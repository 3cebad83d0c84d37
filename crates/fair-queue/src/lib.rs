//! A weighted fair queue as a pure state machine: who may try a rate-limited bucket next.

mod action;
mod ids;
mod limits;
mod queue;
mod refusal;
mod request;
mod snapshot;
mod time;

pub use action::Action;
pub use ids::{GateKey, TenantKey, Ticket, Weight};
pub use limits::Limits;
pub use queue::FairQueue;
pub use refusal::{Reason, Refusal, Requeue};
pub use request::{Demand, GateLevel, Place, Request};
pub use snapshot::{GateSnapshot, LaneSnapshot, Snapshot};
pub use time::Timestamp;
