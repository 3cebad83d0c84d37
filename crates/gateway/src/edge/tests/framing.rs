//! What hyper lets through and a proxy must not, and the follower against hyper itself.

use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use super::{pipe, rest, statuses, text, vetted};
use crate::edge::framing::Framing;
use crate::edge::{Malformed, read_body, vet};

/// What the server says to bytes after which the client sends no more.
async fn said_to(bytes: &str) -> String {
    let (mut client, _, _) = pipe(vetted());
    client.write_all(bytes.as_bytes()).await.unwrap();
    let (mut read, mut write) = tokio::io::split(client);
    // Every test request but the last is answered before the end is seen: the answers are read first.
    let said = tokio::join!(async { rest(&mut read).await }, async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
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

// === the follower against hyper ===

/// A message that may be well formed; its path says which fields it has.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
}

fn line_end() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("\r\n"), 1 => Just("\n")]
}

fn body() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z\r\n]{0,40}",
        Just("GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()),
        Just("\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()),
        Just("0\r\n\r\n".to_owned()),
    ]
}

fn chunks() -> impl Strategy<Value = String> {
    let extension = prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\t;a"), 1 => Just(";a=\"b\""), 1 => Just(";a\n")];
    let chunk = (body(), extension, any::<bool>()).prop_map(|(body, extension, upper)| {
        if body.is_empty() {
            return String::new();
        }
        let size = if upper { format!("{:04X}", body.len()) } else { format!("{:x}", body.len()) };
        format!("{size}{extension}\r\n{body}\r\n")
    });
    let trailer = prop_oneof![4 => Just(""), 1 => Just("x: y\r\n"), 1 => Just("content-length: 5\r\n"), 1 => Just("x: y\n\r\n"), 1 => Just("\n\r\n")];
    (prop::collection::vec(chunk, 0..4), trailer)
        .prop_map(|(chunks, trailer)| format!("{}0\r\n{trailer}\r\n", chunks.concat()))
}

fn message() -> impl Strategy<Value = Message> {
    let length_name = prop_oneof![Just("content-length"), Just("Content-Length"), Just("CONTENT-LENGTH")];
    let encoding_name = prop_oneof![Just("transfer-encoding"), Just("Transfer-Encoding")];
    let other = prop_oneof![
        Just("x: y"),
        Just("cookie: a"),
        Just("te: trailers"),
        Just("content-lengthy: 7"),
        Just("content-len: 7"),
        Just("transfer-encodin: chunked"),
        Just("t:"),
        Just("c:"),
        Just("x:content-length: 9"),
        Just("expect: 100-continue"),
    ];
    let ws = prop_oneof![3 => Just(" "), 1 => Just(""), 1 => Just("\t ")];
    let framing =
        prop_oneof![3 => Just(0), 4 => Just(1), 4 => Just(2), 1 => Just(3), 1 => Just(4), 1 => Just(5)];
    (
        (framing, length_name, encoding_name, ws),
        prop::collection::vec(other, 0..4),
        (body(), chunks()),
        (line_end(), line_end(), prop_oneof![6 => Just(""), 1 => Just("\r\n"), 1 => Just("\n")]),
    )
        .prop_map(
            |((framing, length_name, encoding_name, ws), others, (body, chunks), (end, last, before))| {
                let length = format!("{length_name}:{ws}{}{ws}{end}", body.len());
                let encoding = format!("{encoding_name}:{ws}chunked{ws}{end}");
                let (fields, body) = match framing {
                    0 => (String::new(), String::new()),
                    1 => (length, body),
                    2 => (encoding, chunks),
                    3 => (format!("{length}{encoding}"), chunks),
                    4 => (format!("{encoding}{length}"), chunks),
                    _ => (format!("{length}{length}"), body),
                };
                let both = if (3..5).contains(&framing) { "both" } else { "one" };
                let half = others.len() / 2;
                let lines =
                    |others: &[&str]| others.iter().map(|line| format!("{line}{end}")).collect::<String>();
                let head = format!(
                    "{before}POST /{both} HTTP/1.1{end}host: a{end}{}{fields}{}{last}",
                    lines(&others[..half]),
                    lines(&others[half..]),
                );
                Message { bytes: [head.into_bytes(), body.into_bytes()].concat() }
            },
        )
}

/// Feeds a connection in the given cuts; returns the path and the verdict of each request hyper handed on, and whether
/// hyper ended in peace.
async fn verdicts(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<(String, Result<(), Malformed>)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let service = service_fn(move |request: Request<Incoming>| {
        sink.lock().push((request.uri().path().to_owned(), vet(&request)));
        async move {
            drop(read_body(request.into_body(), 10_000, std::time::Duration::from_secs(1)).await);
            Ok(text(200, ""))
        }
    });
    let (client, _, task) = pipe(service);
    let (mut read, mut write) = tokio::io::split(client);
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut sent = 0;
    for cut in cuts {
        if write.write_all(&bytes[sent..cut]).await.is_err() {
            break;
        }
        sent = cut;
        tokio::task::yield_now().await;
    }
    // The last answer is given before the end is seen.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    drop(write.shutdown().await);
    rest(&mut read).await;
    task.await.unwrap();
    std::mem::take(&mut *seen.lock())
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    /// Of every request that hyper hands on we say rightly whether it had both lengths.
    #[test]
    fn every_request_gets_its_own_verdict(
        messages in prop::collection::vec(message(), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| message.bytes.clone()).collect();
        for (path, verdict) in paused().block_on(verdicts(&bytes, &cuts)) {
            let expected = if path == "/both" { Err(Malformed::LengthAndEncoding) } else { Ok(()) };
            prop_assert_eq!(verdict, expected, "{}", path);
        }
    }

    /// With bytes damaged, too, we are never behind hyper: no request is handed on of which we have not seen the head.
    #[test]
    fn damage_never_puts_us_out_of_step(
        messages in prop::collection::vec(message(), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), prop::sample::select(b"\r\n \t:;0f,cT".as_slice())]), 1..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut bytes: Vec<u8> = messages.iter().flat_map(|message| message.bytes.clone()).collect();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for (path, verdict) in paused().block_on(verdicts(&bytes, &cuts)) {
            prop_assert_ne!(verdict, Err(Malformed::Framing), "{}", path);
        }
    }

    /// Where the bytes are cut makes no difference.
    #[test]
    fn cuts_make_no_difference(
        messages in prop::collection::vec(message(), 1..6),
        size in 1..50_usize,
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| message.bytes.clone()).collect();
        let mut whole = Framing::new();
        whole.feed(&bytes);
        let mut pieces = Framing::new();
        for piece in bytes.chunks(size) {
            pieces.feed(piece);
        }
        prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    }
}
