//! What is wrong with a configuration, where, and what would be right.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A place in a file. Both numbers count from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// One step of a [`KeyPath`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an item of a list, counted from 0.
    Index(usize),
}

/// Where a value is in the configuration, such as `api_keys.keys[0].user`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(Vec<Step>);

impl KeyPath {
    /// The configuration as a whole.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The value of a key below this one.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    /// An item of the list here, counted from 0.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// The steps from the root.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Reads a path of plain keys, such as `server.listen`.
    pub(crate) fn of(dotted: &str) -> Self {
        Self(dotted.split('.').map(|key| Step::Key(key.to_owned())).collect())
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl FromIterator<Step> for KeyPath {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    if n > 0 {
                        f.write_str(".")?;
                    }
                    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
                    if !key.is_empty() && key.chars().all(plain) {
                        f.write_str(key)?;
                    } else {
                        write!(f, "\"{}\"", key.escape_debug())?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a problem keeps the configuration from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It does.
    Error,
    /// It does not, but is hardly meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// The class of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file, or one that it names, cannot be read.
    Unreadable,
    /// The text is not YAML, TOML or JSON.
    Syntax,
    /// A key is given twice in one place.
    DuplicateKey,
    /// There is no such key.
    UnknownKey,
    /// A key that must be there is absent.
    MissingKey,
    /// The value is of another type than is due.
    WrongType,
    /// A number is too small or too large, or a list or text too short.
    OutOfRange,
    /// The value is of the right type, and still not what is due.
    BadValue,
    /// A variable of the environment is not set, or its reference is malformed.
    Variable,
    /// Two values do not go together.
    Conflict,
    /// A value has no effect.
    NoEffect,
    /// A value has the effect that it says, which is hardly a safe one.
    Risk,
}

impl Kind {
    /// A description that names nothing from the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "a file cannot be read",
            Self::Syntax => "syntax",
            Self::DuplicateKey => "duplicate key",
            Self::UnknownKey => "unknown key",
            Self::MissingKey => "missing key",
            Self::WrongType => "wrong type",
            Self::OutOfRange => "out of range",
            Self::BadValue => "bad value",
            Self::Variable => "variable",
            Self::Conflict => "conflicting values",
            Self::NoEffect => "no effect",
            Self::Risk => "risk",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it keeps the configuration from being used.
    pub severity: Severity,
    /// Its class.
    pub kind: Kind,
    /// The key in question; it may name an identity.
    pub path: KeyPath,
    /// Where in the file it is; absent if it is not in the file.
    pub position: Option<Position>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(kind: Kind, path: KeyPath, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, kind, path, position: None, message: message.into(), help: None }
    }

    pub(crate) fn warning(kind: Kind, path: KeyPath, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(kind, path, message) }
    }

    pub(crate) fn at(mut self, position: impl Into<Option<Position>>) -> Self {
        self.position = position.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// All problems of one configuration, in the order of the file.
///
/// `Display` writes each as `path:line:column: error: key: message` and a line of help. It may name identities,
/// so it is for the operator's own screen; a log gets [`redacted`](Self::redacted). `Debug` is redacted too.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct Report {
    file: PathBuf,
    diagnostics: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn new(file: &Path, mut diagnostics: Vec<Diagnostic>) -> Self {
        // Stable, so that the problems of one place keep the order of the checks.
        diagnostics.sort_by_key(|d| d.position);
        Self { file: file.to_owned(), diagnostics }
    }

    /// The file that was read.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The problems.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
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
    pub fn redacted(&self) -> impl Iterator<Item = String> + '_ {
        self.diagnostics.iter().map(|d| format!("{}: {}: {}", self.place(d), d.severity, d.kind.as_str()))
    }

    fn place(&self, diagnostic: &Diagnostic) -> String {
        let file = self.file.display();
        match diagnostic.position {
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
