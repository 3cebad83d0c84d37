//! One server: the connection to it that all calls share, and whether it is asked at all.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::board::Board;
use crate::Timestamp;
use crate::redis::failure::{Concern, Failure};
use crate::redis::script::Form;

/// Requests of a thread that may be under way at once. Each waits for at most the timeout, so this bounds what an
/// outage can pile up before the breaker opens; a healthy server never comes near it.
const MOST_UNDER_WAY: usize = 4_096;

/// Counters of them: threads beyond as many share theirs.
const COUNTERS: usize = 8;

/// So many failures in a row open the breaker, if each of them alone proves nothing.
const FAILURES_TO_OPEN: u32 = 3;

/// How many threads have been given a counter.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// A request that was sent, on its way to its answer. Owns all it needs, so that it can outlive its caller.
pub(in crate::redis) type Sent = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// Whether a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::redis) enum State {
    /// It is being tried for the first time: calls wait for the outcome, within their deadlines.
    Starting,
    /// It is.
    Up,
    /// It is not: calls fail at once, and a task tries it in the background.
    Down,
}

/// A connection.
pub(in crate::redis) struct Link {
    connection: MultiplexedConnection,
    /// Tells it from those before, whose late failures say nothing about it.
    number: u32,
}

/// What is to be done about a server that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Repair {
    /// See whether it serves.
    Probe,
    /// Connect anew.
    Redial,
}

/// One server.
pub(in crate::redis) struct Node {
    board: Arc<Board>,
    address: Mutex<String>,
    link: ArcSwapOption<Link>,
    links: AtomicU32,
    /// Changed only through `sender`; here for those who only look.
    state: AtomicU8,
    sender: watch::Sender<State>,
    failures: AtomicU32,
    /// Each alone in its cache lines, so that threads do not fight over them.
    under_way: [CachePadded<AtomicUsize>; COUNTERS],
    last_error: Mutex<Option<RedisError>>,
    repair: Mutex<Option<Repair>>,
    trouble: Notify,
    /// Server time less the time since `origin`, in microseconds.
    clock: AtomicI64,
    origin: Instant,
    /// What probes have in their names, so that their keys are in a slot of this server.
    probe_number: AtomicU32,
    pub(in crate::redis) script: Script,
}

/// How the server wants the script.
#[derive(Debug, Default)]
pub(in crate::redis) struct Script {
    /// Held while the script is loaded, so that of many calls that find it missing one loads it.
    pub(in crate::redis) loading: tokio::sync::Mutex<()>,
    /// How often it was loaded.
    loads: AtomicU64,
    /// The server does not run scripts by their digest.
    text_only: AtomicBool,
}

/// A place among the requests under way.
#[derive(Debug)]
pub(in crate::redis) struct Place<'a>(&'a AtomicUsize);

impl Node {
    pub(in crate::redis) fn new(address: String, board: Arc<Board>, origin: Instant) -> Arc<Self> {
        Arc::new(Self {
            board,
            address: Mutex::new(address),
            link: ArcSwapOption::const_empty(),
            links: AtomicU32::new(0),
            state: AtomicU8::new(State::Starting as u8),
            sender: watch::channel(State::Starting).0,
            failures: AtomicU32::new(0),
            under_way: Default::default(),
            last_error: Mutex::new(None),
            repair: Mutex::new(None),
            trouble: Notify::new(),
            clock: AtomicI64::new(0),
            origin,
            probe_number: AtomicU32::new(0),
            script: Script::default(),
        })
    }

    pub(in crate::redis) fn address(&self) -> String {
        self.address.lock().clone()
    }

