//! A change of a few bytes in a body that is otherwise sent as it came.

use std::ops::Range;

use bytes::Bytes;

/// One stretch of a body, and what is sent instead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    cut: Range<usize>,
    text: &'static str,
}

impl Splice {
    #[expect(dead_code, reason = "the reader of stream options makes them")]
    pub(super) const fn new(cut: Range<usize>, text: &'static str) -> Self {
        Self { cut, text }
    }

    /// What is sent instead of `body`, in order. Nothing is copied.
    #[must_use]
    pub fn apply(&self, body: &Bytes) -> [Bytes; 3] {
        let start = self.cut.start.min(body.len());
        let end = self.cut.end.clamp(start, body.len());
        [body.slice(..start), Bytes::from_static(self.text.as_bytes()), body.slice(end..)]
    }
}
