//! What a name that the gateway shows means, and what to do: error codes, reasons, metrics, keys of the configuration and
//! codes of its problems.
//!
//! Nothing is said here: the texts are those of the tables that the answers, the recorder and the schema are made from.

mod keys;

use std::fmt;

use fairlane_config::Kind;

use crate::{
    answer::{CODES, DEFERRAL_REASONS, Meaning, QUEUE_REASONS},
    telemetry::{METRICS, Metric},
};

/// What is known of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The name.
    pub name: String,
    /// What it is, such as `error code, status 429`.
    pub what: String,
    /// What it means and what to do, a paragraph each.
    pub paragraphs: Vec<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.what)?;
        self.paragraphs.iter().try_for_each(|paragraph| write!(f, "\n\n{}", indented(paragraph)))
    }
}

/// A paragraph in lines that a terminal holds, indented. A line of its own stays one.
fn indented(paragraph: &str) -> String {
    const WIDTH: usize = 92;
    let mut lines: Vec<String> = Vec::new();
    for line in paragraph.lines() {
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > WIDTH {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Everything of that name. A key of the configuration may be given with its sections or without.
#[must_use]
pub fn explain(name: &str) -> Vec<Explanation> {
    let mut found: Vec<_> = tables().filter(|explanation| explanation.name == name).collect();
    found.extend(keys::explain(name));
    found
}

/// The names that can be explained, by what they are.
#[must_use]
pub fn names() -> Vec<(&'static str, Vec<String>)> {
    let of = |table: &[Meaning]| table.iter().map(|meaning| meaning.name.to_owned()).collect::<Vec<_>>();
    vec![
        ("error codes", of(CODES)),
        ("reasons of the fair queue", of(QUEUE_REASONS)),
        ("reasons of deferred admission", of(DEFERRAL_REASONS)),
        ("metrics", METRICS.iter().map(|metric| metric.name.to_owned()).collect()),
        ("problems of a configuration", Kind::ALL.map(|kind| kind.code().to_owned()).into()),
        ("keys of the configuration", keys::paths()),
    ]
}

/// The name that was probably meant.
#[must_use]
pub fn closest(name: &str) -> Option<String> {
    let names: Vec<String> = names().into_iter().flat_map(|(_, names)| names).collect();
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let keys: Vec<String> = names.iter().map(|name| last(name)).collect();
    let all = || names.iter().map(String::as_str);
    let found =
        fairlane_config::closest(name, all().filter(|known| name.contains('.') || !known.contains('.')));
    found.or_else(|| fairlane_config::closest(name, keys.iter().map(String::as_str))).map(str::to_owned)
}

fn tables() -> impl Iterator<Item = Explanation> {
    let codes = CODES.iter().map(|code| meaning(code, "error code, status"));
    let queue = QUEUE_REASONS.iter().map(|reason| meaning(reason, "reason of the fair queue, status"));
    let deferral =
        DEFERRAL_REASONS.iter().map(|reason| meaning(reason, "reason of deferred admission, status"));
    codes
        .chain(queue)
        .chain(deferral)
        .chain(METRICS.iter().map(metric))
        .chain(Kind::ALL.into_iter().map(problem))
}

fn meaning(meaning: &Meaning, what: &str) -> Explanation {
    let Meaning { name, status, when, advice } = meaning;
    Explanation {
        name: (*name).to_owned(),
        what: format!("{what} {status}"),
        paragraphs: vec![sentence("When: ", when), sentence("What to do: ", advice)],
    }
}

fn metric(metric: &Metric) -> Explanation {
    let labels = match metric.labels {
        [] => "none".to_owned(),
        labels => labels.join(", "),
    };
    Explanation {
        name: metric.name.to_owned(),
        what: format!("metric, {}", metric.kind.as_str()),
        paragraphs: vec![
            metric.help.to_owned(),
            format!("Labels: {labels}."),
            sentence("What to do: ", metric.advice),
        ],
    }
}

fn problem(kind: Kind) -> Explanation {
    let (means, advice) = kind.explanation();
    Explanation {
        name: kind.code().to_owned(),
        what: "problem of a configuration".to_owned(),
        paragraphs: vec![means.to_owned(), sentence("What to do: ", advice)],
    }
}

fn sentence(label: &str, text: &str) -> String {
    format!("{label}{}.", text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests;
