//! All problems of one configuration.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{Diagnostic, Kind, Position, Severity, Source, excerpt::Excerpts};
use crate::{schema::Document, tree::Format};

/// A file as it was read.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    pub(crate) format: Format,
}

/// All problems of one configuration, in the order of its files.
///
/// `Display` writes each as `path:line:column: error: key: message` and a line of help;
/// [`drawn`](Self::drawn) shows each under its line. Both may name identities, so they are for the operator's own screen;
/// a log gets [`redacted`](Self::redacted). `Debug` is redacted too. None of them shows a secret.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct Report {
    file: PathBuf,
    keys_file: Option<PathBuf>,
    diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// A report without the lines of the file.
    pub(crate) fn new(file: &Path, mut diagnostics: Vec<Diagnostic>) -> Self {
        // Stable, so that the problems of one place keep the order of the checks.
        diagnostics.sort_by_key(|d| (d.source(), d.position()));
        Self { file: file.to_owned(), keys_file: None, diagnostics }
    }

    /// Names the file of `api_keys.file`.
    pub(crate) fn with_keys_file(self, file: PathBuf) -> Self {
        Self { keys_file: Some(file), ..self }
    }

    /// Keeps of a file the lines that have problems, with secrets masked.
    pub(crate) fn quoting(mut self, source: Source, text: Text<'_>) -> Self {
        /// More lines than anybody reads.
        const MOST: usize = 200;
        let document = match source {
            Source::Configuration => Document::Configuration,
            Source::Keys => Document::Keys,
        };
        let quoted = self.diagnostics.iter_mut().take(MOST);
        let mut places: Vec<_> = quoted
            .flat_map(|d| {
                let related = d.related.as_mut().map(|related| (related.span, true, &mut related.excerpt));
                let own = d.span.map(|span| (span, d.kind.names_key(), &mut d.excerpt));
                own.into_iter().chain(related)
            })
            .filter(|(span, ..)| span.source == source)
            .collect();
        if !places.is_empty() {
            let excerpts =
                Excerpts::new(text, document, places.iter().map(|(span, names_key, _)| (*span, *names_key)));
            for (span, _, excerpt) in &mut places {
                **excerpt = excerpts.of(*span).map(Box::new);
            }
        }
        self
    }

    /// The configuration file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The file of `api_keys.file`, if the configuration could be read so far as to name one: whether or not it can be
    /// read itself, and whether or not a problem is in it.
    #[must_use]
    pub fn keys_file(&self) -> Option<&Path> {
        self.keys_file.as_deref()
    }

    /// The file that a problem is in.
    #[must_use]
    pub fn file_of(&self, diagnostic: &Diagnostic) -> &Path {
        self.file_at(diagnostic.source())
    }

    pub(super) fn file_at(&self, source: Source) -> &Path {
        match (source, &self.keys_file) {
            (Source::Keys, Some(file)) => file,
            _ => &self.file,
        }
    }

    /// The problems.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// How many problems are of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == severity).count()
    }

    /// Whether there is no problem at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Whether some problem is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// The same report for a log: one line for each problem, with its place and class and no word of the file.
    ///
    /// Only of what needs a restart the key is named as well: those keys are all Fairlane's own.
    pub fn redacted(&self) -> impl Iterator<Item = String> + '_ {
        self.diagnostics.iter().map(|d| {
            let line = format!("{}: {}: {}", self.place(d), d.severity, d.kind.as_str());
            if d.kind == Kind::NeedsRestart { format!("{line}: {}", d.path) } else { line }
        })
    }

    fn place(&self, diagnostic: &Diagnostic) -> String {
        let file = self.file_of(diagnostic).display();
        match diagnostic.position() {
            Some(Position { line, column }) => format!("{file}:{line}:{column}"),
            None => file.to_string(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, diagnostic) in self.diagnostics.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}: {}: ", self.place(diagnostic), diagnostic.severity)?;
            if !diagnostic.path.steps().is_empty() {
                write!(f, "{}: ", diagnostic.path)?;
            }
            f.write_str(&diagnostic.message)?;
            if let Some(help) = &diagnostic.help {
                write!(f, "\n  help: {help}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.redacted()).finish()
    }
}
