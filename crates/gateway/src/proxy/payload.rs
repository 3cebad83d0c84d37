//! A request's body in pieces.

use bytes::Bytes;

/// A request's whole body, in one piece or in a few. Copies share the bytes.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    first: Bytes,
    /// Boxed: nearly every body is in one piece.
    rest: Option<Box<[Bytes; 2]>>,
}

// === impl Payload ===

impl Payload {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.as_deref().map_or(0, |rest| rest.iter().map(Bytes::len).sum())
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next piece that has bytes.
    pub(super) fn next_piece(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        let rest = self.rest.as_deref_mut()?;
        rest.iter_mut().find(|piece| !piece.is_empty()).map(std::mem::take)
    }

    /// All of it as one piece; copies only where there are several.
    pub(super) fn whole(mut self) -> Bytes {
        if self.rest.is_none() {
            return self.first;
        }
        let mut whole = bytes::BytesMut::with_capacity(self.len());
        while let Some(piece) = self.next_piece() {
            whole.extend_from_slice(&piece);
        }
        whole.freeze()
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self { first: bytes, rest: None }
    }
}

impl From<[Bytes; 3]> for Payload {
    fn from([first, second, third]: [Bytes; 3]) -> Self {
        Self { first, rest: Some(Box::new([second, third])) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(texts: [&'static str; 3]) -> Payload {
        texts.map(|text| Bytes::from_static(text.as_bytes())).into()
    }

    #[test]
    fn pieces_come_in_order_and_empty_ones_not_at_all() {
        for (texts, expected) in [
            (["a", "bc", "d"], &["a", "bc", "d"][..]),
            (["", "b", ""], &["b"]),
            (["a", "", "c"], &["a", "c"]),
            (["", "", ""], &[]),
        ] {
            let mut payload = pieces(texts);
            assert_eq!(payload.len(), texts.concat().len());
            assert_eq!(payload.clone().whole(), texts.concat());
            let taken: Vec<_> = std::iter::from_fn(|| payload.next_piece()).collect();
            assert_eq!(taken, expected);
            assert!(payload.is_empty());
        }
    }

    #[test]
    fn one_piece_is_not_copied() {
        let bytes = Bytes::from_static(b"whole");
        assert_eq!(Payload::from(bytes.clone()).whole().as_ptr(), bytes.as_ptr());
    }
}
