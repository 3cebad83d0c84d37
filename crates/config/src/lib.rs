//! The configuration of Fairlane: model, loader, diagnostics and JSON schema.
