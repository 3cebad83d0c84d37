//! Reading a request's body whole, within a bound and with progress.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use tokio::time::Instant;

use super::room::{Room, Taken};
use crate::body::BoxError;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It is larger than allowed, by its claim or by what came.
    #[error("the request body is larger than {max_bytes} bytes")]
    TooLarge {
        /// The bound it broke.
        max_bytes: usize,
    },
    /// Nothing of it came for too long.
    #[error("no further byte of the request body came for {}s", .0.as_secs_f64())]
    Stalled(Duration),
    /// There is no memory left for it.
    #[error("as many bytes of request bodies are in memory as may be")]
    NoRoom,
    /// It ended early or its framing is wrong.
    #[error("the request body could not be read")]
    Broken(#[source] BoxError),
}

/// How fast a body has to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The longest time between two pieces.
    pub progress: Duration,
    /// When all of it must be there.
    pub until: Option<Instant>,
}

impl From<Duration> for Pace {
    fn from(progress: Duration) -> Self {
        Self { progress, until: None }
    }
}

/// A body that was read.
#[derive(Debug)]
pub struct Whole {
    /// The body.
    pub bytes: Bytes,
    /// It came in several pieces: it is in memory of its own, which is taken of the room, and refers to nothing else.
    pub is_joined: bool,
}

/// Reads `body` to its end and returns it.
///
/// A body that came in one piece is returned as it came, without a copy. Memory grows with what has arrived,
/// never with a claimed length, and is taken of `room` until the body is dropped. (One piece is no longer than what its
/// connection reads at once.) No timer is made for a body that is already here.
///
/// Trailers are read and dropped.
///
/// # Errors
///
/// [`BodyError::TooLarge`] before anything is read if the claimed length is over `max_bytes`, or as soon as more
/// has come; [`BodyError::NoRoom`] when all bodies together would be larger than `room`; [`BodyError::Stalled`] when it
/// is slower than `pace`; [`BodyError::Broken`] if the connection fails or the framing is wrong.
///
/// # Cancel safety
///
/// Dropping the future drops the body: what was read is lost, and the connection closes after the answer unless
/// the rest had arrived.
pub async fn read_body<B>(
    body: B,
    max_bytes: usize,
    pace: impl Into<Pace>,
    room: &Room,
) -> Result<Whole, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let claimed = body.size_hint();
    if claimed.lower() > max_bytes as u64 {
        return Err(BodyError::TooLarge { max_bytes });
    }
    let claimed = claimed.exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let mut body = pin!(body);
    let pace = pace.into();
    let mut patience = pin!(Patience::new(pace));
    let mut read = Gathered::within(room);
    let mut has_asked = false;
    while !body.is_end_stream() {
        let frame = poll_fn(|context| {
            if let Poll::Ready(frame) = body.as_mut().poll_frame(context) {
                patience.as_mut().get_mut().progressed();
                return Poll::Ready(Ok(frame));
            }
            if !has_asked {
                // Asking is what makes hyper read on: a body that came with its head is here at the next poll, and a timer
                // for it would have been made in vain.
                has_asked = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            patience.as_mut().get_mut().poll_end(context).map(|()| Err(BodyError::Stalled(pace.progress)))
        })
        .await?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| BodyError::Broken(error.into()))?;
        let Ok(piece) = frame.into_data() else { continue };
        if piece.len() > max_bytes - read.len() {
            return Err(BodyError::TooLarge { max_bytes });
        }
        read.push(piece, claimed)?;
    }
    Ok(read.finish())
}

/// The pieces read so far: one as it came, or several copied together.
struct Gathered {
    first: Bytes,
    joined: BytesMut,
    taken: Taken,
}

/// A body of several pieces, and the room that it takes.
struct Joined {
    body: BytesMut,
    _taken: Taken,
}

impl AsRef<[u8]> for Joined {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Gathered {
    fn within(room: &Room) -> Self {
        Self { first: Bytes::new(), joined: BytesMut::new(), taken: room.none() }
    }

    fn len(&self) -> usize {
        // Only one of the two is ever filled.
        self.first.len() + self.joined.len()
    }

    fn push(&mut self, piece: Bytes, claimed: usize) -> Result<(), BodyError> {
        if self.len() == 0 {
            self.first = piece;
            return Ok(());
        }
        let needed = self.len() + piece.len();
        if needed > self.joined.capacity() {
            // Doubling keeps the copies few; the claim is believed only once half of it has come.
            let target = if claimed >= needed && claimed <= 2 * needed { claimed } else { 2 * needed };
            if !self.taken.grow(target) {
                return Err(BodyError::NoRoom);
            }
            // Not `reserve`, which would take twice what there is where the claim is less.
            let mut larger = BytesMut::with_capacity(target);
            larger.extend_from_slice(&self.joined);
            self.joined = larger;
        }
        if !self.first.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&piece);
        Ok(())
    }

    fn finish(self) -> Whole {
        if self.joined.is_empty() {
            return Whole { bytes: self.first, is_joined: false };
        }
        let joined = Joined { body: self.joined, _taken: self.taken };
        Whole { bytes: Bytes::from_owner(joined), is_joined: true }
    }
}

/// A timer that is made at the first wait and moved only when it ends, however many pieces came meanwhile.
struct Patience {
    pace: Pace,
    since: Option<Instant>,
    timer: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl Patience {
    fn new(pace: Pace) -> Self {
        Self { pace, since: None, timer: None }
    }

    fn progressed(&mut self) {
        if self.timer.is_some() {
            self.since = Some(Instant::now());
        }
    }

    fn poll_end(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let end = since + self.pace.progress;
        let end = self.pace.until.map_or(end, |until| end.min(until));
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        while timer.as_mut().poll(context).is_ready() {
            if end <= timer.deadline() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_takes_the_room_of_all_its_memory() {
        let room = Room::new(usize::MAX);
        // One byte more than twice what has come is not believed, and is one more than there is memory for.
        for (claimed, pieces) in
            [(0, [100, 100, 100, 300]), (401, [100, 100, 200, 1]), (900, [100, 400, 300, 100])]
        {
            let mut read = Gathered::within(&room);
            for bytes in pieces {
                read.push(vec![b'x'; bytes].into(), claimed).unwrap();
                assert_eq!(room.used(), read.joined.capacity(), "of {claimed}");
            }
        }
    }
}
