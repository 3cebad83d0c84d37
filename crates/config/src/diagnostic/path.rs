//! Where a value is in the configuration.

use std::fmt;

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
