//! What is known of one connection, shared by its bytes, its driver and its requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::activity::Activity;
use super::{EdgeTimeouts, Malformed};
use crate::rewake::Wakes;

/// How long we go on reading, and throwing away, what a client still sends after its answer.
const LINGER: Duration = Duration::from_secs(5);
/// How long a client may take to answer that the connection ends (HTTP/2), or to send its first request on a
/// connection that is draining.
const GOODBYE: Duration = Duration::from_secs(1);
/// "Has not happened" where a time or a number is kept in an atomic.
const NEVER: u64 = u64::MAX;

/// What the client has to do next, as far as the bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// Show which version it speaks.
    Opening,
    /// Send the rest of an HTTP/1 head.
    Head,
    /// Begin an HTTP/1 request.
    Between,
    /// Send the rest of an HTTP/1 body.
    Body,
    /// Anything, in HTTP/2.
    Http2,
    /// Close the connection that we have shut.
    Lingering,
}

/// The state of one connection.
///
/// Bytes and dispatch happen in one task, the connection's; only the end of an HTTP/2 request, a drain and a
/// look at the counts come from elsewhere. So relaxed atomics do, except where a request's end must not be
/// missed by a driver that has gone to sleep without a timer.
#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) peer: SocketAddr,
    /// The socket, to be watched by [`caller_gone`](super::Connection::caller_gone); none in tests on pipes.
    pub(super) socket: Option<Weak<TcpStream>>,
    activity: Activity,
    timeouts: EdgeTimeouts,
    /// All times below are nanoseconds since then.
    origin: Instant,
    stage: AtomicU8,
    head_began: AtomicU64,
    idle_since: AtomicU64,
    write_stalled: AtomicU64,
    lingering_since: AtomicU64,
    draining_since: AtomicU64,
    in_flight: AtomicU32,
    /// HTTP/1 heads seen whole on the wire, the first with conflicting lengths, and requests handed on by hyper.
    heads: AtomicU64,
    conflict: AtomicU64,
    dispatched: AtomicU64,
    /// The driver has no timer armed: the end of the last request must wake it.
    parked: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// HTTP/1 only: what wakes hyper's side of the connection.
    wakes: OnceLock<Wakes>,
}

