//! What is wrong with a configuration, where, and what would be right.

mod drawing;
mod excerpt;
mod kind;
mod machine;
mod mask;
mod path;
mod report;
mod slips;

pub(crate) use self::{excerpt::Excerpt, report::Text};
pub use self::{
    kind::{Kind, Severity},
    path::{KeyPath, Step},
    report::Report,
};

/// A place in a file. Both numbers count from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl Position {
    /// Where every file begins.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// A place by its numbers, which the bound on the size of a file keeps within 32 bits.
    pub(crate) fn new(line: usize, column: usize) -> Self {
        let bounded = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: bounded(line), column: bounded(column) }
    }
}

/// Which of the files that make a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Source {
    /// The configuration file.
    #[default]
    Configuration,
    /// The file that `api_keys.file` names.
    Keys,
}

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub(crate) source: Source,
    /// Its first character.
    pub start: Position,
    /// The character behind its last one.
    pub end: Position,
}

impl Span {
    /// A stretch of the configuration file.
    pub(crate) fn new(start: Position, end: Position) -> Self {
        Self { source: Source::Configuration, start, end: end.max(start) }
    }

    /// One place, without extent.
    pub(crate) fn point(at: Position) -> Self {
        Self::new(at, at)
    }

    pub(crate) fn within(self, source: Source) -> Self {
        Self { source, ..self }
    }
}

impl From<Position> for Span {
    fn from(at: Position) -> Self {
        Self::point(at)
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it keeps the configuration from being used.
    pub severity: Severity,
    /// Its class.
    pub kind: Kind,
    /// The key in question, within its file; it may name an identity.
    pub path: KeyPath,
    /// Where in the file it is; absent if it is not in a file.
    pub span: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
    /// Another place that it has to do with.
    pub related: Option<Box<Related>>,
    pub(crate) excerpt: Option<Box<Excerpt>>,
}

/// Another place that a problem has to do with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The place.
    pub span: Span,
    /// What is there.
    pub message: &'static str,
    pub(crate) excerpt: Option<Box<Excerpt>>,
}

impl Diagnostic {
    pub(crate) fn error(kind: Kind, path: KeyPath, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            kind,
            path,
            span: None,
            message: message.into(),
            help: None,
            related: None,
            excerpt: None,
        }
    }

    pub(crate) fn warning(kind: Kind, path: KeyPath, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(kind, path, message) }
    }

    /// Where in the file it begins; absent if it is not in a file.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.span.map(|span| span.start)
    }

    pub(crate) fn at(mut self, span: impl Into<Option<Span>>) -> Self {
        self.span = span.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn related(mut self, span: Option<Span>, message: &'static str) -> Self {
        self.related = span.map(|span| Box::new(Related { span, message, excerpt: None }));
        self
    }

    /// Says that it is in another file.
    pub(crate) fn move_to(&mut self, source: Source) {
        self.span = self.span.map(|span| span.within(source));
        if let Some(related) = &mut self.related {
            related.span = related.span.within(source);
        }
    }

    pub(crate) fn source(&self) -> Source {
        self.span.map_or_else(Source::default, |span| span.source)
    }
}
