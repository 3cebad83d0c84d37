//! Reading bodies: bounds, copies, growth.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use tokio::time::Instant;

use crate::edge::{BodyError, Pace, Room, read_body};

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
    read_body(body, max, Duration::from_secs(1), &Room::new(usize::MAX)).await.map(|body| body.bytes)
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
    let room = Room::new(usize::MAX);
    let read = async |claimed| {
        let body = Pieces { claimed: Some(claimed), ..Pieces::new([piece(), piece(), piece()]) };
        read_body(body, usize::MAX, Duration::from_secs(1), &room).await.unwrap().bytes
    };
    let body = read(u64::from(u32::MAX)).await;
    assert!(room.used() <= 4 * 300, "{}", room.used());
    drop(body);
    let body = read(300).await;
    assert_eq!((room.used(), body.len()), (300, 300), "a claim that is half fulfilled is believed");
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
    let read = read_body(drip, 1_000, pace, &Room::new(usize::MAX)).await;
    assert!(matches!(read, Err(BodyError::Stalled(_))), "{read:?}");
    let took = start.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_millis(5_010)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn bodies_share_the_room_that_there_is() {
    let room = Room::new(3_000);
    let read = async |pieces: usize| {
        let body = Pieces::new(std::iter::repeat_n(Bytes::from(vec![b'x'; 500]), pieces));
        read_body(body, 10_000, Duration::from_secs(1), &room).await.map(|body| body.bytes)
    };
    let one = read(1).await.unwrap();
    assert_eq!(room.used(), 0, "one piece lies in its connection's buffer");
    let two = read(2).await.unwrap();
    let used = room.used();
    assert!((1_000..=2_000).contains(&used), "{used}");
    assert!(matches!(read(6).await, Err(BodyError::NoRoom)));
    assert_eq!(room.used(), used, "what was read of it is gone");
    let kept = two.slice(10..20);
    drop((one, two));
    assert_eq!(room.used(), used, "a part keeps all of it");
    drop(kept);
    assert_eq!(room.used(), 0);
    read(4).await.unwrap();
    room.resize(1_000);
    assert!(matches!(read(4).await, Err(BodyError::NoRoom)));
}
