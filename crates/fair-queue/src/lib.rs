//! A weighted fair queue as a pure state machine: who may try a rate-limited bucket next.

mod action;
mod backlog;
mod deadlines;
mod estimate;
mod gate;
mod ids;
mod index;
mod lane;
mod limits;
mod list;
mod mirror;
mod queue;
mod ready;
mod refusal;
mod request;
mod slab;
mod snapshot;
mod time;
mod virtual_time;
mod waiter;
mod window;

pub use action::Action;
pub use ids::{GateKey, TenantKey, Ticket, Weight};
pub use limits::Limits;
pub use queue::FairQueue;
pub use refusal::{Reason, Refusal, Requeue};
pub use request::{Demand, GateLevel, Place, Request};
pub use snapshot::{GateSnapshot, LaneSnapshot, Snapshot};
pub use time::Timestamp;
