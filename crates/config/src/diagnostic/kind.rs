//! How grave a problem is, and of which class.

use std::fmt;

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
    /// A running gateway keeps the value that it has: another one takes effect at a restart.
    NeedsRestart,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Unreadable,
        Self::Syntax,
        Self::DuplicateKey,
        Self::UnknownKey,
        Self::MissingKey,
        Self::WrongType,
        Self::OutOfRange,
        Self::BadValue,
        Self::Variable,
        Self::Conflict,
        Self::NoEffect,
        Self::Risk,
        Self::NeedsRestart,
    ];

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
            Self::NeedsRestart => "needs a restart",
        }
    }

    /// What it means, and what to do about it.
    #[must_use]
    pub fn explanation(self) -> (&'static str, &'static str) {
        match self {
            Self::Unreadable => (
                "The file, or one that it names, cannot be read.",
                "Check that it is there, that its ending is right, and that the gateway's user may read it.",
            ),
            Self::Syntax => (
                "The text is not YAML, TOML or JSON, or has what a configuration cannot have, such as a second document.",
                "Mend the text at the place, or before it: a quote or a bracket is often missing earlier.",
            ),
            Self::DuplicateKey => ("A key is given twice in one place.", "Keep one of them."),
            Self::UnknownKey => (
                "There is no such key where it stands.",
                "Correct its name or its indentation; the reference lists the keys of each section.",
            ),
            Self::MissingKey => ("A key that must be there is absent.", "Add it."),
            Self::WrongType => (
                "The value is of another type than is due, such as a number where a string is due.",
                "Write the value in the type that the message names. A variable of the environment is always a string.",
            ),
            Self::OutOfRange => (
                "A number is too small or too large, or a list or text too short.",
                "Choose a value in the range.",
            ),
            Self::BadValue => (
                "The value is of the right type, and still not what is due.",
                "Write it in the form that the message shows.",
            ),
            Self::Variable => (
                "A variable of the environment is not set, or the reference to it is malformed.",
                "Set it, or give a default: `${NAME:-default}`.",
            ),
            Self::Conflict => {
                ("Two values do not go together.", "Change one of them; the message names the other.")
            }
            Self::NoEffect => (
                "A value has no effect, or another one than it seems.",
                "Remove it, or change what keeps it from having its effect. The gateway starts all the same.",
            ),
            Self::Risk => (
                "A value has the effect that it says, which is hardly a safe one.",
                "Make sure that it is meant. The gateway starts all the same.",
            ),
            Self::NeedsRestart => (
                "A file that is loaded again has another value than the running gateway, which keeps its own until a restart.",
                "Restart the gateway when it suits, or put the value back. All else in the file is in effect.",
            ),
        }
    }

    /// Whether such a problem is about a key, and not its value.
    pub(super) fn names_key(self) -> bool {
        matches!(self, Self::DuplicateKey | Self::UnknownKey)
    }

    /// The name for programs, which does not change.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::DuplicateKey => "duplicate_key",
            Self::UnknownKey => "unknown_key",
            Self::MissingKey => "missing_key",
            Self::WrongType => "wrong_type",
            Self::OutOfRange => "out_of_range",
            Self::BadValue => "bad_value",
            Self::Variable => "variable",
            Self::Conflict => "conflict",
            Self::NoEffect => "no_effect",
            Self::Risk => "risk",
            Self::NeedsRestart => "needs_restart",
        }
    }
}
