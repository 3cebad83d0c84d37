//! Watches over one server: connects to it, sees whether it serves, and repairs what is broken.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::dial::{Dialer, SHORT_ATTEMPT};
use super::node::{Link, Node, Repair, State};
use crate::Quota;
use crate::redis::core::Core;
use crate::redis::failure::{Concern, Failure};
use crate::redis::keys::probe_bucket;
use crate::redis::plan::{Line, Lines};
use crate::redis::script::Asked;
use crate::redis::voice::Kind;

/// How often a server that is asked is checked. Often enough that a connection is never idle for a second, after which
/// a server may be told to close it.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The pauses between two attempts to connect, and between two looks at a server that does not serve: the first and
/// the longest. The longest leaves time for the attempt itself within a second.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// How long what is written to see whether a server can be written to is kept, in milliseconds.
const PROBE_LIFE: u64 = 1_000;

/// The task that watches over a server.
pub(in crate::redis) struct Supervisor {
    core: Arc<Core>,
    node: Arc<Node>,
    dialer: Dialer,
    pace: Pace,
    /// The address of the server whose eviction policy has been looked at.
    known: Option<String>,
    /// The address of the server that served last.
    served: Option<String>,
}

/// What became of an attempt to get a server to serve.
enum Outcome {
    Serves,
    /// It is connected, but says that it cannot.
    Unwilling,
    /// It has to be connected to anew.
    Lost,
}

impl Supervisor {
    pub(in crate::redis) fn new(core: Arc<Core>, node: Arc<Node>, dialer: Dialer) -> Self {
        Self { core, node, dialer, pace: Pace::new(), known: None, served: None }
    }

    /// Watches for ever.
    pub(in crate::redis) async fn run(mut self) {
        loop {
            self.pace.next_dial().await;
            let mut outcome = self.dial().await;
            loop {
                outcome = match outcome {
                    Outcome::Serves => self.serve().await,
                    Outcome::Unwilling => self.revive().await,
                    Outcome::Lost => break,
                };
            }
            self.node.disconnect();
            self.dialer.discard();
        }
    }

    async fn dial(&mut self) -> Outcome {
        let found = match self.dialer.dial().await {
            Ok(found) => found,
            Err(error) => {
                self.down(&Failure::of_connection(error));
                return Outcome::Lost;
            }
        };
        let link = self.node.connect(found.connection, found.address.to_string());
        self.probe(&link, self.dialer.dial_time()).await
    }

    /// Waits until something is wrong.
    async fn serve(&mut self) -> Outcome {
        self.pace.reset();
        loop {
            if timeout(CHECK_EVERY, self.node.trouble()).await.is_err() {
                match self.check().await {
                    Outcome::Serves => continue,
                    other => return other,
                }
            }
            match self.node.wanted_repair() {
                None => {}
                Some(Repair::Probe) => {
                    self.say_down();
                    return self.look_again().await;
                }
                Some(Repair::Redial) => {
                    self.say_down();
                    return Outcome::Lost;
                }
            }
        }
    }

    /// Has the pool check the connection, and sees whether the server can be written to.
    async fn check(&mut self) -> Outcome {
        let found = match self.dialer.check_out().await {
            Ok(found) => found,
            Err(error) if error.is_timeout() => return self.doubt(&Failure::Timeout),
            Err(error) => {
                self.down(&Failure::of_connection(error));
                return Outcome::Lost;
            }
        };
        if found.is_new {
            let link = self.node.connect(found.connection, found.address.to_string());
            return self.probe(&link, self.dialer.dial_time()).await;
        }
        let Ok(link) = self.node.link() else { return Outcome::Lost };
        match self.write(&link, Instant::now() + self.dialer.dial_time()).await {
            Ok(()) => Outcome::Serves,
            Err(failure) => self.doubt(&failure),
        }
    }

    /// Counts a failed check like a failed call: alone it proves nothing.
    fn doubt(&self, failure: &Failure) -> Outcome {
        if let Ok(link) = self.node.link() {
            self.node.failed(&link, failure);
        }
        // Whoever opened the breaker has also given notice.
        Outcome::Serves
    }

