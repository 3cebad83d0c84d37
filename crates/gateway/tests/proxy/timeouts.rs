//! Timeouts by class. Time stands still, and passes only when all wait; the embedded backend needs no socket.

use std::time::Duration;

use fairlane_gateway::echo::EchoSettings;
use fairlane_gateway::proxy::{Backend, ForwardError, Outbound, StreamingTimeouts, Target, Timeouts};
use http_body_util::BodyExt;
use tokio::time::{Instant, advance};

use crate::backend::{STREAM, Server, backend, post, proxy, proxy_within, soon, streamed, text};

const PLAIN: &str = r#"{"model":"m","messages":[{"role":"user","content":"ping pong"}]}"#;
const STREAMED: &str = r#"{"model":"m","messages":[{"role":"user","content":"ping pong"}],"stream":true}"#;

fn echo(latency: u64, chunk_interval: u64) -> Backend {
    let (latency, chunk_interval) = (Duration::from_secs(latency), Duration::from_secs(chunk_interval));
    Backend {
        target: Target::Echo(EchoSettings { latency, chunk_interval }),
        ..backend("echo", "http://unused")
    }
}

fn timeouts() -> Timeouts {
    let seconds = Duration::from_secs;
    Timeouts {
        connect: seconds(5),
        standard_total: seconds(180),
        streaming: StreamingTimeouts { first_byte: seconds(60), idle: seconds(30), total: seconds(600) },
    }
}

/// What became of a request, and after how many seconds.
async fn outcome(
    backend: Backend,
    outbound: Outbound<'_>,
) -> (Result<Result<String, ()>, ForwardError>, u64) {
    let start = Instant::now();
    let proxy = proxy_within([backend], timeouts());
    let answer = match proxy.forward(outbound).await {
        Ok(forwarded) => {
            let body = forwarded.response.into_body().collect().await;
            Ok(body.map(|body| String::from_utf8(body.to_bytes().to_vec()).unwrap()).map_err(drop))
        }
        Err(error) => Err(error),
    };
    (answer, start.elapsed().as_secs())
}

fn assert_timeout(outcome: (Result<Result<String, ()>, ForwardError>, u64), seconds: u64) {
    assert!(matches!(outcome.0, Err(ForwardError::Timeout { .. })), "{outcome:?}");
    assert_eq!(outcome.1, seconds);
}

#[tokio::test(start_paused = true)]
async fn a_plain_answer_has_its_total() {
    let (answer, seconds) = outcome(echo(179, 0), post(PLAIN)).await;
    assert!(answer.unwrap().unwrap().contains("ping pong"));
    assert_eq!(seconds, 179);
    assert_timeout(outcome(echo(181, 0), post(PLAIN)).await, 180);
}