    #[inline]
    pub(in crate::redis) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Starting,
            1 => State::Up,
            _ => State::Down,
        }
    }

    /// Returns at once if it is known whether the server can be asked, else waits until it is.
    ///
    /// # Errors
    ///
    /// It cannot be asked.
    #[inline]
    pub(in crate::redis) async fn ready(&self, deadline: Instant) -> Result<(), Failure> {
        match self.state() {
            State::Up => Ok(()),
            State::Down => Err(self.down_failure()),
            State::Starting => self.started(deadline).await,
        }
    }

    #[cold]
    async fn started(&self, deadline: Instant) -> Result<(), Failure> {
        let mut states = self.sender.subscribe();
        let started = states.wait_for(|state| *state != State::Starting);
        match timeout_at(deadline, started).await {
            Ok(Ok(state)) if *state == State::Up => Ok(()),
            _ => Err(self.down_failure()),
        }
    }

    /// What a call is told at once, if the server is not asked at present.
    pub(in crate::redis) fn refusal(&self) -> Option<Failure> {
        (self.state() == State::Down).then(|| self.down_failure())
    }

    #[cold]
    fn down_failure(&self) -> Failure {
        Failure::Down(self.last_error.lock().clone())
    }

    /// The connection, whatever its state.
    #[inline]
    pub(in crate::redis) fn link(&self) -> Result<Arc<Link>, Failure> {
        self.link.load_full().ok_or_else(|| self.down_failure())
    }

    /// A place among the requests under way, if there is one.
    #[inline]
    pub(in crate::redis) fn enter(&self) -> Result<Place<'_>, Failure> {
        thread_local! {
            static COUNTER: usize = THREADS.fetch_add(1, Ordering::Relaxed) % COUNTERS;
        }
        let counter = &*self.under_way[COUNTER.with(|counter| *counter)];
        let place = Place(counter);
        if counter.fetch_add(1, Ordering::Relaxed) < MOST_UNDER_WAY {
            Ok(place)
        } else {
            Err(Failure::Crowded)
        }
    }

    /// Says that the server has answered as it should.
    #[inline]
    pub(in crate::redis) fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Says what became of a request that was sent over a link.
    #[cold]
    pub(in crate::redis) fn failed(&self, link: &Link, failure: &Failure) {
        if self.links.load(Ordering::Relaxed) != link.number {
            return;
        }
        match failure.concern() {
            Concern::None => {
                // The row of failures has an end: it answers, if only that another server is to be asked.
                if failure.is_direction() {
                    self.succeeded();
                }
            }
            Concern::Redial => self.open(failure, Repair::Redial),
            Concern::Doubt => {
                if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_TO_OPEN {
                    self.open(failure, Repair::Probe);
                }
            }
        }
    }

    /// Opens the breaker, and wakes the task that will close it.
    fn open(&self, failure: &Failure, repair: Repair) {
        let mut wanted = self.repair.lock();
        if *wanted != Some(Repair::Redial) {
            *wanted = Some(repair);
        }
        drop(wanted);
        if self.state() == State::Up {
            self.set_down(failure.to_redis());
        }
        self.trouble.notify_one();
    }

    /// What was wrong with the server last.
    pub(in crate::redis) fn last_error(&self) -> Option<RedisError> {
        self.last_error.lock().clone()
    }

    /// What is to be done, if anything is.
    pub(in crate::redis) fn wanted_repair(&self) -> Option<Repair> {
        self.repair.lock().take()
    }

    /// Waits until something is to be done.
    pub(in crate::redis) async fn trouble(&self) {
        self.trouble.notified().await;
    }

    pub(in crate::redis) fn set_down(&self, error: RedisError) {
        *self.last_error.lock() = Some(error);
        self.set(State::Down);
    }

    pub(in crate::redis) fn set_up(&self) {
        self.failures.store(0, Ordering::Relaxed);
        *self.last_error.lock() = None;
        self.set(State::Up);
    }

    fn set(&self, state: State) {
        self.sender.send_if_modified(|last| {
            self.state.store(state as u8, Ordering::Release);
            let changed = *last != state;
            *last = state;
            changed
        });
        self.board.refresh();
    }

    /// Has all further requests sent over another connection.
    pub(in crate::redis) fn connect(&self, connection: MultiplexedConnection, address: String) -> Arc<Link> {
        let number = self.links.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let link = Arc::new(Link { connection, number });
        self.link.store(Some(Arc::clone(&link)));
        *self.address.lock() = address;
        *self.repair.lock() = None;
        self.failures.store(0, Ordering::Relaxed);
        self.script.text_only.store(false, Ordering::Relaxed);
        link
    }

    /// Forgets the connection.
    pub(in crate::redis) fn disconnect(&self) {
        self.links.fetch_add(1, Ordering::Relaxed);
        self.link.store(None);
    }

    pub(in crate::redis) fn probe_number(&self) -> u32 {
        self.probe_number.load(Ordering::Relaxed)
    }

    pub(in crate::redis) fn set_probe_number(&self, number: u32) {
        self.probe_number.store(number, Ordering::Relaxed);
    }

    /// Learns the server's time.
    pub(in crate::redis) fn learn_time(&self, server: Timestamp) {
        let since = self.since_origin();
        let server = i64::try_from(server.as_micros()).unwrap_or(i64::MAX);
        self.clock.store(server.saturating_sub(since), Ordering::Relaxed);
    }

    /// The server's time as far as is known: as exact as a network is fast.
    pub(in crate::redis) fn server_time(&self) -> Timestamp {
        let time = self.clock.load(Ordering::Relaxed).saturating_add(self.since_origin());
        Timestamp::from_micros(u64::try_from(time).unwrap_or(0))
    }

    fn since_origin(&self) -> i64 {
        i64::try_from(self.origin.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

impl Link {
    /// Sends a command. It is sent when the future is first polled, or soon after.
    #[inline]
    pub(in crate::redis) fn send(&self, command: Cmd) -> Sent {
        let mut connection = self.connection.clone();
        Box::pin(async move { connection.send_packed_command(&command).await })
    }

    /// Sends a command that the server would otherwise send elsewhere. Nothing comes between the two words.
    pub(in crate::redis) fn send_asking(&self, command: Cmd) -> Sent {
        let mut connection = self.connection.clone();
        Box::pin(async move {
            let mut pipeline = Pipeline::with_capacity(2);
            pipeline.cmd("ASKING").add_command(command);
            let mut answers = connection.send_packed_commands(&pipeline, 0, 2).await?;
            Ok(answers.pop().unwrap_or(Value::Nil))
        })
    }
}

impl Script {
    #[inline]
    pub(in crate::redis) fn form(&self) -> Form {
        if self.text_only.load(Ordering::Relaxed) { Form::Text } else { Form::Digest }
    }

    pub(in crate::redis) fn use_text_only(&self) {
        self.text_only.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(in crate::redis) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Acquire)
    }

    pub(in crate::redis) fn loaded(&self) {
        self.loads.fetch_add(1, Ordering::Release);
    }
}

// === impl Drop ===

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Debug ===

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("address", &self.address())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
