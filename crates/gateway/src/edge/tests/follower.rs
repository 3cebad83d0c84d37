//! The follower of HTTP/1 framing against hyper itself.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::sample::Index;
use tokio::io::AsyncWriteExt;

use super::{pipe, rest, text};
use crate::edge::framing::Framing;
use crate::edge::{Malformed, Room, read_body, vet};

type Verdict = Result<(), Malformed>;

/// One request of a pipelined row.
#[derive(Clone, Debug)]
struct Message {
    bytes: String,
    kind: Kind,
}

/// What a message is to hyper; also its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Well formed: the next one is read too.
    Plain,
    /// With both lengths: the last one read.
    Both,
    /// Handed on, but with an error further down in its body, or what may be one.
    Odd,
}

fn body() -> impl Strategy<Value = &'static str> {
    // Bodies that look like something else, where it is taken for a head.
    prop::sample::select(vec![
        "",
        "a",
        "\r\n",
        "\n",
        "0\r\n\r\n",
        "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
        "\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "0123456789\rabcdefghij\nklmnopqrst\r\n\n\r\n0\r\nuvw",
    ])
}

/// A chunked body, and whether it is odd.
fn chunks() -> impl Strategy<Value = (String, bool)> {
    let chunk = (
        body(),
        prop::sample::select(vec!["", "", "", " ", "\t ;a", ";a=\"b\"", ";", ";a\n"]),
        any::<bool>(),
    );
    let chunk = chunk.prop_map(|(body, extension, upper)| {
        if body.is_empty() {
            return (String::new(), false);
        }
        let size = if upper { format!("{:04X}", body.len()) } else { format!("{:x}", body.len()) };
        (format!("{size}{extension}\r\n{body}\r\n"), extension.contains('\n'))
    });
    let trailer = prop::sample::select(vec![
        "",
        "",
        "x: y\r\n",
        "content-length: 5\r\nx: y\r\n",
        "x: y\n\r\n",
        "\n\r\n",
    ]);
    (prop::collection::vec(chunk, 0..4), trailer).prop_map(|(chunks, trailer)| {
        let odd = chunks.iter().any(|(_, odd)| *odd) || trailer.contains("\n\r");
        let chunks: String = chunks.into_iter().map(|(chunk, _)| chunk).collect();
        (format!("{chunks}0\r\n{trailer}\r\n"), odd)
    })
}

fn message() -> impl Strategy<Value = Message> {
    let length_name = prop::sample::select(vec!["content-length", "Content-Length", "CONTENT-LENGTH"]);
    let encoding_name = prop::sample::select(vec!["transfer-encoding", "Transfer-Encoding"]);
    let others = prop::sample::select(vec![
        "x: y",
        "cookie: a",
        "te: trailers",
        "content-lengthy: 7",
        "content-len: 7",
        "transfer-encodin: chunked",
        "t:",
        "c:",
        "x:content-length: 9",
        "expect: 100-continue",
    ]);
    let space = prop::sample::select(vec![" ", " ", "", "\t "]);
    let end = || prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n"]);
    let before = prop::sample::select(vec!["", "", "", "\r\n", "\n", "\n\r\n"]);
    let form = prop::sample::select(vec![0, 1, 1, 2, 2, 2, 3, 4, 5]);
    let others = || prop::collection::vec(others.clone(), 0..3);
    (
        (form, length_name, encoding_name, space),
        (others(), others()),
        (body(), chunks()),
        (end(), end(), before),
    )
        .prop_map(
            |(
                (form, length_name, encoding_name, space),
                (some, more),
                (body, (chunks, odd)),
                (end, last, before),
            )| {
                let length = format!("{length_name}:{space}{}{space}{end}", body.len());
                let encoding = format!("{encoding_name}:{space}chunked{space}{end}");
                let (fields, body, kind) = match form {
                    0 => (String::new(), "", Kind::Plain),
                    1 => (length, body, Kind::Plain),
                    2 => (encoding, chunks.as_str(), if odd { Kind::Odd } else { Kind::Plain }),
                    3 => (format!("{length}{encoding}"), chunks.as_str(), Kind::Both),
                    4 => (format!("{encoding}{length}"), chunks.as_str(), Kind::Both),
                    _ => (format!("{length}{length}"), body, Kind::Plain),
                };
                let lines =
                    |lines: &[&str]| lines.iter().map(|line| format!("{line}{end}")).collect::<String>();
                let (some, more) = (lines(&some), lines(&more));
                let start = format!("{before}POST /{kind:?} HTTP/1.1{end}host: a{end}");
                Message { bytes: format!("{start}{some}{fields}{more}{last}{body}"), kind }
            },
        )
}

fn joined(messages: &[Message]) -> Vec<u8> {
    messages.iter().flat_map(|message| message.bytes.bytes()).collect()
}

/// Sends bytes in the given cuts; returns the path and the verdict of each request that hyper hands on.
async fn verdicts(bytes: &[u8], cuts: &[Index]) -> Vec<(String, Verdict)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let service = service_fn(move |request: Request<Incoming>| {
        sink.lock().push((request.uri().path().to_owned(), vet(&request)));
        async move {
            drop(
                read_body(request.into_body(), 10_000, Duration::from_secs(1), &Room::new(usize::MAX)).await,
            );
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
    // The clock is paused: it goes on when the server has nothing more to do. Only then the end is seen.
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(write.shutdown().await);
    rest(&mut read).await;
    task.await.unwrap();
    std::mem::take(&mut *seen.lock())
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Every request gets its own verdict, and none is kept from its turn.
    #[test]
    fn every_request_gets_its_own_verdict(
        messages in prop::collection::vec(message(), 1..6),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let plain = messages.iter().take_while(|message| message.kind == Kind::Plain).count();
        let due = messages.len().min(plain + 1);
        let seen = run(verdicts(&joined(&messages), &cuts));
        prop_assert!(seen.len() >= due, "{} of {due}", seen.len());
        for ((path, verdict), message) in seen.iter().zip(&messages) {
            prop_assert_eq!(path, &format!("/{:?}", message.kind));
            let expected = if message.kind == Kind::Both { Err(Malformed::LengthAndEncoding) } else { Ok(()) };
            prop_assert_eq!(*verdict, expected);
        }
    }

    /// With bytes damaged, too, hyper hands on no request of which we have not seen the head.
    #[test]
    fn damage_never_puts_us_behind_hyper(
        messages in prop::collection::vec(message(), 1..6),
        damage in prop::collection::vec(
            (any::<Index>(), prop_oneof![any::<u8>(), prop::sample::select(b"\r\n \t:;0f,cT".as_slice())]),
            1..4,
        ),
        cuts in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        let mut bytes = joined(&messages);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for (path, verdict) in run(verdicts(&bytes, &cuts)) {
            prop_assert_ne!(verdict, Err(Malformed::Framing), "{}", path);
        }
    }

    /// Where the bytes are cut makes no difference.
    #[test]
    fn cuts_make_no_difference(messages in prop::collection::vec(message(), 1..6), size in 1..50_usize) {
        let bytes = joined(&messages);
        let mut whole = Framing::new();
        whole.feed(&bytes);
        let mut pieces = Framing::new();
        for piece in bytes.chunks(size) {
            pieces.feed(piece);
        }
        prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    }
}