    /// Looks whether the server serves, until it does or the connection is lost.
    async fn revive(&mut self) -> Outcome {
        let mut pause = FIRST_PAUSE;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            match self.look_again().await {
                Outcome::Unwilling => {}
                other => return other,
            }
        }
    }

    async fn look_again(&mut self) -> Outcome {
        // Whatever was wanted, this is it.
        if self.node.wanted_repair() == Some(Repair::Redial) {
            return Outcome::Lost;
        }
        match self.node.link() {
            // Something was wrong with this connection: a new one is better than a long wait.
            Ok(link) => self.probe(&link, self.dialer.dial_time().min(SHORT_ATTEMPT)).await,
            Err(_) => Outcome::Lost,
        }
    }

    /// Sees whether a decision would be made, and says so.
    async fn probe(&mut self, link: &Link, within: Duration) -> Outcome {
        match self.try_out(link, Instant::now() + within).await {
            Ok(()) => {
                self.say_up();
                self.node.set_up();
                self.look_at_policy(link).await;
                Outcome::Serves
            }
            Err(failure) => {
                self.down(&failure);
                if matches!(failure, Failure::Timeout) || failure.concern() == Concern::Redial {
                    Outcome::Lost
                } else {
                    Outcome::Unwilling
                }
            }
        }
    }

    async fn try_out(&self, link: &Link, deadline: Instant) -> Result<(), Failure> {
        // Who may not ask for the role learns it from the first write.
        if let Ok(Value::Array(role)) = self.core.command(link, redis::cmd("ROLE"), deadline).await
            && role.first().is_some_and(|role| *role != Value::BulkString(b"master".to_vec()))
        {
            return Err(Failure::Broken(io::Error::other("the server is not a master").into()));
        }
        let line = Line { key: probe_bucket(self.node.probe_number()), quota: Quota::LEAST, amount: 0 };
        match self.core.ask_over(&self.node, link, Lines::Lines(&[line]), Asked::Peek, deadline, false).await
        {
            Ok(answer) => self.node.learn_time(answer.seen.now),
            // A slot that has moved says nothing about the server.
            Err(Failure::Elsewhere(_)) => {}
            Err(failure) => return Err(failure),
        }
        self.write(link, deadline).await
    }

    async fn write(&self, link: &Link, deadline: Instant) -> Result<(), Failure> {
        let mut write = redis::cmd("SET");
        let key = self.core.keys.probe(self.node.probe_number());
        write.arg(key.as_slice()).arg(1).arg("PX").arg(PROBE_LIFE);
        match self.core.command(link, write, deadline).await {
            Ok(_) | Err(Failure::Elsewhere(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Warns of a server that throws away buckets, once for each.
    async fn look_at_policy(&mut self, link: &Link) {
        let address = self.node.address();
        if self.known.as_ref() == Some(&address) {
            return;
        }
        let deadline = Instant::now() + self.dialer.dial_time();
        let Ok(found) = self.core.inspect_link(link, address.clone(), deadline).await else { return };
        if let (true, Some(policy)) = (found.may_evict(), &found.max_memory_policy) {
            self.core.voice.say(
                Kind::Evicting,
                format_args!(
                    "Redis at {address} has maxmemory-policy {policy}: when its memory is full it throws away buckets, \
                     which resets their limits. Use noeviction."
                ),
            );
        }
        self.known = Some(address);
    }

    /// Called before the server is asked again, so that it can be told whether it was.
    fn say_up(&mut self) {
        let address = self.node.address();
        let is_back = self.node.state() == State::Down && self.served.as_ref() == Some(&address);
        if is_back {
            self.core.voice.say(Kind::Up, format_args!("Redis at {address} answers again"));
        } else {
            self.core.voice.say(Kind::Up, format_args!("connected to Redis at {address}"));
        }
        self.served = Some(address);
    }

    fn down(&self, failure: &Failure) {
        self.node.set_down(failure.to_redis());
        self.say_down();
    }

    fn say_down(&self) {
        let (address, error) = (self.node.address(), self.node.last_error());
        match error {
            Some(error) => {
                self.core.voice.say(Kind::Down, format_args!("Redis at {address} is unavailable: {error}"));
            }
            None => self.core.voice.say(Kind::Down, format_args!("Redis at {address} is unavailable")),
        }
    }
}

/// Keeps attempts to connect apart.
struct Pace {
    last: Option<Instant>,
    pause: Duration,
}

impl Pace {
    const fn new() -> Self {
        Self { last: None, pause: FIRST_PAUSE }
    }

    /// Waits until a connection may be made. After a time of peace, that is at once.
    async fn next_dial(&mut self) {
        if let Some(last) = self.last {
            sleep_until(last + self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        self.last = Some(Instant::now());
    }

    fn reset(&mut self) {
        self.pause = FIRST_PAUSE;
    }
}
