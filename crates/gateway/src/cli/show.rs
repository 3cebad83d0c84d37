//! `fairlane config`.

use std::path::Path;

use clap::ValueEnum;
use fairlane_config::Overrides;

use super::{
    Exit,
    load::{Form, find, load},
    output::print,
};

/// The form in which the configuration is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Shown {
    /// YAML, with the origin of each value in a comment
    #[default]
    Yaml,
    /// One JSON object: the values, each with its origin
    Json,
}

/// Prints the configuration in effect, masked, and where each value comes from.
pub(super) fn show(given: Option<&Path>, overrides: Overrides, shown: Shown) -> Exit {
    match find(given).and_then(|path| load(&path, overrides)) {
        Ok(inspected) => print(&match shown {
            Shown::Yaml => inspected.to_yaml(),
            Shown::Json => format!("{:#}\n", inspected.to_json()),
        }),
        Err(refusal) => {
            refusal.tell(Form::Full);
            Exit::Configuration
        }
    }
}
