//! Finding and loading the configuration, and telling why there is none.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fairlane_config::{Inspected, Loader, Overrides, ProcessEnvironment, Report, discover};
use serde_json::{Value, json};

use super::output::{print, say, takes_colours};

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Each problem under the line that has it
    #[default]
    Full,
    /// A line for each problem
    Short,
    /// One JSON object, on standard output
    Json,
}

/// Why there is no configuration.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is no file.
    NotFound(String),
    /// It is not good.
    Report(Report),
}

impl Refusal {
    /// Tells it in a form.
    pub(super) fn tell(&self, form: Form) {
        match self {
            Self::Report(report) => tell(report, form),
            Self::NotFound(message) if form == Form::Json => {
                print(&format!("{:#}\n", not_found(message)));
            }
            Self::NotFound(message) => say(format!("error: {message}")),
        }
    }
}

/// Tells a report, if there is anything in it; as JSON even if there is not.
pub(super) fn tell(report: &Report, form: Form) {
    match form {
        Form::Json => {
            print(&format!("{:#}\n", report.to_json()));
        }
        _ if report.is_empty() => {}
        Form::Full => say(format!("{}\n", report.drawn(takes_colours()))),
        Form::Short => say(report),
    }
}

/// The report on a file that is not there, in the form of the others.
fn not_found(message: &str) -> Value {
    let place = ["file", "line", "column", "end_line", "end_column", "path", "help", "related"];
    let mut problem = json!({ "severity": "error", "code": "unreadable", "message": message });
    place.into_iter().for_each(|member| problem[member] = Value::Null);
    json!({ "version": 1, "file": null, "good": false, "errors": 1, "warnings": 0, "problems": [problem] })
}

pub(super) fn find(given: Option<&Path>) -> Result<PathBuf, Refusal> {
    discover(given, &ProcessEnvironment).map_err(|not_found| Refusal::NotFound(not_found.to_string()))
}

pub(super) fn load(path: &Path, overrides: Overrides) -> Result<Inspected, Refusal> {
    Loader::new(&ProcessEnvironment).overrides(overrides).inspect(path).map_err(Refusal::Report)
}
