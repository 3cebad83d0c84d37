//! What crosses the proxy, and what does not.

use bytes::Bytes;
use fairlane_gateway::proxy::{Auth, Backend, Credential, ForwardError, Outbound};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};

use crate::backend::{Server, backend, dead, plain, post, proxy, soon, text};

#[tokio::test]
async fn a_request_arrives_as_it_was_sent() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let body = "{\"b\": 1,\r\n \"a\":\t\"\u{e4}\"} ";
    let mut outbound = Outbound {
        path_and_query: "/v1/chat/completions?x=%20y&z".parse().unwrap(),
        request_id: Some(HeaderValue::from_static("id-1")),
        peer: Some("192.0.2.9".parse().unwrap()),
        ..post(body)
    };
    for (name, value) in [
        ("host", "gateway.example"),
        ("authorization", "Bearer canary"),
        ("x-api-key", "canary"),
        ("content-type", "application/json"),
        ("traceparent", "00-1-2-01"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
    ] {
        outbound.headers.append(name, HeaderValue::from_static(value));
    }
    let serve = async {
        let (mut connection, seen) = server.request().await;
        connection.write(plain("done")).await;
        seen
    };
    let (forwarded, seen) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;

    let forwarded = forwarded.unwrap();
    assert_eq!((forwarded.response.status(), &*forwarded.backend), (StatusCode::OK, "a"));
    assert_eq!(text(forwarded).await, "done");
    assert_eq!(seen.line, "POST /v1/chat/completions?x=%20y&z HTTP/1.1");
    assert_eq!(seen.body, body.as_bytes());
    let expected: HeaderMap = [
        ("host", server.address.to_string()),
        ("content-type", "application/json".into()),
        ("content-length", body.len().to_string()),
        ("traceparent", "00-1-2-01".into()),
        ("x-request-id", "id-1".into()),
        ("x-forwarded-for", "192.0.2.9".into()),
        ("x-forwarded-host", "gateway.example".into()),
    ]
    .into_iter()
    .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
    .collect();
    assert_eq!(seen.headers, expected);
}

#[tokio::test]
async fn a_body_in_pieces_arrives_as_one_whatever_was_tried_before() {
    let server = Server::start().await;
    let nobody = Backend { weight: u32::MAX, ..dead("nobody").await };
    let proxy = proxy([nobody, server.backend("a")]);
    for pieces in [["{\"a\": 1", ", \"b\": 2", "}"], ["", "{}", ""], ["{", "", "}"]] {
        let body = pieces.map(|piece| Bytes::from_static(piece.as_bytes())).into();
        let outbound = Outbound { body, ..post("") };
        let serve = async {
            let (mut connection, seen) = server.request().await;
            connection.write(plain("done")).await;
            seen
        };
        let (forwarded, seen) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;
        assert_eq!(text(forwarded.unwrap()).await, "done");
        assert_eq!(seen.body, pieces.concat().as_bytes());
        assert_eq!(seen.headers["content-length"], pieces.concat().len().to_string());
        assert!(!seen.headers.contains_key("transfer-encoding"));
    }
}

#[tokio::test]
async fn what_http2_says_in_its_own_way_arrives_in_that_of_http1() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let mut outbound = Outbound { authority: Some("gateway.example:8443".parse().unwrap()), ..post("{}") };
    for cookie in ["a=1", "b=2", "c=3"] {
        outbound.headers.append("cookie", HeaderValue::from_static(cookie));
    }
    let serve = async {
        let (mut connection, seen) = server.request().await;
        connection.write(plain("")).await;
        seen
    };
    let (_, seen) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;
    let cookies: Vec<_> = seen.headers.get_all("cookie").iter().collect();
    assert_eq!(cookies, ["a=1; b=2; c=3"]);
    assert_eq!(seen.headers["x-forwarded-host"], "gateway.example:8443");
    assert_eq!(seen.headers["host"], server.address.to_string());
}

async fn check_credential(auth: Auth, header: &str, value: &str) {
    let server = Server::start().await;
    let credential = Some(Credential::new(auth, "backend-key").unwrap());
    let proxy = proxy([Backend { credential, ..server.backend("a") }]);
    let mut outbound = post("{}");
    for name in ["authorization", "x-api-key"] {
        outbound.headers.insert(name, HeaderValue::from_static("canary"));
    }
    let serve = async {
        let (mut connection, seen) = server.request().await;
        connection.write(plain("")).await;
        seen
    };
    let (forwarded, seen) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;
    forwarded.unwrap();
    assert_eq!(seen.headers[header], value);
    assert!(!format!("{:?}", seen.headers).contains("canary"));
}

