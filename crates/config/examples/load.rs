//! Loads a configuration and shows what is in effect, or everything that is wrong with it.
//!
//! ```text
//! cargo run -p fairlane-config --example load -- examples/quickstart.yaml
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its reader")]

use std::{path::PathBuf, process::ExitCode};

use fairlane_config::{GatewayConfig, ProcessEnvironment, discover};

fn main() -> ExitCode {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let path = match discover(given.as_deref(), &ProcessEnvironment) {
        Ok(path) => path,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(78);
        }
    };
    match GatewayConfig::load(&path, &ProcessEnvironment) {
        Ok(config) => {
            if !config.warnings().is_empty() {
                eprintln!("{}", config.warnings());
            }
            print!("{}", config.effective_yaml());
            ExitCode::SUCCESS
        }
        Err(report) => {
            eprintln!("{report}");
            ExitCode::from(78)
        }
    }
}
