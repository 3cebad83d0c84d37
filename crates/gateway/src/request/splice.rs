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
    pub(super) const fn new(cut: Range<usize>, text: &'static str) -> Self {
        Self { cut, text }
    }

    /// `text` instead of `part`, which is a part of `body`, and not only equal to one.
    pub(super) fn instead_of(part: &[u8], body: &Bytes, text: &'static str) -> Self {
        let start = part.as_ptr().addr().saturating_sub(body.as_ptr().addr()).min(body.len());
        Self::new(start..(start + part.len()).min(body.len()), text)
    }

    /// What is sent instead of `body`, which is the one that was read, in order. Nothing of it is copied.
    #[must_use]
    pub fn apply(&self, body: &Bytes) -> [Bytes; 3] {
        let start = self.cut.start.min(body.len());
        let end = self.cut.end.clamp(start, body.len());
        [body.slice(..start), Bytes::from_static(self.text.as_bytes()), body.slice(end..)]
    }
}
