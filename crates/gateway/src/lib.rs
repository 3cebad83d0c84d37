//! Fairlane, a fair admission gateway for LLM and API traffic.

pub mod admin;
pub mod admission;
pub mod answer;
pub mod assemble;
pub mod body;
pub mod clock;
mod detach;
pub mod dimension;
pub mod echo;
pub mod edge;
pub mod explain;
mod finish;
mod forward;
pub mod gateway;
pub mod limits;
mod models;
pub mod proxy;
pub mod reached;
pub mod reload;
pub mod request;
mod rewake;
pub mod stack;
pub mod telemetry;
mod trace;
mod uptake;
pub mod usage;
