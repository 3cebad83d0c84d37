//! One request to one server: sending it, understanding the answer, and what is done if there is none.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::future::poll_fn;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::connection::node::{Link, Node, Sent};
use super::failure::Failure;
use super::keys::Keys;
use super::late::Late;
use super::plan::Lines;
use super::script::{self, Answer, Asked, Form, Request};
use super::servers::Servers;
use super::settle::Settling;
use super::voice::{Kind, Voice};
use crate::Timestamp;

/// Everything that calls share, except the background tasks, which have it, too.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) servers: Servers,
    pub(super) keys: Keys,
    /// How long a call may take.
    pub(super) timeout: Duration,
    /// How long a settlement is tried.
    pub(super) settle_within: Duration,
    pub(super) settling: Settling,
    pub(super) late: Late,
    pub(super) voice: Voice,
    pub(super) runtime: Handle,
    pub(super) numbers: Numbers,
    pub(super) clock: TestClock,
}

/// Numbers that no other settlement has, of any store.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Tells this store from all others.
    instance: u64,
    next: AtomicU64,
}

/// The time that tests give in place of the server's.
#[derive(Debug, Default)]
pub(super) struct TestClock {
    #[cfg(any(test, feature = "test-util"))]
    clock: Option<crate::ManualClock>,
}

impl Core {
    /// Asks a server that is asked at present.
    #[inline]
    pub(super) async fn ask(
        self: &Arc<Self>,
        node: &Arc<Node>,
        lines: Lines<'_>,
        asked: Asked,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        node.ready(deadline).await?;
        let _place = node.enter()?;
        let link = node.link()?;
        self.ask_over(node, &link, lines, asked, deadline, false).await
    }

    /// Asks over a connection, whatever is thought of the server. `asking`: although it sends others elsewhere.
    #[inline]
    pub(super) async fn ask_over(
        self: &Arc<Self>,
        node: &Node,
        link: &Link,
        lines: Lines<'_>,
        asked: Asked,
        deadline: Instant,
        asking: bool,
    ) -> Result<Answer, Failure> {
        let request = Request { lines, asked, nonce: nonce(), now: self.clock.now() };
        let exchange = Exchange { core: self, link, request, deadline, asking };
        let (form, loads) = (node.script.form(), node.script.loads());
        let mut outcome = exchange.run(form).await;
        if let Err(failure) = &outcome
            && form == Form::Digest
        {
            if matches!(failure, Failure::NoScript) {
                outcome = exchange.run_unknown(node, loads).await;
            } else if failure.refuses_command() {
                node.script.use_text_only();
                self.voice.say(
                    Kind::Script,
                    format_args!(
                        "Redis at {} refuses EVALSHA: every decision sends the script",
                        node.address()
                    ),
                );
                outcome = exchange.run(Form::Text).await;
            }
        }
        match &outcome {
            Ok(_) => node.succeeded(),
            Err(failure) => node.failed(link, failure),
        }
        outcome
    }

    /// Sends any command over a connection.
    pub(super) async fn command(
        &self,
        link: &Link,
        command: Cmd,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        answered(timeout_at(deadline, link.send(command)).await.ok())
    }
}

/// A request on its way over a connection.
struct Exchange<'a> {
    core: &'a Arc<Core>,
    link: &'a Link,
    request: Request<'a>,
    deadline: Instant,
    asking: bool,
}

impl Exchange<'_> {
    #[inline]
    async fn run(&self, form: Form) -> Result<Answer, Failure> {
        let command = self.request.command(form, &self.core.keys);
        let sent = if self.asking { self.link.send_asking(command) } else { self.link.send(command) };
        let mut pending = Pending { core: self.core, request: &self.request, sent: Some(sent) };
        let Some(sent) = pending.sent.as_mut() else { return Err(Failure::Timeout) };
        let mut looks = 0_u32;
        let looking = poll_fn(|context| {
            looks = looks.saturating_add(1);
            sent.as_mut().poll(context)
        });
        let Ok(value) = timeout_at(self.deadline, looking).await else { return Err(Failure::Timeout) };
        pending.sent = None;
        let outcome = match value {
            // Whatever is sent has to be waited for: who gets an error at the first look has found the connection's task
            // gone, and with it everybody who could have sent anything.
            Err(error) if looks == 1 && error.is_connection_dropped() => Err(Failure::Unsent(error)),
            value => answered(Some(value)),
        };
        let outcome = outcome.and_then(|value| self.request.decode(value).map_err(Failure::Nonsense));
        if let Err(failure) = &outcome {
            self.count_if_lost(failure);
        }
        outcome
    }

    /// A decision that may have been a grant is never asked for again, and nobody can tell what to give back.
    #[cold]
    fn count_if_lost(&self, failure: &Failure) {
        if self.request.asked == Asked::Take && failure.may_have_happened() {
            self.core.late.lose(self.core);
        }
    }

    /// Makes the script known to a server that did not know it, unless another request has done so since.
    #[cold]
    async fn run_unknown(&self, node: &Node, loads: u64) -> Result<Answer, Failure> {
        let loading =
            timeout_at(self.deadline, node.script.loading.lock()).await.map_err(|_| Failure::Timeout)?;
        if node.script.loads() == loads {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script::TEXT);
            match self.core.command(self.link, load, self.deadline).await {
                Ok(_) => node.script.loaded(),
                // Where this is forbidden, a request that brings the text makes it known, too.
                Err(Failure::Refused(_) | Failure::Failed(_)) => {
                    let outcome = self.run(Form::Text).await;
                    if outcome.is_ok() {
                        node.script.loaded();
                    }
                    return outcome;
                }
                Err(failure) => return Err(failure),
            }
        }
        drop(loading);
        match self.run(Form::Digest).await {
            // Flushed again, or never kept.
            Err(Failure::NoScript) => self.run(Form::Text).await,
            outcome => outcome,
        }
    }
}

/// What became of a request that was waited for.
#[inline]
fn answered(value: Option<redis::RedisResult<Value>>) -> Result<Value, Failure> {
    match value {
        None => Err(Failure::Timeout),
        Some(Err(error)) => Err(Failure::of_connection(error)),
        Some(Ok(Value::ServerError(error))) => Err(Failure::of_server(error)),
        Some(Ok(value)) => Ok(value),
    }
}

/// A request whose answer is awaited. If nobody awaits it any more, a grant has to be given back.
struct Pending<'a> {
    core: &'a Arc<Core>,
    request: &'a Request<'a>,
    sent: Option<Sent>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take()
            && self.request.asked == Asked::Take
        {
            Late::adopt(self.core, sent, self.request);
        }
    }
}

impl Numbers {
    pub(super) fn new() -> Self {
        // The one source of randomness in the standard library.
        Self { instance: RandomState::new().hash_one(0), next: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> u128 {
        u128::from(self.instance) << 64 | u128::from(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// A number that is on its way on no connection. Each thread counts for itself from where nobody else is: one counter for
/// all would be fought over.
#[inline]
fn nonce() -> u64 {
    thread_local! {
        static NEXT: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
    }
    NEXT.with(|next| next.replace(next.get().wrapping_add(1)))
}

impl TestClock {
    #[cfg(any(test, feature = "test-util"))]
    pub(super) const fn new(clock: crate::ManualClock) -> Self {
        Self { clock: Some(clock) }
    }

    #[cfg(any(test, feature = "test-util"))]
    #[inline]
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(crate::Clock::now)
    }

    #[cfg(not(any(test, feature = "test-util")))]
    #[expect(clippy::unused_self, reason = "there is one only in tests")]
    pub(super) const fn now(&self) -> Option<Timestamp> {
        None
    }
}
