use std::path::Path;

use clap::CommandFactory as _;
use fairlane_config::{Format, Loader};

use super::Cli;

const START: &str = include_str!("init.yaml");

fn load(text: &str) -> String {
    let environment = |name: &str| match name {
        "REDIS_URL" => Some("redis://127.0.0.1:6379".to_owned()),
        "ALICE_KEY" | "BOB_KEY" | "UPSTREAM_API_KEY" | "FAIRLANE_HASH_KEY" => {
            Some(format!("value-of-{name}"))
        }
        _ => None,
    };
    let loader = Loader::new(&environment);
    match loader.load_bytes(text.as_bytes(), Format::Yaml, Path::new("fairlane.yaml")) {
        Ok(config) => config.warnings().to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn what_one_begins_with_is_good_without_a_word() {
    assert_eq!(load(START), "");
    let nothing = |_: &str| None;
    let bytes = START.as_bytes();
    let config = Loader::new(&nothing).load_bytes(bytes, Format::Yaml, Path::new("fairlane.yaml")).unwrap();
    assert!(config.warnings().is_empty());
}

/// All that is switched off works when it is switched on, but for the file of keys that is not there.
#[test]
fn what_is_switched_off_in_it_is_good_too() {
    let switched_on: String = START
        .lines()
        .filter_map(|line| match line.strip_prefix('#') {
            // Prose has one blank behind its `#`.
            Some(prose) if prose.is_empty() || prose.starts_with(' ') && !prose.starts_with("  ") => None,
            Some(line) => Some(line),
            None => Some(line),
        })
        .filter(|line| !line.trim_start().starts_with("file:"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(switched_on.contains("hash_key") && switched_on.contains("weights"), "{switched_on}");
    assert_eq!(load(&switched_on.replace("permissive", "blocking")), "", "{switched_on}");
}
