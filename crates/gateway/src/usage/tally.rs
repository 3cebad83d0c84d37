//! Counts of tokens, from one statement of a backend or several.

use super::Usage;

/// A number beyond this is no count of tokens.
pub(super) const MOST_TOKENS: u64 = 1_000_000_000_000;

/// The largest of each count that a backend told.
///
/// Counts only grow while an answer is made. Their largest is right where a backend tells a running count in every chunk,
/// where it tells the prompt first and the output last, and where it ends with zeros; their sum would be wrong in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Tokens of the prompt.
    pub(super) prompt: u64,
    /// Those that are told apart because a cache was involved.
    pub(super) cached: u64,
    /// Tokens of the output.
    pub(super) output: u64,
    /// All tokens, where they are told.
    pub(super) total: u64,
}

impl Tally {
    /// Takes in another statement about the same answer.
    pub(super) fn raise(&mut self, other: Self) {
        self.prompt = self.prompt.max(other.prompt);
        self.cached = self.cached.max(other.cached);
        self.output = self.output.max(other.output);
        self.total = self.total.max(other.total);
    }

    /// The counts, if they are plausible. An answer without a single token is not: some backends write zeros where they
    /// know nothing.
    pub(super) fn checked(self) -> Option<Self> {
        let counts = [self.prompt, self.cached, self.output, self.total];
        let plausible =
            counts.iter().all(|&count| count <= MOST_TOKENS) && counts.iter().any(|&count| count > 0);
        plausible.then_some(self)
    }

    pub(super) fn usage(self) -> Usage {
        let prompt = self.prompt + self.cached;
        Usage { prompt, output: self.output, total: self.total.max(prompt + self.output) }
    }
}
