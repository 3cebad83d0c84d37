//! Whole files: what loads, what does not and in which words, and that the schema alone comes to the same verdict.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use std::path::Path;

use fairlane_config::{Format, Loader, Overrides, Severity};
use support::{SCHEMA, SECRETS, files, independent, load, text};

/// All reports of a folder, one after the other.
fn reports(folder: &str) -> String {
    let mut all = String::new();
    for file in files(folder) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let report = match load(&file) {
            Ok(config) => config.warnings().clone(),
            Err(report) => report,
        };
        all.push_str(&format!("# {name}\n{}\n\n", text(&report)));
    }
    all
}

#[test]
fn good_files_load_without_a_word_and_the_schema_accepts_them() {
    let files = files("good");
    assert!(files.len() >= 20, "{}", files.len());
    for file in files {
        match load(&file) {
            Ok(config) => assert!(config.warnings().is_empty(), "{}", config.warnings()),
            Err(report) => panic!("{report}"),
        }
        let errors: Vec<_> = SCHEMA.iter_errors(&independent(&file)).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", file.display());
    }
}

#[test]
fn what_the_schema_refuses_the_loader_refuses() {
    let files = files("bad/schema");
    assert!(files.len() >= 60, "{}", files.len());
    for file in files {
        assert!(!SCHEMA.is_valid(&independent(&file)), "the schema accepts {}", file.display());
        let report = load(&file).expect_err(&file.display().to_string());
        assert!(report.has_errors());
        assert!(report.diagnostics().iter().all(|d| d.position().is_some()), "{report}");
    }
    insta::assert_snapshot!("bad-schema", reports("bad/schema"));
}

#[test]
fn what_only_the_loader_refuses_is_across_values_or_outside_the_file() {
    for file in files("bad/cross") {
        let errors: Vec<_> = SCHEMA.iter_errors(&independent(&file)).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", file.display());
        let report = load(&file).expect_err(&file.display().to_string());
        assert!(report.diagnostics().iter().all(|d| d.position().is_some()), "{report}");
    }
    insta::assert_snapshot!("bad-cross", reports("bad/cross"));
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    for file in files("bad/syntax") {
        let report = load(&file).expect_err(&file.display().to_string());
        assert!(report.diagnostics().iter().all(|d| d.position().is_some()), "{report}");
    }
    insta::assert_snapshot!("bad-syntax", reports("bad/syntax"));
}

#[test]
fn warnings_do_not_keep_a_file_from_loading() {
    for file in files("warn") {
        let config = load(&file).unwrap_or_else(|report| panic!("{report}"));
        assert!(!config.warnings().is_empty(), "{}", file.display());
        assert!(config.warnings().diagnostics().iter().all(|d| d.severity == Severity::Warning));
        assert!(SCHEMA.is_valid(&independent(&file)), "{}", file.display());
    }
    insta::assert_snapshot!("warn", reports("warn"));
}

#[test]
fn the_examples_load_without_a_word() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if Format::of(&path).is_none() {
            continue;
        }
        seen += 1;
        let nothing_is_set = |_: &str| None;
        let config = Loader::new(&nothing_is_set).load(&path).unwrap_or_else(|report| panic!("{report}"));
        assert!(config.warnings().is_empty(), "{}", config.warnings());
        assert!(SCHEMA.is_valid(&independent(&path)));
        let first = std::fs::read_to_string(&path).unwrap();
        assert!(first.starts_with("# yaml-language-server: $schema=../schemas/fairlane.schema.json\n"));
    }
    assert!(seen >= 2);
}

#[test]
fn no_report_shows_a_secret_and_no_log_a_word_of_the_file() {
    for folder in ["good", "warn", "bad/schema", "bad/cross", "bad/syntax"] {
        for file in files(folder) {
            let outputs = match load(&file) {
                Ok(config) => vec![
                    format!("{config:?}"),
                    config.effective().to_string(),
                    config.effective_yaml(),
                    config.warnings().to_string(),
                    config.warnings().drawn(true),
                    config.warnings().to_json().to_string(),
                ],
                Err(report) => {
                    for (problem, line) in report.diagnostics().iter().zip(report.redacted()) {
                        let prefix = report.file_of(problem).display().to_string();
                        // Place, severity and class: letters from a fixed list.
                        let rest = line.strip_prefix(&prefix).unwrap();
                        let (place, class) = rest.split_once(' ').unwrap();
                        assert!(place.chars().all(|c| c.is_ascii_digit() || c == ':'), "{line}");
                        assert!(CLASSES.contains(&class), "{line}");
                    }
                    vec![
                        report.to_string(),
                        format!("{report:?}"),
                        report.drawn(false),
                        report.to_json().to_string(),
                    ]
                }
            };
            for (output, secret) in outputs.iter().flat_map(|output| SECRETS.map(|secret| (output, secret))) {
                assert!(!output.contains(secret), "{}: {output}", file.display());
            }
        }
    }
}

const CLASSES: [&str; 12] = [
    "error: syntax",
    "error: duplicate key",
    "error: unknown key",
    "error: missing key",
    "error: wrong type",
    "error: out of range",
    "error: bad value",
    "error: variable",
    "error: conflicting values",
    "error: a file cannot be read",
    "warning: no effect",
    "warning: risk",
];

#[test]
fn flags_go_before_their_variables_and_those_before_the_file() {
    let file = support::corpus().join("good/minimal.yaml");
    let environment = |name: &str| match name {
        "ALICE_KEY" => Some("key-of-alice".to_owned()),
        "FAIRLANE_LISTEN" => Some("127.0.0.1:1111".to_owned()),
        "FAIRLANE_ADMIN_LISTEN" => Some("127.0.0.1:2222".to_owned()),
        _ => None,
    };
    let load = |overrides| Loader::new(&environment).overrides(overrides).load(&file);

    let config = load(Overrides::default()).unwrap();
    assert_eq!(config.server.listen.port(), 1111);
    assert_eq!(config.server.admin_listen.unwrap().port(), 2222);

    let flag = |listen: &str, admin: &str| Overrides {
        listen: Some(listen.to_owned()),
        admin_listen: Some(admin.to_owned()),
    };
    let config = load(flag("127.0.0.1:3333", "off")).unwrap();
    assert_eq!(config.server.listen.port(), 3333);
    assert_eq!(config.server.admin_listen, None);

    let report = load(flag("nowhere", "0.0.0.0:9090")).unwrap_err();
    assert_eq!(
        text(&report),
        "minimal.yaml: error: server.listen: an IP address with a port is due, such as 127.0.0.1:8080, \
         0.0.0.0:8080 or [::]:8080 (it comes from --listen or FAIRLANE_LISTEN)\n\
         minimal.yaml: error: server.admin_listen: an admin plane that others can reach needs `admin.token` \
         (it comes from --admin-listen or FAIRLANE_ADMIN_LISTEN)\n  \
         help: set `admin.token` (by default it is the variable FAIRLANE_ADMIN_TOKEN), or listen on 127.0.0.1"
    );
}
