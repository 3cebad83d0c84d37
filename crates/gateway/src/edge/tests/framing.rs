//! What hyper lets through and a proxy must not.

use std::time::Duration;

use http::Request;
use tokio::io::AsyncWriteExt;

use super::{pipe, rest, statuses, vetted};
use crate::edge::{Malformed, vet};

/// What the server says to bytes after which the client sends no more.
async fn said_to(bytes: &str) -> String {
    let (mut client, _, _) = pipe(vetted());
    client.write_all(bytes.as_bytes()).await.unwrap();
    let (mut read, mut write) = tokio::io::split(client);
    // Every test request but the last is answered before the end is seen: the answers are read first.
    let said = tokio::join!(async { rest(&mut read).await }, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        write.shutdown().await.unwrap();
    });
    said.0
}

#[track_caller]
fn check(name: &str, said: &str, expected: &[u16]) {
    assert_eq!(statuses(said), expected, "{name}: {said}");
}

#[tokio::test(start_paused = true)]
async fn probes() {
    let cases: &[(&str, &str, &[u16])] = &[
        // === well formed ===
        ("plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
        ("port", "GET / HTTP/1.1\r\nHost: a:8080\r\n\r\n", &[200]),
        ("ipv6", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", &[200]),
        ("length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", &[200]),
        (
            "same length twice",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            &[200],
        ),
        (
            "chunked",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            &[200],
        ),
        ("CHUNKED", "POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n", &[200]),
        ("absolute form", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
        ("absolute form, default port", "GET http://A:80/ HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
        ("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", &[200]),
        (
            "upgrade to h2c is not followed",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
            &[200],
        ),
        ("bare LF", "GET / HTTP/1.1\nHost: a\n\n", &[200]),
        ("empty lines first", "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
        ("pipelined", "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", &[200, 200]),
        // === hosts ===
        ("no Host", "GET / HTTP/1.1\r\n\r\n", &[400]),
        ("no Host, absolute form", "GET http://a/ HTTP/1.1\r\n\r\n", &[400]),
        ("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", &[400]),
        ("the same Host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", &[400]),
        ("two Hosts, HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", &[400]),
        ("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", &[400]),
        ("user information", "GET / HTTP/1.1\r\nHost: b@a\r\n\r\n", &[400]),
        ("path in Host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", &[400]),
        ("list of hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", &[400]),
        ("letters for a port", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", &[400]),
        ("absolute form, other Host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        ("absolute form, other port", "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        ("absolute form, user information", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        // === methods ===
        ("CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", &[400]),
        // === lengths ===
        (
            "length, encoding",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "encoding, length",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "encoding, garbage length",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "the second of two has both, and nothing comes after",
            "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST /2 HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
            &[200, 400],
        ),
        (
            "the second of two has both, behind a chunked body that looks like a head",
            "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n32;x=\"y\"\r\nGET / HTTP/1.1\r\nContent-Length: 1\r\nX: abcdefgh\r\n\r\n\r\n0\r\nContent-Length: 7\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            &[200, 400],
        ),
        (
            "gzip, chunked",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "gzip and chunked in two lines",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        // === refused by hyper, and to stay so ===
        ("unknown encoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", &[400]),
        ("encoding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", &[400]),
        (
            "space before the colon",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
            &[400],
        ),
        (
            "differing lengths",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            &[400],
        ),
        ("list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc", &[400]),
        ("signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", &[400]),
        (
            "huge length",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
            &[400],
        ),
        ("folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", &[400]),
        ("bare CR", "GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", &[400]),
        ("NUL", "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", &[400]),
        ("version 2.0 in a head", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", &[400]),
    ];
    for (name, bytes, expected) in cases {
        check(name, &said_to(bytes).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_over_the_bound_is_431() {
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(65_536));
    check("long value", &said_to(&bytes).await, &[431]);
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(200));
    check("many fields", &said_to(&bytes).await, &[431]);
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(65_000));
    check("within", &said_to(&bytes).await, &[200]);
}

#[test]
fn reasons_are_sentences() {
    assert_eq!(Malformed::SeveralHosts.to_string(), "the request has more than one Host header");
    let request = Request::builder().uri("/").version(http::Version::HTTP_2).body(()).unwrap();
    assert_eq!(vet(&request), Err(Malformed::MissingHost));
    let request = Request::builder().uri("http://a/").version(http::Version::HTTP_2).body(()).unwrap();
    assert_eq!(vet(&request), Ok(()));
    let request = Request::builder().uri("http://a/").body(()).unwrap();
    assert_eq!(vet(&request), Err(Malformed::MissingHost));
    let request = Request::builder().uri("http://a/").header("host", "b").body(()).unwrap();
    assert_eq!(vet(&request), Err(Malformed::HostMismatch));
}
