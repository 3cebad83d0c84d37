//! Limits as compiled from the configuration: which buckets a request is charged to.

mod charges;
mod edge;
mod identity;
mod period;
mod table;

pub(crate) use self::charges::USUAL_CHARGES;
pub use self::{
    charges::Charges,
    edge::EdgeLimits,
    identity::{Buckets, CallerPlan, IdentityLimits, IdentityQuotas, ModelLimits, RuleBuckets},
    period::{Period, PeriodQuota},
    table::QuotaTable,
};
