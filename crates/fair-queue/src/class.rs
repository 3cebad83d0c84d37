use std::fmt;
use std::ops::{Index, IndexMut};

/// What a gate's units are, and so by which bounds and under which reasons requests are held there.
///
/// Nothing else differs: the same order, the same mirrors, the same rules for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Requests are counted. To be held for their sake is to be *queued*.
    Requests,
    /// Tokens are counted: a request costs as many as are reserved for it. To be held for their sake is to be
    /// *deferred*.
    Tokens,
}

// === impl Class ===

impl Class {
    /// Both, in the order in which a request that has to wait for several gates is held for their sake.
    pub const ALL: [Self; 2] = [Self::Requests, Self::Tokens];

    /// The name in metrics and on pages for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many requests are held in each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    requests: usize,
    tokens: usize,
}

// === impl Counts ===

impl Counts {
    pub(crate) const fn new() -> Self {
        Self { requests: 0, tokens: 0 }
    }

    pub(crate) const fn all(self) -> usize {
        self.requests + self.tokens
    }
}

impl Index<Class> for Counts {
    type Output = usize;

    fn index(&self, class: Class) -> &usize {
        match class {
            Class::Requests => &self.requests,
            Class::Tokens => &self.tokens,
        }
    }
}

impl IndexMut<Class> for Counts {
    fn index_mut(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Requests => &mut self.requests,
            Class::Tokens => &mut self.tokens,
        }
    }
}
