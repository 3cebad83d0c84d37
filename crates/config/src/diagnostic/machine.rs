//! A report for programs.

use serde_json::{Value, json};

use super::{Report, Severity, Span};

impl Report {
    /// The report for programs. `docs/diagnostics.md` describes the form, which keeps its names within a `version`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let problems = self.diagnostics().iter().map(|d| {
            let mut problem = json!({
                "severity": d.severity.to_string(),
                "code": d.kind.code(),
                "file": self.file_of(d).display().to_string(),
            });
            place(&mut problem, d.span);
            let path = (!d.path.steps().is_empty()).then(|| d.path.to_string());
            problem["path"] = json!(path);
            problem["message"] = json!(d.message);
            problem["help"] = json!(d.help);
            problem["related"] = d.related.as_ref().map_or(Value::Null, |related| {
                let mut place_of = json!({ "file": self.file_at(related.span.source).display().to_string() });
                place(&mut place_of, Some(related.span));
                place_of["message"] = json!(related.message);
                place_of
            });
            problem
        });
        json!({
            "version": 1,
            "file": self.file().display().to_string(),
            "good": !self.has_errors(),
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "problems": problems.collect::<Vec<_>>(),
        })
    }
}

fn place(object: &mut Value, span: Option<Span>) {
    object["line"] = json!(span.map(|span| span.start.line));
    object["column"] = json!(span.map(|span| span.start.column));
    object["end_line"] = json!(span.map(|span| span.end.line));
    object["end_column"] = json!(span.map(|span| span.end.column));
}
