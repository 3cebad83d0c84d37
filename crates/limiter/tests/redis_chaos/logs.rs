//! What an operator is told of an outage: something, and not too much.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use fairlane_limiter::redis::Mode;
use fairlane_redis_servers::{Fault, Server, ServerOptions, wait::pass};
use tokio::time::Instant;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{
    support::{bucket, fresh, recovered, store},
    trial::{Setup, call},
};

/// Keeps every line, with the time when it was written.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<(Instant, String)>>>);

#[tokio::test]
async fn an_outage_is_told_once_a_second_and_kind() {
    let lines = Lines::default();
    let listening = tracing::subscriber::set_default(lines.clone());
    let server = Server::start_with(ServerOptions::new().password("hush-hush")).await;
    let proxy = fairlane_redis_servers::ChaosProxy::start(server.addr()).await;
    let url = proxy.url().replace("redis://", "redis://:hush-hush@");
    let setup = Setup { store: store(&url, Mode::Standalone).await, server, proxy };
    let charge = bucket(fresh(), 1_000_000, 1);
    // One fault after the other, each more than one way to say something.
    let start = Instant::now();
    for fault in
        [Fault::Hold, Fault::garbage(), Fault::Refuse, Fault::script_error("OOM full"), Fault::BlackHole]
    {
        let before = lines.texts().len();
        setup.proxy.set(fault.clone());
        call(&setup.store, charge, "a fault that is told").await;
        setup.proxy.pass();
        recovered(&setup.store, "a fault that is told").await;
        pass(Duration::from_millis(300)).await;
        let told = &lines.texts()[before..];
        assert!(!told.is_empty() || start.elapsed() < Duration::from_secs(2), "{fault:?}: nothing was told");
    }
    drop(listening);
    let mut last: HashMap<String, Instant> = HashMap::new();
    let texts = lines.texts();
    println!("{texts:#?}");
    assert!(!texts.is_empty(), "an outage that nobody is told of");
    for (time, text) in lines.0.lock().unwrap().iter() {
        assert!(!text.contains("hush"), "passwords are not told: {text}");
        // The kind: what the line says without what differs from one to the next.
        let kind: String = text.chars().filter(|letter| letter.is_ascii_alphabetic()).take(30).collect();
        if let Some(last) = last.insert(kind, *time) {
            let apart = time.saturating_duration_since(last);
            assert!(apart >= Duration::from_millis(990), "twice in {apart:?}: {text}");
        }
    }
}

impl Lines {
    fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
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
        let mut text = Text::default();
        event.record(&mut text);
        self.0.lock().unwrap().push((Instant::now(), text.0));
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
