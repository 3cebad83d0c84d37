//! How problems are drawn: each under its line, at its place, in every format, and never with a secret.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use fairlane_config::{Format, Report};
use serde_json::{Value, json};
use support::{corpus, files, load, load_text};

fn report(file: &std::path::Path) -> Report {
    match load(file) {
        Ok(config) => config.warnings().clone(),
        Err(report) => report,
    }
}

/// All problems of a folder of the corpus as they are drawn, and how many there are.
fn drawn(folder: &str) -> (String, usize) {
    let mut count = 0;
    let mut all = String::new();
    for file in files(folder) {
        let report = report(&file);
        count += report.diagnostics().len();
        let name = file.file_name().unwrap().to_str().unwrap();
        let drawn = report.drawn(false).replace(&format!("{}/", corpus().join(folder).display()), "");
        all.push_str(&format!("### {name}\n{drawn}\n\n"));
    }
    (all, count)
}

fn check(folder: &str, least: usize) {
    let (drawn, count) = drawn(folder);
    assert!(count >= least, "{count}");
    insta::assert_snapshot!(folder.replace('/', "-"), drawn);
}

#[test]
fn what_the_schema_refuses() {
    check("bad/schema", 150);
}

#[test]
fn what_does_not_go_together() {
    check("bad/cross", 70);
}

#[test]
fn what_cannot_be_read() {
    check("bad/syntax", 30);
}

#[test]
fn what_is_hardly_meant() {
    check("warn", 35);
}

/// The text that a problem marks, by what it says of its lines and columns.
fn marked<'a>(text: &'a str, problem: &Value) -> &'a str {
    let number = |key: &str| usize::try_from(problem[key].as_u64().unwrap()).unwrap();
    let line = text.split_inclusive('\n').nth(number("line") - 1).unwrap();
    assert_eq!(problem["line"], problem["end_line"]);
    let byte = |column: usize| line.char_indices().nth(column - 1).map_or(line.len(), |(at, _)| at);
    &line[byte(number("column"))..byte(number("end_column"))]
}

