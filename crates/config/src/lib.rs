//! The configuration of Fairlane: model, loader, diagnostics and JSON schema.
//!
//! A file in YAML, TOML or JSON becomes a [`Validated`] configuration, or a [`Report`] of everything that is wrong
//! with it, each problem with its place, its key and what would be right:
//!
//! ```
//! use std::path::Path;
//!
//! use fairlane_config::{Format, Loader};
//!
//! let environment = |name: &str| (name == "ALICE_KEY").then(|| "a-secret".to_owned());
//! let loader = Loader::new(&environment);
//! let good = br#"
//! backends: [{ name: local, url: "http://127.0.0.1:8000", models: ["*"] }]
//! api_keys: { keys: [{ id: k1, key: "${ALICE_KEY}", user: alice }] }
//! rate_limiting: { limits: { per_user: { requests_per_second: 5 } } }
//! "#;
//! let config = loader.load_bytes(good, Format::Yaml, Path::new("fairlane.yaml"))?;
//! assert!(config.rate_limiting.enabled);
//! assert_eq!(config.effective()["api_keys"]["keys"][0]["key"], "***");
//!
//! let bad = b"backends: []\nservr: {}\n";
//! let report = loader.load_bytes(bad, Format::Yaml, Path::new("fairlane.yaml")).unwrap_err();
//! assert_eq!(
//!     report.to_string(),
//!     "fairlane.yaml:1:11: error: backends: at least one entry is due\n\
//!      fairlane.yaml:2:1: error: servr: there is no such key here\n  help: did you mean `server`?"
//! );
//! # Ok::<(), fairlane_config::Report>(())
//! ```
//!
//! [`schema`] gives the JSON schema for editors. The loader checks a file against that very schema, so the two never
//! differ; it adds only what no schema can say: rules across values, addresses, files and the environment.
//!
//! The crate reads files that it is told to read, and the environment through a parameter only. It starts no thread
//! and keeps no state but the compiled schema.

mod check;
mod defaults;
mod diagnostic;
mod discover;
mod fixed;
mod interpolate;
mod keys_file;
mod load;
pub mod model;
mod origin;
mod read;
mod rules;
mod schema;
mod suggest;
mod tenants;
mod tree;
mod validated;
mod values;
mod yaml;

pub use diagnostic::{Diagnostic, KeyPath, Kind, Position, Related, Report, Severity, Span, Step};
pub use discover::{NotFound, discover};
pub use fixed::{Fixed, restart_only};
pub use interpolate::{Environment, ProcessEnvironment};
pub use load::{Loader, Overrides};
pub use model::GatewayConfig;
pub use origin::{Inspected, Origin};
pub use schema::{keys_schema, schema};
pub use suggest::closest;
pub use tenants::{Tenant, TenantWeight};
pub use tree::Format;
pub use validated::Validated;
pub use values::{
    AddressRange, BackendUrl, KeyDigest, MASK, ModelPattern, Name, RedisServer, RedisUrl, Secret, ServerUrl,
    ValueError, format_duration, parse_duration, parse_listen, parse_timestamp,
};
