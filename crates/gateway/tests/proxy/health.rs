//! Backends that rest, and backends that are watched.

use std::time::Duration;

use fairlane_gateway::proxy::{Backend, ForwardError, HealthSettings, Proxy};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::backend::{Server, answered_by, dead, plain, post, proxy, soon};

fn recorder() -> (PrometheusRecorder, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

fn assert_metric(handle: &PrometheusHandle, line: &str) {
    let text = handle.render();
    assert!(text.lines().any(|there| there == line), "{line} is not in\n{text}");
}

async fn assert_no_healthy(proxy: &Proxy) {
    let answer = proxy.forward(post("{}")).await;
    assert!(matches!(answer, Err(ForwardError::NoHealthyBackend)), "{answer:?}");
}

#[tokio::test]
async fn three_failed_connections_rest_a_backend_and_are_told() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let proxy = proxy([dead("a").await]);
    assert_metric(&handle, "backend_up{backend=\"a\"} 1");
    for _ in 0..3 {
        let error = proxy.forward(post("{}")).await.unwrap_err();
        assert!(matches!(error, ForwardError::Unavailable { .. }), "{error:?}");
    }
    assert_no_healthy(&proxy).await;
    assert_metric(&handle, "backend_up{backend=\"a\"} 0");
    assert_metric(&handle, "backend_requests_total{backend=\"a\",status=\"unavailable\"} 3");
}

#[tokio::test]
async fn answers_are_counted_by_status() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    soon(answered_by(&proxy, &server)).await.unwrap();
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write("HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n").await;
    };
    soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await.0.unwrap();
    assert_metric(&handle, "backend_requests_total{backend=\"a\",status=\"200\"} 1");
    assert_metric(&handle, "backend_requests_total{backend=\"a\",status=\"other\"} 1");
}

#[tokio::test]
async fn a_watched_backend_goes_down_and_comes_up() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = Server::start().await;
    let path = Some("/healthz".parse().unwrap());
    let health = HealthSettings { path, interval: Duration::from_millis(500), failures: 2 };
    let proxy = proxy([Backend { health, ..server.backend("a") }]);
    let watch = proxy.watch_health();
    for _ in 0..2 {
        let (mut connection, seen) = soon(server.request()).await;
        assert_eq!(seen.line, "GET /healthz HTTP/1.1");
        connection.write("HTTP/1.1 500 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
    }
    // The third question is asked only when the second answer is known.
    let (mut connection, _) = soon(server.request()).await;
    assert_no_healthy(&proxy).await;
    assert_metric(&handle, "backend_up{backend=\"a\"} 0");
    connection.write("HTTP/1.1 204 Fine\r\nconnection: close\r\n\r\n").await;

    let (mut connection, _) = soon(server.request()).await;
    assert_metric(&handle, "backend_up{backend=\"a\"} 1");
    connection.write(plain("fine")).await;
    drop(watch);
    drop(connection);
    assert!(soon(answered_by(&proxy, &server)).await.is_ok());
}