/// Checks which texts the problems of a file mark, in its order.
fn marks(text: &str, format: Format, expected: &[(&str, &str)]) {
    let report = load_text(text, format).unwrap_err();
    let told = report.to_json();
    let found: Vec<_> = told["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["path"].as_str().unwrap_or_default(), marked(text, problem)))
        .collect();
    assert_eq!(found, expected, "{text}");
}

const BACKEND_YAML: &str = "backends: [{ name: a, url: \"builtin:echo\", models: [\"*\"] }]\n";

#[test]
fn a_place_is_right_in_yaml() {
    let ends = |text: &str| [text.to_owned(), text.replace('\n', "\r\n")];
    for text in ends(&format!(
        "# ünïcödé \u{1f980}\n{BACKEND_YAML}log: {{ format: \"jsön\", levl: info }}\nserver:\n  paths: [\"/\u{1f980}\", \"x\"]\t# here\n  listen:\t'nöwhere' # there\n  max_connections: 0   \n"
    )) {
        marks(
            &text,
            Format::Yaml,
            &[
                ("log.format", "\"jsön\""),
                ("log.levl", "levl"),
                ("server.paths[0]", "\"/\u{1f980}\""),
                ("server.paths[1]", "\"x\""),
                ("server.listen", "'nöwhere'"),
                ("server.max_connections", "0"),
            ],
        );
    }
}

#[test]
fn a_place_is_right_in_toml() {
    for end in ["\n", "\r\n"] {
        let text = "# ünïcödé \u{1f980}\nbackends = [{ name = \"a\", url = \"builtin:echo\", models = [\"*\"] }]\n[log]\nformat = \"jsön\"\t# here\n\tlevl = 'ï'\n[server]\npaths = [\"/\u{1f980}\", 'x']\nlisten = 5\n[rate_limiting]\nlimits.per_user = { \"ü\" = 1, requests_per_second = 0 }\n".replace('\n', end);
        marks(
            &text,
            Format::Toml,
            &[
                ("log.format", "\"jsön\""),
                ("log.levl", "levl"),
                ("server.paths[0]", "\"/\u{1f980}\""),
                ("server.paths[1]", "'x'"),
                ("server.listen", "5"),
                ("rate_limiting.limits.per_user.ü", "\"ü\""),
                ("rate_limiting.limits.per_user.requests_per_second", "0"),
            ],
        );
    }
}

#[test]
fn a_place_is_right_in_json() {
    for end in ["\n", "\r\n"] {
        let text = "{\n\t\"backends\": [{ \"name\": \"a\", \"url\": \"builtin:echo\", \"models\": [\"*\"] }],\n  \"log\": { \"format\": \"js\\u00f6n\", \"l\\u00e9vl\": \"\u{1f980}\", \"level\": [] },\n\"server\" : {\"listen\" : 5, \"log\":1}\n}\n".replace('\n', end);
        marks(
            &text,
            Format::Json,
            &[
                ("log.format", "\"js\\u00f6n\""),
                ("log.lévl", "\"l\\u00e9vl\""),
                ("log.level", "[]"),
                ("server.listen", "5"),
                ("server.log", "\"log\""),
            ],
        );
    }
}

#[test]
fn an_alias_is_marked_where_it_stands() {
    let text = format!("{BACKEND_YAML}log: {{ format: &f jsn, level: *f }}\n");
    marks(&text, Format::Yaml, &[("log.format", "&f jsn"), ("log.level", "*f")]);
    let report = load_text(&text, Format::Yaml).unwrap_err().drawn(false);
    assert!(
        report.contains("log: { format: &f jsn, level: *f }\n  |                               ^^"),
        "{report}"
    );
}

/// A key given twice points to both places, and what the second says is not shown: nobody knows what it is.
#[test]
fn a_key_given_twice_points_to_both() {
    for (text, format) in [
        (
            format!("{BACKEND_YAML}admin:\n  token: written-secret-value\n  token: written-secret-value\n"),
            Format::Yaml,
        ),
        (
            "{ \"admin\": { \"token\": \"written-secret-value\",\n\"token\": \"written-secret-value\" } }"
                .to_owned(),
            Format::Json,
        ),
    ] {
        let report = load_text(&text, format).unwrap_err();
        let drawn = report.drawn(false);
        assert!(drawn.contains("first given here") && !drawn.contains("written"), "{drawn}");
        let told = report.to_json();
        let twice =
            told["problems"].as_array().unwrap().iter().find(|problem| problem["code"] == "duplicate_key");
        assert_eq!(twice.unwrap()["related"]["message"], "first given here");
    }
}

#[test]
fn a_long_line_is_shown_in_part() {
    let many: Vec<_> = (0..5000).map(|n| format!("\"/path{n}\"")).collect();
    let text =
        format!("{BACKEND_YAML}server: {{ paths: [{}, wrong, {}] }}\n", many.join(", "), many.join(", "));
    let report = load_text(&text, Format::Yaml).unwrap_err();
    let drawn = report.drawn(false);
    let first = drawn.split("\n\n").next().unwrap();
    assert!(first.contains("wrong") && first.contains("^^^^^") && first.len() < 1000, "{first}");
}

#[test]
fn the_form_for_programs_is_complete() {
    let report = load_text("backends: []\nlog:\n  levle: info\n", Format::Yaml).unwrap_err();
    assert_eq!(
        report.to_json(),
        json!({
            "version": 1, "file": "test", "good": false, "errors": 2, "warnings": 0,
            "problems": [
                {
                    "severity": "error", "code": "out_of_range", "file": "test",
                    "line": 1, "column": 11, "end_line": 1, "end_column": 13,
                    "path": "backends", "message": "at least one entry is due", "help": null, "related": null,
                },
                {
                    "severity": "error", "code": "unknown_key", "file": "test",
                    "line": 3, "column": 3, "end_line": 3, "end_column": 8,
                    "path": "log.levle", "message": "there is no such key here", "help": "did you mean `level`?", "related": null,
                },
            ],
        })
    );
}

/// Slips of an operator that put a secret on a line with a problem; `SECRET` stands for it.
const SLIPS: &[&str] = &[
    "admin: { tokn: SECRET }\n",
    "admin: { token: SECRET, x: 1 }\n",
    "admin: SECRET\n",
    "admin: [SECRET]\n",
    "api_keys: { keys: [SECRET] }\n",
    "api_keys: { keys: SECRET }\n",
    "api_keys: { keys: [{ id: k1, key: SECRET, usr: a }] }\n",
    "api_keys: { keys: [{ id: k1, key: [SECRET] }] }\n",
    "api_keys: { keys: [{ id: k1, key: { value: SECRET } }] }\n",
    "api_keys: { keys: [{ id: 5, kye: SECRET }] }\n",
    "api_keys: { keys: [{ id: k1, sha256: SECRET }] }\n",
    "api_keys: { keys: [{ id: k1, key: \"${A:-SECRET}\", tier: no }] }\n",
    "api_keys: { keys: [{ id: k1, key: \"${SECRET\" }] }\n",
    "api_keys:\n  keys:\n    - key: SECRET\n      id: [] # SECRET\n",
    "api_keys:\n  keys:\n    - id: k1\n      key: |\n        SECRET\n        SECRET\n",
    "identity: { hash_key: &x SECRET, tiers: { a: *x } }\n",
    "log: { format: 5 } # SECRET\n",
    "backends: [{ name: b, url: \"http://u:SECRET@a\", models: [] }]\n",
    "backends: [{ name: b, url: SECRET@a, models: [] }]\n",
    "rate_limiting: { redis: { url: \"redis://:SECRET@host/x\" } }\n",
    "rate_limiting: { redis: { url: \"redis://:SECRET@host\", mode: non } }\n",
    "rate_limiting: { fair_queuing: { weights: [{ tenant: SECRET, weight: 0 }] } }\n",
    "rate_limiting: { fair_queuing: { weights: [{ tenant: SECRET, weight: 1, dimension: api_key }] } }\n",
    "SECRET\n",
    "- SECRET\n",
    "admin: { token: SECRET\n",
    "admin: { token: \"SECRET }\n",
    "admin: { token: SECRET }}\n",
    "api_keys:\n  keys:\n   - key: SECRET\n  - key: SECRET\n",
    "token: SECRET: SECRET\n",
    "\ttoken: SECRET\n",
    "key: !SECRET SECRET\n",
    "[admin]\ntoken = SECRET\n",
    "[admin]\ntoken = \"SECRET\" x\n",
    "[admin]\ntokn = \"SECRET\" # SECRET\n",
    "[admin]\ntoken = \"SECRET\"\ntoken = \"SECRET\"\n",
    "[[api_keys.keys]]\nid = 5 # SECRET\nkey = '''SECRET'''\n",
    "api_keys.keys = [{ key = \"SECRET\", id = 5 }]\n",
    "{ \"admin\": { \"token\": \"SECRET\" \"x\" } }",
    "{ \"admin\": { \"token\": \"SECRET\", \"x\": 1 } }",
    "{ \"admin\": { \"token\": SECRET } }",
    "{ \"api_keys\": { \"keys\": [\"SECRET\"] } }",
    "{ \"rate_limiting\": { \"redis\": { \"url\": \"redis://u:SECRET@\" } } }",
];

#[test]
fn no_slip_shows_a_secret() {
    let secrets = ["sk-canary-4711", "cänary_x", "canary.a/b+c=="];
    for (secret, slip) in secrets.iter().flat_map(|secret| SLIPS.iter().map(move |slip| (secret, slip))) {
        let slip = slip.replace("SECRET", secret);
        for format in [Format::Yaml, Format::Toml, Format::Json] {
            for text in [slip.clone(), format!("{BACKEND_YAML}{slip}")] {
                let report = match load_text(&text, format) {
                    Ok(config) => config.warnings().clone(),
                    Err(report) => report,
                };
                let outputs = [
                    report.drawn(false),
                    report.drawn(true),
                    report.to_string(),
                    report.to_json().to_string(),
                ];
                for output in outputs {
                    assert!(
                        !output.contains("canary") && !output.contains("cänary"),
                        "{secret}\n{text}\n{output}"
                    );
                }
            }
        }
    }
}

/// A control: the lines are shown, and what is no secret with them.
#[test]
fn what_is_no_secret_is_shown() {
    for (text, shown) in [
        ("log: { format: jsn, level: info }\n", "log: { format: jsn, level: info }"),
        (
            "api_keys: { keys: [{ id: k1, key: \"${ALICE_KEY}\", user: alice, teir: x }] }\n",
            "id: k1, key: \"${ALICE_KEY}\", user: alice, teir: ***",
        ),
        ("server: { listen: 127.0.0.1:80 }}\n", "server: { listen: 127.0.0.1:80 }}"),
        ("log: { format: text ]\n", "log: { format: text ]"),
    ] {
        let drawn = match load_text(&format!("{BACKEND_YAML}{text}"), Format::Yaml) {
            Ok(config) => config.warnings().drawn(false),
            Err(report) => report.drawn(false),
        };
        assert!(drawn.contains(shown), "{drawn}");
    }
}
