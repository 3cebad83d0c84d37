//! Reading bodies: bounds, copies, growth.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use tokio::time::Instant;

use crate::edge::{BodyError, Pace, read_body};

/// A body in the given pieces, with or without a claimed length; `polled` by nobody who refuses it.
#[derive(Default)]
struct Pieces {
    pieces: VecDeque<Bytes>,
    claimed: Option<u64>,
    must_not_be_read: bool,
}

impl Pieces {
    fn new(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        Self { pieces: pieces.into_iter().collect(), ..Self::default() }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        assert!(!self.must_not_be_read);
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        self.claimed.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

async fn read(body: Pieces, max: usize) -> Result<Bytes, BodyError> {
    read_body(body, max, Duration::from_secs(1)).await
}

#[tokio::test]
async fn one_piece_is_not_copied() {
    let piece = Bytes::from(vec![b'x'; 1000]);
    let body = read(Pieces::new([piece.clone()]), 1000).await.unwrap();
    assert_eq!((body.as_ptr(), body.len()), (piece.as_ptr(), 1000));
}

#[tokio::test]
async fn pieces_are_joined_in_order() {
    for count in [0_u8, 1, 2, 3, 50, 255] {
        let pieces: Vec<_> = (0..count).map(|piece| Bytes::from(vec![piece; usize::from(piece)])).collect();
        let expected = pieces.concat();
        for claimed in [None, Some(expected.len() as u64)] {
            let body = Pieces { claimed, ..Pieces::new(pieces.clone()) };
            assert_eq!(read(body, 100_000).await.unwrap(), expected, "{count} {claimed:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_over_the_bound_is_refused_unread() {
    let body = Pieces { claimed: Some(1001), must_not_be_read: true, ..Pieces::default() };
    assert!(matches!(read(body, 1000).await, Err(BodyError::TooLarge { max_bytes: 1000 })));
}

#[tokio::test]
async fn what_comes_over_the_bound_is_refused() {
    let piece = || Bytes::from_static(&[b'x'; 400]);
    assert!(matches!(
        read(Pieces::new([piece(), piece(), piece()]), 1000).await,
        Err(BodyError::TooLarge { max_bytes: 1000 })
    ));
    assert_eq!(read(Pieces::new([piece(), piece()]), 800).await.unwrap().len(), 800);
    assert!(matches!(read(Pieces::new([piece()]), 399).await, Err(BodyError::TooLarge { .. })));
}

#[tokio::test]
async fn memory_grows_with_what_came_and_not_with_the_claim() {
    let piece = || Bytes::from_static(&[b'x'; 100]);
    let body = Pieces { claimed: Some(u64::from(u32::MAX)), ..Pieces::new([piece(), piece(), piece()]) };
    let body = read(body, usize::MAX).await.unwrap().try_into_mut().expect("the only owner");
    assert!(body.capacity() <= 4 * 300, "{}", body.capacity());
    // A claim that is half fulfilled is believed: no byte too many.
    let body = Pieces { claimed: Some(300), ..Pieces::new([piece(), piece(), piece()]) };
    let body = read(body, usize::MAX).await.unwrap().try_into_mut().expect("the only owner");
    assert_eq!(body.capacity(), 300);
}

/// A byte every 400 ms, for ever.
struct Drip(Pin<Box<tokio::time::Sleep>>);

impl http_body::Body for Drip {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::ready!(self.0.as_mut().poll(context));
        let next = self.0.deadline() + Duration::from_millis(400);
        self.0.as_mut().reset(next);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_for_ever_ends_when_all_of_it_was_due() {
    let start = Instant::now();
    let drip = Drip(Box::pin(tokio::time::sleep(Duration::from_millis(400))));
    let pace = Pace { progress: Duration::from_secs(1), until: Some(start + Duration::from_secs(5)) };
    let read = read_body(drip, 1_000, pace).await;
    assert!(matches!(read, Err(BodyError::Stalled(_))), "{read:?}");
    let took = start.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_millis(5_010)).contains(&took), "{took:?}");
}
