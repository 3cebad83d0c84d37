//! The configuration of Fairlane: model, loader, diagnostics and JSON schema.

mod check;
mod defaults;
mod diagnostic;
mod interpolate;
mod load;
pub mod model;
mod rules;
mod schema;
mod suggest;
mod tenants;
mod tree;
mod validated;
mod values;
mod yaml;

pub use diagnostic::{Diagnostic, KeyPath, Kind, Position, Report, Severity, Step};
pub use interpolate::{Environment, ProcessEnvironment};
pub use load::{Loader, NotFound, Overrides, discover};
pub use model::GatewayConfig;
pub use schema::schema;
pub use tenants::{Tenant, TenantWeight};
pub use tree::Format;
pub use validated::Validated;
pub use values::{
    AddressRange, BackendUrl, KeyDigest, MASK, ModelPattern, Name, Secret, ServerUrl, ValueError,
    format_duration, parse_duration, parse_listen, parse_timestamp,
};
