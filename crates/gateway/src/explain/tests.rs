use std::collections::BTreeSet;

use fairlane_fair_queue::{Class, Reason};

use super::*;

fn document(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Checks that a document has a table as it would be made, and shows that otherwise.
#[track_caller]
fn has_table(name: &str, head: &str, rows: Vec<String>) {
    let columns = head.matches('|').count() - 1;
    let table = format!("{head}\n|{}\n{}\n", "---|".repeat(columns), rows.join("\n"));
    assert!(document(name).contains(&table), "docs/{name} should have this table:\n\n{table}");
}

fn rows(table: &[Meaning], row: impl Fn(&Meaning) -> String) -> Vec<String> {
    table.iter().map(row).collect()
}

#[test]
fn the_documents_have_the_tables() {
    has_table(
        "answers.md",
        "| status | code | when | what to do |",
        rows(CODES, |code| {
            format!("| {} | `{}` | {} | {} |", code.status, code.name, code.when, code.advice)
        }),
    );
    let reason = |reason: &Meaning| format!("| `{}` | {} | {} |", reason.name, reason.when, reason.advice);
    has_table("answers.md", "| reason | when | what to do |", rows(QUEUE_REASONS, reason));
    has_table("answers.md", "| reason | when | what to do |", rows(DEFERRAL_REASONS, reason));
    let metrics = METRICS.iter().map(|metric| {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {} | {} | {} |", metric.name, metric.kind.as_str(), labels.join(", "), metric.help)
    });
    has_table("operating.md", "| metric | type | labels | |", metrics.collect());
    let problems = Kind::ALL.map(|kind| {
        let (means, advice) = kind.explanation();
        format!("| `{}` | {means} | {advice} |", kind.code())
    });
    has_table("diagnostics.md", "| code | what it means | what to do |", problems.into());
}

#[test]
fn every_reason_is_explained() {
    for (class, table) in [(Class::Requests, QUEUE_REASONS), (Class::Tokens, DEFERRAL_REASONS)] {
        let told: BTreeSet<_> = Reason::of(class).iter().map(|reason| reason.as_str()).collect();
        let explained: BTreeSet<_> = table.iter().map(|reason| reason.name).collect();
        assert_eq!(told, explained);
    }
}

#[test]
fn every_name_that_is_listed_is_explained() {
    let mut seen = 0;
    for (what, names) in names() {
        assert!(!names.is_empty(), "{what}");
        for name in names {
            seen += 1;
            let found = explain(&name);
            assert!(!found.is_empty(), "{name}");
            for explanation in found {
                assert!(explanation.paragraphs.iter().all(|text| text.len() > 3), "{explanation}");
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn a_key_is_found_with_and_without_its_sections() {
    let names = |name: &str| explain(name).into_iter().map(|found| found.name).collect::<Vec<_>>();
    assert_eq!(names("rate_limiting.fair_queuing.max_wait_ms"), ["rate_limiting.fair_queuing.max_wait_ms"]);
    assert_eq!(names("fair_queuing.max_wait_ms"), ["rate_limiting.fair_queuing.max_wait_ms"]);
    assert_eq!(
        names("max_wait_ms"),
        ["rate_limiting.fair_queuing.max_wait_ms", "rate_limiting.deferred_admission.max_wait_ms"]
    );
    for path in ["backends[0].url", "backends[].url", "backends.url"] {
        assert_eq!(names(path), ["backends[].url"]);
    }
    // The same key of many limits is told once.
    let found = explain("requests_per_second");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].to_string().contains("rate_limiting.limits.per_user.requests_per_second"),
        "{}",
        found[0]
    );
    assert!(explain("outage")[0].to_string().contains("`fail_open`: "));
    // One name, two meanings.
    assert_eq!(explain("deadline_exceeded").len(), 2);
    assert_eq!(names(""), [""; 0]);
    assert_eq!(names("."), [""; 0]);
}

#[test]
fn what_is_meant_is_guessed() {
    let check = |name: &str, expected: Option<&str>| assert_eq!(closest(name).as_deref(), expected, "{name}");
    check("queue_ful", Some("queue_full"));
    check("rate_limit_exceded", Some("rate_limit_exceeded"));
    check("rate_limit_fair_queue_dept", Some("rate_limit_fair_queue_depth"));
    check("max_wait_m", Some("max_wait_ms"));
    check("server.lisen", Some("server.listen"));
    check("zebra", None);
}

/// A control: a table that is not there is missed.
#[test]
#[should_panic(expected = "should have this table")]
fn a_missing_table_is_found_out() {
    has_table("answers.md", "| no | such | table |", vec!["| a | b | c |".to_owned()]);
}
