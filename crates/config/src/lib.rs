//! The configuration of Fairlane: model, loader, diagnostics and JSON schema.

mod defaults;
pub mod model;
mod values;

pub use model::GatewayConfig;
pub use values::{
    AddressRange, BackendUrl, KeyDigest, MASK, ModelPattern, Name, Secret, ServerUrl, ValueError,
    format_duration, parse_duration, parse_listen, parse_timestamp,
};
