//! Names of models, exact or with a trailing `*`.

use std::{fmt, str::FromStr};

use super::ValueError;

/// What the parser takes, as a regular expression.
pub(crate) const PATTERN: &str = "^([^*]+[*]?|[*])$";

/// The name of a model, or the beginning of names (`gpt-4o*`), or all (`*`).
///
/// Ordered by the text as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelPattern(String);

impl ModelPattern {
    /// Every model: `*`.
    #[must_use]
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// As written, with the `*` if there is one.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a matching name begins with, if this is a pattern; none if it is one exact name.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix('*')
    }

    /// Whether a model of this name is meant.
    #[must_use]
    pub fn matches(&self, model: &str) -> bool {
        self.prefix().map_or(self.0 == model, |prefix| model.starts_with(prefix))
    }

    /// Whether some name is meant by both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.prefix(), other.prefix()) {
            (None, _) => other.matches(&self.0),
            (_, None) => self.matches(&other.0),
            (Some(a), Some(b)) => a.starts_with(b) || b.starts_with(a),
        }
    }
}

impl FromStr for ModelPattern {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let stem = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() || stem.contains('*') {
            return Err(ValueError::new(
                "a model is an exact name, or the beginning of names and a final `*`",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
