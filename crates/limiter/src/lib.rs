//! Exact token buckets: one decision takes several charges, all or none.