#[tokio::test(start_paused = true)]
async fn time_spent_held_counts() {
    let outbound = post(PLAIN);
    advance(Duration::from_secs(100)).await;
    assert_timeout(outcome(echo(81, 0), outbound).await, 80);

    let outbound = post(PLAIN);
    advance(Duration::from_secs(180)).await;
    let (answer, seconds) = outcome(echo(0, 0), outbound).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, ForwardError::Timeout { backend: None, .. }) && !error.reached_backend());
    assert_eq!(seconds, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_its_first_byte() {
    assert_timeout(outcome(echo(61, 1), Outbound { stream: true, ..post(STREAMED) }).await, 60);
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_last_longer_than_its_first_byte_and_its_idle_time() {
    let (answer, _) = outcome(echo(59, 29), Outbound { stream: true, ..post(STREAMED) }).await;
    assert!(answer.unwrap().unwrap().ends_with("data: [DONE]\n\n"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_idles_ends_with_an_error() {
    let (answer, seconds) = outcome(echo(10, 31), Outbound { stream: true, ..post(STREAMED) }).await;
    let text = answer.unwrap().unwrap();
    assert!(text.contains("backend_timeout") && !text.contains("[DONE]"), "{text}");
    assert_eq!(seconds, 40);
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_its_total() {
    let long = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}],"stream":true}}"#,
        "four".repeat(40)
    );
    let outbound = Outbound { stream: true, body: bytes::Bytes::from(long).into(), ..post("") };
    let (answer, seconds) = outcome(echo(0, 29), outbound).await;
    let text = answer.unwrap().unwrap();
    assert!(text.contains("backend_timeout") && !text.contains("[DONE]"), "{text}");
    assert_eq!(seconds, 600);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_turns_out_to_be_a_stream_is_timed_as_one() {
    // The request did not say so; the answer takes longer than a plain one may.
    let (answer, seconds) = outcome(echo(170, 20), post(STREAMED)).await;
    assert!(answer.unwrap().unwrap().ends_with("data: [DONE]\n\n"));
    assert!(seconds > 180, "{seconds}");
    let (answer, seconds) = outcome(echo(170, 31), post(STREAMED)).await;
    assert!(answer.unwrap().unwrap().contains("backend_timeout"));
    assert_eq!(seconds, 200);
}

/// Real sockets need real time; these waits are those of the proxy itself.
fn at_once() -> Timeouts {
    let short = Duration::from_millis(50);
    Timeouts {
        connect: short,
        standard_total: short,
        streaming: StreamingTimeouts { first_byte: short, idle: short, total: Duration::from_secs(600) },
    }
}

#[tokio::test]
async fn a_silent_backend_times_out_and_is_hung_up_on() {
    let server = Server::start().await;
    let proxy = proxy_within([server.backend("a")], at_once());
    let (answer, (connection, _)) =
        soon(async { tokio::join!(proxy.forward(post("{}")), server.request()) }).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, ForwardError::Timeout { reached: true, .. }), "{error:?}");
    soon(connection.closed()).await;
}

#[tokio::test]
async fn a_stream_without_a_first_byte_times_out_whatever_its_status_said() {
    let server = Server::start().await;
    let proxy = proxy_within([server.backend("a")], at_once());
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write(STREAM).await;
        connection
    };
    let (answer, connection) = soon(async { tokio::join!(proxy.forward(streamed()), serve) }).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, ForwardError::Timeout { reached: true, .. }), "{error:?}");
    soon(connection.closed()).await;
}

#[tokio::test]
async fn a_stalled_stream_ends_and_its_backend_is_hung_up_on() {
    let server = Server::start().await;
    let timeouts = Timeouts { standard_total: Duration::from_secs(600), ..at_once() };
    let timeouts = Timeouts {
        streaming: StreamingTimeouts { first_byte: Duration::from_secs(600), ..timeouts.streaming },
        ..timeouts
    };
    let proxy = proxy_within([server.backend("a")], timeouts);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write(STREAM).await;
        connection.chunk("data: 1\n\n").await;
        connection
    };
    let (forwarded, connection) = soon(async { tokio::join!(proxy.forward(streamed()), serve) }).await;
    let mut body = forwarded.unwrap().response.into_body();
    let mut text = String::new();
    while let Some(frame) = soon(body.frame()).await {
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    assert!(text.contains("backend_timeout"), "{text}");
    // The body is still there: the connection was closed by the timeout, not by a drop.
    soon(connection.closed()).await;
    drop(body);
}

#[tokio::test]
async fn a_connection_that_takes_too_long_counts_as_not_made() {
    let server = Server::start().await;
    let second = Server::start().await;
    let stuck = backend("stuck", &format!("https://{}", server.address));
    let timeouts = Timeouts { connect: Duration::from_millis(50), ..timeouts() };
    let proxy = proxy_within([stuck, second.backend("second")], timeouts);
    let accept = async {
        // Takes the connection and never answers the TLS greeting.
        let stuck = server.accept().await;
        stuck.closed().await;
    };
    let serve = async {
        let (mut connection, _) = second.request().await;
        connection.write(crate::backend::plain("second")).await;
    };
    let (forwarded, (), ()) = soon(async { tokio::join!(proxy.forward(post("{}")), accept, serve) }).await;
    assert_eq!(text(forwarded.unwrap()).await, "second");
}

#[tokio::test]
async fn default_timeouts_are_those_documented() {
    assert_eq!(Timeouts::default(), timeouts());
    drop(proxy([]));
}
