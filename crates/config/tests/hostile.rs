//! Files that mean harm, or are no configurations at all: a clear refusal, no panic, no endless work.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use std::path::Path;

use fairlane_config::{Format, Loader, Report};
use proptest::prelude::*;
use support::{environment, load, load_text};

const FORMATS: [Format; 3] = [Format::Yaml, Format::Toml, Format::Json];

fn refusal(text: &str, format: Format) -> String {
    load_text(text, format).unwrap_err().to_string()
}

#[test]
fn a_bomb_of_aliases_is_stopped() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert_eq!(
        refusal(&bomb, Format::Yaml),
        "test:5:45: error: the aliases stand for more than 100000 values"
    );
}

#[test]
fn deep_nesting_is_stopped() {
    let flow = format!("a: {}", "[".repeat(100));
    assert_eq!(refusal(&flow, Format::Yaml), "test:1:67: error: values are nested more than 64 levels deep");
    let flow = format!("a: {}", "[".repeat(100_000));
    assert_eq!(refusal(&flow, Format::Yaml), "test:1:259: error: recursion limit exceeded");
    let block: String = (0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert_eq!(
        refusal(&block, Format::Yaml),
        "test:65:65: error: values are nested more than 64 levels deep"
    );
    let json = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refusal(&json, Format::Json).contains("error: "));
    let json = format!("{{\"a\":{}1{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(refusal(&json, Format::Json), "test:1:70: error: values are nested more than 64 levels deep");
    let toml = format!("a = {}", "[".repeat(100_000));
    assert!(refusal(&toml, Format::Toml).contains("error: "));
    let dotted = format!("{}a = 1", "a.".repeat(100_000));
    assert!(refusal(&dotted, Format::Toml).contains("error: "));
}

#[test]
fn huge_scalars_are_refused_by_their_schema_and_not_repeated() {
    let huge = "9".repeat(500_000);
    for text in [
        format!("server: {{ max_connections: {huge} }}\nbackends: []\n"),
        format!("log: {{ level: {huge}x }}\nbackends: []\n"),
        format!("server: {{ listen: \"{huge}\" }}\nbackends: []\n"),
    ] {
        let report = refusal(&text, Format::Yaml);
        assert!(report.len() < 1000, "{} bytes", report.len());
    }
}

/// Each of many entries is looked at once: a quadratic look-up would take minutes here.
#[test]
fn many_entries_are_no_trouble_even_if_all_are_wrong() {
    const MANY: usize = 5_000;
    let file = |overrides: &str| {
        format!(
            "backends: [{{ name: a, url: builtin:echo, models: ['*'] }}]\napi_keys: {{ mode: permissive }}\n\
             rate_limiting:\n  limits:\n    per_client:\n      overrides:\n{overrides}"
        )
    };
    let entries = |limit: &str| -> String {
        (0..MANY).map(|n| format!("        10.0.{}.{}: {{ {limit} }}\n", n / 256, n % 256)).collect()
    };
    assert!(load_text(&file(&entries("requests_per_second: 1")), Format::Yaml).is_ok());
    for wrong in
        ["requests_per_second: 0", "burst_capacity: 1", "rate: 1", "requests_per_second: \"${UNSET}\""]
    {
        let report = load_text(&file(&entries(wrong)), Format::Yaml).unwrap_err();
        assert_eq!(report.diagnostics().len(), MANY, "{wrong}");
    }
    let twice = file(&(entries("") + &entries("")));
    let report = load_text(&twice, Format::Yaml).unwrap_err();
    assert_eq!(report.diagnostics().len(), MANY);
    assert_eq!(
        report.to_string().lines().take(2).collect::<Vec<_>>(),
        [
            "test:5007:9: error: rate_limiting.limits.per_client.overrides.\"10.0.0.0\": this key is given twice",
            "  help: the first is on line 7; keep one of them",
        ]
    );
}

#[test]
fn what_is_no_text_is_told() {
    for bytes in [&b"\xff\xfe\x00a"[..], b"a: \x00", b"\x1b[31m", &[0x80; 100]] {
        for format in FORMATS {
            let report =
                Loader::new(&environment()).load_bytes(bytes, format, Path::new("test")).unwrap_err();
            assert_eq!(report.diagnostics().len(), 1, "{report}");
            assert!(report.diagnostics()[0].position().is_some());
        }
    }
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, expected: &str| {
        let report: Report = load(&folder.path().join(name)).unwrap_err();
        assert!(report.to_string().contains(expected), "{report}");
        assert!(report.redacted().all(|line| line.ends_with(": error: a file cannot be read")), "{report:?}");
    };
    check("absent.yaml", "the file cannot be read: No such file or directory");
    check("absent.ini", "a configuration file ends in .yaml, .yml, .toml or .json");
    check("absent", "a configuration file ends in .yaml, .yml, .toml or .json");
    std::fs::create_dir(folder.path().join("folder.yaml")).unwrap();
    check("folder.yaml", "the file cannot be read");
    // Nothing waits behind a device for the end that never comes.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless.yaml")).unwrap();
        check("endless.yaml", "the file is longer than 67108864 bytes");
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in FORMATS {
            prop_assert!(Loader::new(&environment()).load_bytes(&bytes, format, Path::new("test")).is_err());
        }
    }

    /// Texts of the characters that mean something.
    #[test]
    fn texts_never_panic(text in "[\\[\\]{}:,&*!|>'\"%@`#?<~=.\\-$ab1 \n\t\r]{0,60}") {
        for format in FORMATS {
            prop_assert!(load_text(&text, format).is_err());
        }
    }

    /// Good files with a piece cut out, or with some characters replaced.
    #[test]
    fn damaged_files_never_panic(
        file in any::<proptest::sample::Index>(),
        cut in any::<(proptest::sample::Index, u8)>(),
        put in "[\\[\\]{}:,&*!|>'\"#<~$a1 \n\t]{0,3}",
    ) {
        let files = support::files("good");
        let path = file.get(&files);
        let text = std::fs::read(path).unwrap();
        let start = cut.0.index(text.len());
        let end = text.len().min(start + usize::from(cut.1) % 16);
        let damaged = [&text[..start], put.as_bytes(), &text[end..]].concat();
        let format = Format::of(path).unwrap();
        if let Err(report) = Loader::new(&environment()).load_bytes(&damaged, format, path) {
            prop_assert!(report.has_errors());
            prop_assert!(report.redacted().count() == report.diagnostics().len());
        }
    }
}
