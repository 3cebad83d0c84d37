//! Where answers of one API have what matters.

use super::tally::Tally;

/// Where answers have what matters.
#[derive(Debug)]
pub(super) struct Shape {
    /// The top-level object that may have the usage in it. Otherwise it is at the top level itself.
    pub(super) wrapper: &'static [u8],
    pub(super) output: Output,
    /// Reads a usage object.
    pub(super) read_usage: fn(&[u8]) -> Option<Tally>,
}

/// Where the text of the output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// In every `delta`, however deep.
    Deltas,
    /// In every `text`.
    Texts,
    /// In the members of a whole answer that are output.
    Document,
}

impl Shape {
    /// Whether what stands behind this key is output.
    pub(super) fn is_output(&self, key: &[u8], depth: u32) -> bool {
        match self.output {
            Output::Deltas => key == b"delta",
            Output::Texts => key == b"text",
            Output::Document => depth == 1 && matches!(key, b"choices" | b"output" | b"content" | b"text"),
        }
    }
}
