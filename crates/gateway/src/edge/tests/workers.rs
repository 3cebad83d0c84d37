//! Connections on threads of their own.

use std::collections::BTreeMap;
use std::thread;

use hyper::service::service_fn;

use super::{Edge, Serves, answer, rest, send, settings, soon, text};
use crate::edge::{EdgeSettings, Workers};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// Answers with the name of the thread it runs on.
fn naming() -> impl Serves {
    service_fn(async |_| Ok(text(200, thread::current().name().unwrap_or_default())))
}

fn on(workers: &Workers) -> EdgeSettings {
    EdgeSettings { workers: workers.clone(), ..settings() }
}

#[tokio::test]
async fn connections_are_spread_evenly_and_stay_where_they_are() {
    let workers = Workers::start(2).unwrap();
    let edge = Edge::start(on(&workers), naming());
    let mut clients = Vec::new();
    let mut names = BTreeMap::<String, usize>::new();
    for _ in 0..6 {
        let mut client = edge.connect().await;
        let mut said = Vec::new();
        for _ in 0..3 {
            send(&mut client, GET).await;
            said.push(soon(answer(&mut client)).await.rsplit("\r\n").next().unwrap_or_default().to_owned());
        }
        said.dedup();
        assert_eq!(said.len(), 1, "one connection, one thread: {said:?}");
        *names.entry(said.remove(0)).or_default() += 1;
        clients.push(client);
    }
    assert_eq!(names, BTreeMap::from([("worker-0".to_owned(), 3), ("worker-1".to_owned(), 3)]));
}

#[tokio::test]
async fn a_drain_waits_for_what_workers_serve() {
    let workers = Workers::start(2).unwrap();
    let edge = Edge::start(on(&workers), naming());
    let mut clients = [edge.connect().await, edge.connect().await];
    for client in &mut clients {
        send(client, GET).await;
        soon(answer(client)).await;
    }
    edge.drain.cancel();
    for client in &mut clients {
        assert_eq!(soon(rest(client)).await, "");
    }
    soon(edge.served).await.unwrap();
    assert_eq!(edge.activity.connections(), 0);
}

#[tokio::test]
async fn connections_close_when_the_edge_is_dropped() {
    let workers = Workers::start(1).unwrap();
    let edge = Edge::start(on(&workers), naming());
    let mut client = edge.connect().await;
    send(&mut client, GET).await;
    soon(answer(&mut client)).await;
    edge.served.abort();
    assert_eq!(soon(rest(&mut client)).await, "");
}
