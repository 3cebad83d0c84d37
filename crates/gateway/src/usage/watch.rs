//! The body of an answer, watched on its way.

use std::{
    fmt,
    num::NonZeroU32,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{Ended, Outcome, Settle, Watch, look::Look, withhold::Withhold};

pin_project! {
    /// An answer's body that reports its outcome once: when it has ended, has failed or is dropped.
    ///
    /// Frames pass as they come, the same bytes in the same pieces. Where a chunk is kept from the caller, the others are
    /// pieced by events.
    pub struct Watched<B: Body, S: Settle> {
        // Dropped first: its backend is to hear at once that nobody reads on.
        #[pin]
        body: B,
        withhold: Option<Withhold>,
        // What follows when everything withheld has been given out.
        last: Option<Last<B::Error>>,
        report: Report<S>,
    }
}

/// What a body yields behind its data.
type Last<E> = Option<Result<Frame<Bytes>, E>>;

/// Reports once.
struct Report<S: Settle> {
    look: Look,
    bytes_per_token: NonZeroU32,
    has_output: bool,
    settle: Option<S>,
    /// How the answer has ended if nothing more is heard of it.
    ended: Ended,
}

// === impl Watch ===

impl Watch {
    /// Watches `body`, whose head has `headers`; `settle` gets the outcome.
    ///
    /// An answer that is neither JSON nor a stream of events, or is compressed, passes unread and without usage. Where a
    /// chunk may be kept from the caller, the `content-length` is taken out of `headers`, since it may not hold.
    pub fn body<B: Body, S: Settle>(self, headers: &mut HeaderMap, body: B, settle: S) -> Watched<B, S> {
        let look = Look::at(&self, headers);
        let withhold = (self.hide_usage && matches!(look, Look::Events(..))).then(Withhold::default);
        if withhold.is_some() {
            headers.remove(header::CONTENT_LENGTH);
        }
        let report = Report {
            look,
            bytes_per_token: self.bytes_per_token,
            has_output: self.api.has_output(),
            settle: Some(settle),
            ended: if body.is_end_stream() { Ended::Complete } else { Ended::Dropped },
        };
        Watched { body, withhold, last: None, report }
    }
}

// === impl Watched ===

impl<B: Body<Data = Bytes>, S: Settle> Body for Watched<B, S> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let Some(withhold) = this.withhold else {
            let polled = ready!(this.body.as_mut().poll_frame(cx));
            let is_end = this.body.is_end_stream();
            // Taken apart and made again: frames are large to move, and most of one is what data do not need.
            let polled = match polled.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => {
                    this.report.look.pass(&data);
                    Some(Ok(Frame::data(data)))
                }
                Some(Ok(Err(trailers))) => Some(Ok(trailers)),
                Some(Err(error)) => Some(Err(error)),
                None => None,
            };
            this.report.note(&polled, is_end);
            return Poll::Ready(polled);
        };
        loop {
            if let Some(bytes) = withhold.pop() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(last) = this.last.take() {
                return Poll::Ready(last);
            }
            let polled = ready!(this.body.as_mut().poll_frame(cx));
            let is_end = this.body.is_end_stream();
            if let Look::Events(parser, events) = &mut this.report.look {
                match polled.map(|frame| frame.map(Frame::into_data)) {
                    Some(Ok(Ok(chunk))) if withhold.passes(parser, events, &chunk) => {
                        let polled = Some(Ok(Frame::data(chunk)));
                        this.report.note(&polled, is_end);
                        return Poll::Ready(polled);
                    }
                    Some(Ok(Ok(chunk))) => {
                        withhold.push(parser, events, &chunk);
                        if is_end {
                            withhold.end(events);
                        }
                    }
                    Some(Ok(Err(trailers))) => {
                        withhold.end(events);
                        *this.last = Some(Some(Ok(trailers)));
                    }
                    Some(Err(error)) => {
                        withhold.release();
                        *this.last = Some(Some(Err(error)));
                    }
                    None => {
                        withhold.end(events);
                        *this.last = Some(None);
                    }
                }
            }
            // hyper asks no further than to the last frame of a body whose end is known.
            match this.last {
                Some(last) => this.report.note(last, is_end),
                None if is_end => this.report.deliver(Ended::Complete),
                None => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let nothing_withheld = self.last.is_none() && self.withhold.as_ref().is_none_or(Withhold::is_empty);
        nothing_withheld && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.size_hint();
        let Some(withhold) = &self.withhold else { return hint };
        let mut open = SizeHint::new();
        if let Some(upper) = hint.upper() {
            open.set_upper(upper.saturating_add(withhold.len() as u64));
        }
        open
    }
}

impl<B: Body + fmt::Debug, S: Settle> fmt::Debug for Watched<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("body", &self.body)
            .field("look", &self.report.look)
            .finish_non_exhaustive()
    }
}

// === impl Report ===

impl<S: Settle> Report<S> {
    /// Reports if this is the end.
    fn note<E>(&mut self, polled: &Last<E>, is_end: bool) {
        match polled {
            Some(Ok(_)) if !is_end => {}
            // Whoever reads a body may stop at its last frame.
            Some(Ok(_)) | None => self.deliver(Ended::Complete),
            Some(Err(_)) => self.deliver(Ended::Failed),
        }
    }

    #[cold]
    fn deliver(&mut self, ended: Ended) {
        let Some(settle) = self.settle.take() else { return };
        let (usage, output_bytes) = self.look.result();
        let observed_output =
            if self.has_output { output_bytes.div_ceil(u64::from(self.bytes_per_token.get())) } else { 0 };
        settle.settle(Outcome { usage, observed_output, ended });
    }
}

impl<S: Settle> Drop for Report<S> {
    fn drop(&mut self) {
        self.deliver(self.ended);
    }
}
