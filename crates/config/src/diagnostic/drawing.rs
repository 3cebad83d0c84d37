//! A report as it is read on a terminal: each problem under the line that has it.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use super::{Diagnostic, Excerpt, Related, Report, Severity, Span};

impl Report {
    /// The report for an operator's screen: each problem with its place, the line that has it, what is wrong under that,
    /// and what would be right. `coloured`: with the colours of a terminal.
    ///
    /// Secrets are masked in the lines; identities are not.
    #[must_use]
    pub fn drawn(&self, coloured: bool) -> String {
        let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
        let drawn =
            self.diagnostics().iter().map(|d| without_empty_origins(&renderer.render(&[self.group(d)])));
        drawn.collect::<Vec<_>>().join("\n\n")
    }

    fn group<'a>(&'a self, d: &'a Diagnostic) -> Group<'a> {
        let level = match d.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = match d.path.steps() {
            [] => d.message.clone(),
            _ => format!("{}: {}", d.path, d.message),
        };
        // A line's own origin would count the columns of its masked form.
        let origin = |span: Span| {
            let file = self.file_at(span.source).display().to_string();
            Origin::path(file).line(span.start.line as usize).char_column(span.start.column as usize)
        };
        let mut elements: Vec<Element<'_>> = Vec::new();
        match d.span {
            Some(span) => {
                elements.push(origin(span).into());
                elements.extend(
                    d.excerpt.as_ref().map(|excerpt| line(excerpt, span, AnnotationKind::Primary, None)),
                );
            }
            None => elements.push(Origin::path(self.file().display().to_string()).into()),
        }
        if let Some(Related { span, message, excerpt: Some(excerpt) }) = d.related.as_deref() {
            if span.source != d.source() {
                elements.push(origin(*span).into());
            }
            elements.push(line(excerpt, *span, AnnotationKind::Context, Some(message)));
        }
        elements.extend(d.help.as_deref().map(|help| Level::HELP.message(help).into()));
        level.primary_title(title).id(d.kind.code()).elements(elements)
    }
}

/// Takes out the marks of lines without a file of their own, behind which nothing stands.
fn without_empty_origins(drawn: &str) -> String {
    let is_empty_origin = |line: &&str| {
        let mut text = String::new();
        let mut in_style = false;
        for c in line.chars() {
            match c {
                '\x1b' => in_style = true,
                'm' if in_style => in_style = false,
                _ if !in_style => text.push(c),
                _ => {}
            }
        }
        text.trim() == ":::"
    };
    drawn.lines().filter(|line| !is_empty_origin(line)).collect::<Vec<_>>().join("\n")
}

fn line<'a>(excerpt: &'a Excerpt, span: Span, kind: AnnotationKind, label: Option<&'a str>) -> Element<'a> {
    let Range { start, end } = excerpt.marked.clone();
    let annotation = kind.span(start..end).label(label);
    Snippet::source(excerpt.line.as_str()).line_start(span.start.line as usize).annotation(annotation).into()
}