impl ConnectionState {
    pub(super) fn new(
        peer: SocketAddr,
        socket: Option<Weak<TcpStream>>,
        timeouts: EdgeTimeouts,
        activity: Activity,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer,
            socket,
            activity,
            timeouts,
            origin: Instant::now(),
            stage: AtomicU8::new(Stage::Opening as u8),
            head_began: AtomicU64::new(0),
            idle_since: AtomicU64::new(0),
            write_stalled: AtomicU64::new(NEVER),
            lingering_since: AtomicU64::new(0),
            draining_since: AtomicU64::new(NEVER),
            in_flight: AtomicU32::new(0),
            heads: AtomicU64::new(0),
            conflict: AtomicU64::new(NEVER),
            dispatched: AtomicU64::new(0),
            parked: AtomicBool::new(false),
            waker: Mutex::new(None),
            wakes: OnceLock::new(),
        })
    }

    fn now(&self) -> u64 {
        // 584 years fit.
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(NEVER - 1)
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Opening,
            1 => Stage::Head,
            2 => Stage::Between,
            3 => Stage::Body,
            4 => Stage::Http2,
            _ => Stage::Lingering,
        }
    }

    // === what the bytes tell ===

    pub(super) fn http2_began(&self) {
        self.idle_since.store(self.now(), Ordering::Relaxed);
        self.stage.store(Stage::Http2 as u8, Ordering::Relaxed);
    }

    /// A new head has begun and has not ended in the same read.
    pub(super) fn head_began(&self) {
        self.head_began.store(self.now(), Ordering::Relaxed);
        self.stage.store(Stage::Head as u8, Ordering::Relaxed);
    }

    pub(super) fn message_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    pub(super) fn framing_seen(&self, heads: u64, conflict: Option<u64>) {
        self.heads.store(heads, Ordering::Relaxed);
        self.conflict.store(conflict.unwrap_or(NEVER), Ordering::Relaxed);
    }

    pub(super) fn lingering_began(&self) {
        self.lingering_since.store(self.now(), Ordering::Relaxed);
        self.stage.store(Stage::Lingering as u8, Ordering::Relaxed);
    }

    pub(super) fn write_stalled(&self) {
        self.write_stalled.store(self.now(), Ordering::Relaxed);
    }

    /// A stalled write went on: the client reads, so it is not idle either.
    pub(super) fn write_resumed(&self) {
        self.idle_since.store(self.now(), Ordering::Relaxed);
        self.write_stalled.store(NEVER, Ordering::Relaxed);
    }

    // === requests ===

    /// Counts a request that hyper hands on, and tells how it was delimited.
    pub(super) fn dispatched(self: &Arc<Self>) -> (InFlight, Result<(), Malformed>) {
        let number = self.dispatched.fetch_add(1, Ordering::Relaxed);
        let framing = if self.stage() == Stage::Http2 { Ok(()) } else { self.framing_of(number) };
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.activity.request_began();
        (InFlight(Arc::clone(self)), framing)
    }

    fn framing_of(&self, number: u64) -> Result<(), Malformed> {
        let conflict = self.conflict.load(Ordering::Relaxed);
        if number == conflict {
            Err(Malformed::LengthAndEncoding)
        } else if number > conflict || number >= self.heads.load(Ordering::Relaxed) {
            // hyper and we disagree on where requests begin: nothing on this connection can be trusted.
            Err(Malformed::Framing)
        } else {
            Ok(())
        }
    }

    /// The connection is polled with these wakes from now on.
    pub(super) fn woken_by(&self, wakes: Wakes) {
        // A connection is driven once.
        _ = self.wakes.set(wakes);
    }

    /// The body of the request in flight has just been read to its end, by who was called with it.
    ///
    /// hyper is woken when a piece of a body is taken, to read the next one, even if it has read all there is. To look again
    /// would poll everything that the request waits for a second time, and find nothing.
    pub(super) fn body_was_read(&self) {
        if let Some(wakes) = self.wakes.get() {
            wakes.answered();
        }
    }

    /// Whether bytes of the body of the request in flight are still to come (HTTP/1).
    pub(super) fn is_body_due(&self) -> bool {
        // With more heads seen than handed on, the body is that of a request behind.
        self.stage() == Stage::Body
            && self.heads.load(Ordering::Relaxed) == self.dispatched.load(Ordering::Relaxed)
    }

    // === ending ===

    /// Asks the connection to end: idle ones close, busy ones answer first.
    pub(super) fn drain(&self) {
        let unset =
            self.draining_since.compare_exchange(NEVER, self.now(), Ordering::SeqCst, Ordering::SeqCst);
        if unset.is_ok() {
            self.wake();
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining_since.load(Ordering::Relaxed) != NEVER
    }

    /// When the client will have taken too long; none while it waits for us.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let stalled = self.write_stalled.load(Ordering::Relaxed);
        let stalled = (stalled != NEVER).then(|| self.after(stalled, self.timeouts.body_progress));
        let idle = (self.in_flight.load(Ordering::SeqCst) == 0).then(|| self.idle_deadline());
        match (stalled, idle) {
            (Some(stalled), Some(idle)) => Some(stalled.min(idle)),
            (stalled, idle) => stalled.or(idle),
        }
    }

    fn idle_deadline(&self) -> Instant {
        let idle_since = self.idle_since.load(Ordering::Relaxed);
        let draining = self.draining_since.load(Ordering::Relaxed);
        match self.stage() {
            Stage::Lingering => self.after(self.lingering_since.load(Ordering::Relaxed), LINGER),
            Stage::Head => {
                // A head that came behind a request in flight was not due before its end.
                self.after(self.head_began.load(Ordering::Relaxed).max(idle_since), self.timeouts.header)
            }
            Stage::Opening => {
                let first_byte = self.after(0, self.timeouts.first_byte);
                if draining == NEVER { first_byte } else { first_byte.min(self.after(draining, GOODBYE)) }
            }
            Stage::Between | Stage::Body | Stage::Http2 if draining != NEVER => {
                self.after(draining.max(idle_since), GOODBYE)
            }
            Stage::Between | Stage::Body | Stage::Http2 => self.after(idle_since, self.timeouts.keep_alive),
        }
    }

    fn after(&self, nanoseconds: u64, limit: Duration) -> Instant {
        let since = self.origin + Duration::from_nanos(nanoseconds);
        since.checked_add(limit).unwrap_or(since)
    }

    // === waking the driver ===

    pub(super) fn wake_by(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }

    /// The driver is about to wait without a timer. It must look at [`deadline`](Self::deadline) once more after this.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::SeqCst);
    }

    pub(super) fn unpark(&self) {
        self.parked.store(false, Ordering::SeqCst);
    }

    fn wake(&self) {
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One request in flight, from its dispatch to the end of its answer's body.
#[derive(Debug)]
pub(super) struct InFlight(Arc<ConnectionState>);

impl InFlight {
    pub(super) fn state(&self) -> &Arc<ConnectionState> {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let state = &self.0;
        state.activity.request_ended();
        // Before the count, so that whoever sees no request also sees since when.
        state.idle_since.store(state.now(), Ordering::Relaxed);
        if state.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 && state.parked.load(Ordering::SeqCst) {
            state.wake();
        }
    }
}
