//! Fairlane, a fair admission gateway for LLM and API traffic.

pub mod body;
pub mod echo;
pub mod edge;
pub mod proxy;