#[tokio::test]
async fn a_backend_sees_its_own_credential_in_its_own_form() {
    check_credential(Auth::Bearer, "authorization", "Bearer backend-key").await;
    check_credential(Auth::XApiKey, "x-api-key", "backend-key").await;
}

#[tokio::test]
async fn the_base_path_is_joined() {
    let server = Server::start().await;
    let proxy = proxy([backend("a", &format!("http://{}/openai/", server.address))]);
    let serve = async {
        let (mut connection, seen) = server.request().await;
        connection.write(plain("")).await;
        seen
    };
    let (_, seen) = soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await;
    assert_eq!(seen.line, "POST /openai/v1/chat/completions HTTP/1.1");
}

#[tokio::test]
async fn a_backends_own_429_is_passed_on() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let body = r#"{"error":{"message":"slow down"}}"#;
    let serve = async {
        let (mut connection, _) = server.request().await;
        let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nretry-after-ms: 6500\r\n\
                    x-ratelimit-remaining-requests: 0\r\nx-request-id: theirs\r\nkeep-alive: timeout=5\r\n";
        connection.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    };
    let (forwarded, ()) = soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await;
    let forwarded = forwarded.unwrap();
    assert_eq!(forwarded.response.status(), StatusCode::TOO_MANY_REQUESTS);
    let headers = forwarded.response.headers();
    assert_eq!(headers["retry-after"], "7");
    assert_eq!(headers["retry-after-ms"], "6500");
    assert_eq!(headers["x-backend-ratelimit-remaining-requests"], "0");
    assert_eq!(headers["x-backend-request-id"], "theirs");
    for name in ["x-ratelimit-remaining-requests", "x-request-id", "keep-alive"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert_eq!(text(forwarded).await, body);
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let mut connection = server.accept().await;
        for answer in ["one", "two", "three"] {
            connection.read().await;
            connection.write(plain(answer)).await;
        }
    };
    let ask = async {
        for answer in ["one", "two", "three"] {
            assert_eq!(text(proxy.forward(post("{}")).await.unwrap()).await, answer);
        }
    };
    soon(async { tokio::join!(serve, ask) }).await;
}

#[tokio::test]
async fn an_old_backend_does_not_age_the_answer() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let serve = async {
        let (mut connection, _) = server.request().await;
        connection.write("HTTP/1.0 200 OK\r\n\r\nuntil the end").await;
    };
    let (forwarded, ()) = soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await;
    let forwarded = forwarded.unwrap();
    assert_eq!(forwarded.response.version(), Version::HTTP_11);
    assert_eq!(text(forwarded).await, "until the end");
}

#[tokio::test]
async fn a_request_without_a_body_has_none() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    let outbound = Outbound {
        method: Method::GET,
        path_and_query: "/v1/files".parse().unwrap(),
        model: None,
        ..post("")
    };
    let serve = async {
        let (mut connection, seen) = server.request().await;
        connection.write(plain("")).await;
        seen
    };
    let (_, seen) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;
    assert_eq!(seen.line, "GET /v1/files HTTP/1.1");
    assert!(!seen.headers.contains_key("content-length") && !seen.headers.contains_key("transfer-encoding"));
}

async fn check_broken(answer: &'static str) {
    let (first, second) = (Server::start().await, Server::start().await);
    let proxy = proxy([first.backend("first"), second.backend("second")]);
    let serve = async {
        let (mut connection, _) = first.request().await;
        connection.write(answer).await;
    };
    let (error, ()) = soon(async { tokio::join!(proxy.forward(post("{}")), serve) }).await;
    let error = error.unwrap_err();
    assert!(error.reached_backend(), "{answer:?}");
    let ForwardError::Unavailable { backend, .. } = error else { panic!("{error:?}") };
    // The request is not tried on the second: the first may have executed it.
    assert_eq!(&*backend, "first");
}

#[tokio::test]
async fn a_backend_that_gives_no_proper_answer_is_unavailable_and_the_request_not_sent_again() {
    check_broken("").await;
    check_broken("HTTP/1.1 200 OK\r\ncontent-").await;
    check_broken("SSH-2.0-OpenSSH_9.2\r\n").await;
    check_broken("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n").await;
}
