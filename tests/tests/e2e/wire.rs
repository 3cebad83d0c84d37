//! The limits on connections: how long one may be silent, how large a head may be, how many there may be.

use std::time::Duration;

use fairlane_tests::{
    Backend, Call, Config, Gateway,
    wait::{pass, within},
};
use http::Method;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

async fn gateway(entries: &[&str]) -> (Backend, Gateway) {
    let backend = Backend::start().await;
    let config =
        entries.iter().fold(Config::with(&backend).permissive(), |config, entry| config.server(entry));
    let gateway = Gateway::start(&config).await;
    (backend, gateway)
}

/// Closes what sends these bytes and no more, after about 300 ms; tells what it was answered.
async fn closed_after_sending(timeouts: &str, bytes: &str) -> String {
    let (_backend, gateway) = gateway(&[&format!("timeouts: {{ {timeouts} }}")]).await;
    let start = Instant::now();
    let mut raw = gateway.client().raw().await;
    raw.send(bytes).await;
    let answer = raw.rest().await;
    let elapsed = start.elapsed();
    assert!(
        (Duration::from_millis(295)..Duration::from_secs(5)).contains(&elapsed),
        "{bytes:?}: {elapsed:?}"
    );
    answer
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    assert_eq!(closed_after_sending("first_byte: 300ms", "").await, "");
}

#[tokio::test]
async fn a_head_that_does_not_end_is_closed() {
    let heads = ["G", "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"];
    for head in heads {
        let answer = closed_after_sending("header: 300ms", head).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_drips_for_longer_than_any_request_may_take_is_408() {
    let backend = Backend::start().await;
    let times = "standard: { total: 400ms }, streaming: { first_byte: 400ms, idle: 400ms, total: 400ms }";
    let config =
        Config::with(&backend).permissive().section(&format!("timeouts: {{ request: {{ {times} }} }}"));
    let gateway = Gateway::start(&config).await;
    let start = Instant::now();
    let (mut read, mut write) = TcpStream::connect(gateway.listen()).await.unwrap().into_split();
    let dripping = tokio::spawn(async move {
        let head =
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{\"model\":\"";
        let mut more = write.write_all(head.as_bytes()).await;
        while more.is_ok() {
            pass(Duration::from_millis(20)).await;
            more = write.write_all(b"m").await;
        }
    });
    let mut answer = vec![0; 12];
    within("an answer", read.read_exact(&mut answer)).await.unwrap();
    dripping.abort();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 408");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn a_connection_that_is_done_is_closed() {
    let request = "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = closed_after_sending("keep_alive: 300ms", request).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let (backend, gateway) = gateway(&[]).await;
    let mut wire = gateway.client().connect(None).await;
    for n in 1..=5 {
        assert_eq!(wire.call(Call::chat("m")).await.status, 200);
        assert_eq!(wire.call(Call::get("/nowhere")).await.status, 404);
        assert_eq!(backend.count(), n);
    }
    assert_eq!(backend.connections(), 1, "connections to a backend are used again");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let (backend, gateway) = gateway(&["max_header_bytes: 8192"]).await;
    let fits = Call::chat("m").set("x-large", &"x".repeat(7_000));
    assert_eq!(gateway.call(fits).await.status, 200);
    let answer = gateway.call(Call::chat("m").set("x-large", &"x".repeat(9_000))).await;
    assert_eq!(answer.status, 431, "{}", answer.printed());
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn one_client_has_so_many_connections_and_no_more() {
    let (_backend, gateway) = gateway(&["max_connections_per_client: 2"]).await;
    let mut first = gateway.client().connect(None).await;
    let mut second = gateway.client().connect(None).await;
    for wire in [&mut first, &mut second] {
        assert_eq!(wire.call(Call::chat("m")).await.status, 200);
    }
    let mut third = gateway.client().raw().await;
    assert_eq!(third.rest().await, "", "closed, and not answered");
    let another = Some([127, 0, 0, 2].into());
    let mut another = gateway.client().connect(another).await;
    assert_eq!(another.call(Call::chat("m")).await.status, 200);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.value("http_connections", &[]), Some(3.0));
    assert_eq!(metrics.value("http_connections_refused_total", &[]), Some(1.0));
    drop(first);
    // Its end is noticed when it is; until then a newcomer may still be turned away.
    fairlane_tests::wait::until("a place for a connection", async || {
        let mut fourth = gateway.client().connect(None).await;
        fourth.try_call(Call::chat("m")).await.filter(|answer| answer.status == 200).map(drop)
    })
    .await;
}

#[tokio::test]
async fn beyond_the_connections_there_may_be_in_all_others_wait_their_turn() {
    let (_backend, gateway) = gateway(&["max_connections: 1"]).await;
    let mut first = gateway.client().connect(None).await;
    assert_eq!(first.call(Call::chat("m")).await.status, 200);
    let second = gateway.begin(Call::chat("m"));
    assert_eq!(first.call(Call::chat("m")).await.status, 200);
    assert!(!second.is_answered());
    drop(first);
    assert_eq!(second.answer().await.status, 200);
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_over_http2_either() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let answer = gateway.client().call_http2(Call::new(Method::HEAD, "/v1/models")).await;
    assert_eq!(answer.status, 405);
    assert!(answer.complete && answer.body.is_empty(), "{}", answer.printed());
}
