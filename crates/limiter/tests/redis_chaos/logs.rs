//! What an operator is told of an outage: something, and not too much.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
    time::Duration,
};

use fairlane_limiter::{RedisStore, redis::Mode};
use fairlane_redis_servers::{ChaosProxy, Fault, Server, ServerOptions};
use tokio::time::Instant;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{
    support::{bucket, fresh, recovered, settings, store, take},
    trial::call,
};

/// Keeps the lines that one thread writes, each with the time when it did.
///
/// It listens for the whole process: where several threads log and only one has somebody who listens, what another
/// logs first may be held to interest nobody.
#[derive(Clone, Debug)]
struct Lines {
    thread: ThreadId,
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
}

#[tokio::test]
async fn an_outage_is_told_once_a_second_and_kind() {
    let lines = Lines { thread: thread::current().id(), lines: Arc::default() };
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    let server = Server::start_with(ServerOptions::new().password("hush-hush")).await;
    let proxy = ChaosProxy::start(server.addr()).await;
    let store = store(&proxy.url().replace("redis://", "redis://:hush-hush@"), Mode::Standalone).await;
    let charge = bucket(fresh(), 1_000_000, 1);
    for fault in
        [Fault::Hold, Fault::garbage(), Fault::Refuse, Fault::script_error("OOM full"), Fault::BlackHole]
    {
        proxy.set(fault);
        call(&store, charge, "a fault that is told").await;
        proxy.pass();
        recovered(&store, "a fault that is told").await;
    }
    let paced = lines.lines.lock().unwrap().len();
    // Whoever speaks something else from the beginning is the first thing that this store has to tell of.
    proxy.set(Fault::garbage());
    let other = RedisStore::new(settings(&proxy.url(), Mode::Standalone)).unwrap();
    take(&other, charge).await.assert_refused("what is no Redis");
    let lines = lines.lines.lock().unwrap();
    let told = |what: &str| lines.iter().filter(|(_, text)| text.contains(what)).count();
    println!("{lines:#?}");
    let address = proxy.addr();
    assert_eq!(lines[0].1, format!("connected to Redis at {address}"));
    assert!(told(&format!("Redis at {address} is unavailable: ")) >= 2, "outages that nobody is told of");
    assert!(
        told(&format!("Redis at {address} answers again")) >= 2,
        "ends of outages that nobody is told of"
    );
    assert!(told("not the protocol of Redis") >= 1, "what is no Redis");
    assert!(
        told("not_logged_before") >= 1 && told("not_logged_before=0") == 0,
        "only where lines are missing"
    );
    let mut last: HashMap<String, Instant> = HashMap::new();
    for (nth, (time, text)) in lines.iter().enumerate() {
        assert!(!text.contains("hush"), "passwords are not told: {text}");
        assert!(!text.contains(char::is_control), "one line each: {text:?}");
        // The kind: how the line begins, without the numbers in it.
        let kind: String = text.chars().filter(char::is_ascii_alphabetic).take(17).collect();
        if let Some(last) = last.insert(kind, *time) {
            let apart = time.saturating_duration_since(last);
            assert!(nth >= paced || apart >= Duration::from_millis(990), "twice in {apart:?}: {text}");
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fairlane")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        if thread::current().id() != self.thread {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        self.lines.lock().unwrap().push((Instant::now(), text.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The message of a line, and then its fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.insert_str(0, &format!("{value:?}"));
        } else {
            self.0.push_str(&format!(" {field}={value:?}"));
        }
    }
}
