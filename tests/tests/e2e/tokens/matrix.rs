//! Every endpoint, plain and streamed, in every dimension, by every ending: charged as it should be, and nothing leaks.

use fairlane_tests::{Backend, Chunks, Gate, Gateway, Reply};
use serde_json::json;

use super::{
    BUDGET,
    api::{Api, CHUNK, PROMPT, USED_PROMPT},
    ask, left, with_budget,
};

/// How many chunks come before an answer ends early.
const CHUNKS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The answer comes to its end, and tells its usage.
    Complete,
    /// It comes to its end, and tells none.
    Uncounted,
    LeftBefore,
    LeftAfter,
    DeadBefore,
    DeadAfter,
    Error,
    LateBefore,
    /// A status of success comes in time, and nothing after it.
    LateAtHead,
    LateAfter,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    api: Api,
    stream: bool,
    ending: Ending,
}

impl Case {
    /// Those with one of these endings.
    fn all(endings: &[Ending]) -> Vec<Self> {
        let mut cases = Vec::new();
        for api in Api::ALL {
            for stream in [false, true].into_iter().filter(|stream| api.streams() || !stream) {
                let happens = |ending: &&Ending| stream || **ending != Ending::LateAtHead;
                cases.extend(endings.iter().filter(happens).map(|&ending| Self { api, stream, ending }));
            }
        }
        cases
    }

    /// What it is charged in the end.
    fn charged(self) -> i64 {
        let output = if self.api.streams() { i64::try_from(CHUNK.len() * CHUNKS / 4).unwrap() } else { 0 };
        match self.ending {
            Ending::Complete => self.api.used(),
            Ending::Uncounted | Ending::LeftAfter | Ending::DeadAfter | Ending::LateAfter => {
                // A stream of this API has counted its prompt at its beginning.
                let counted = self.stream && self.api == Api::Messages;
                output + if counted { USED_PROMPT } else { PROMPT }
            }
            Ending::LeftBefore | Ending::LateAtHead => PROMPT,
            Ending::DeadBefore | Ending::LateBefore | Ending::Error => 0,
        }
    }

    /// The beginning of the answer, and `Chunks` for its rest.
    fn begun(self) -> (Chunks, Reply) {
        if self.stream {
            let (chunks, reply) = Reply::stream();
            chunks.send(self.api.head());
            for _ in 0..CHUNKS {
                chunks.send(self.api.chunk());
            }
            return (chunks, reply);
        }
        let (chunks, reply) = Reply::pieces("application/json");
        let whole = self.api.answer(CHUNKS, true).to_string();
        // All of its text, and nothing of its usage.
        let end = whole.find("\"usage\"").unwrap();
        chunks.send(whole[..end].to_owned());
        (chunks, reply)
    }

    async fn play(self, gateway: &Gateway, backend: &Backend) {
        let call = ask(self.api, self.stream);
        match self.ending {
            Ending::Complete | Ending::Uncounted => {
                let counted = self.ending == Ending::Complete;
                if self.stream {
                    let (chunks, reply) = self.begun();
                    if counted {
                        chunks.send(self.api.usage_event());
                    }
                    chunks.send(self.api.tail());
                    drop(chunks);
                    backend.next(reply);
                } else {
                    backend.next(Reply::json(200, &self.api.answer(CHUNKS, counted)));
                }
                let answer = gateway.call(call).await;
                assert!(answer.complete && answer.status == 200, "{}", answer.printed());
            }
            Ending::LeftBefore => {
                let never = Gate::new();
                backend.next(Reply::json(200, &json!({})).after(&never));
                let count = backend.count();
                let pending = gateway.begin(call);
                let seen = backend.request(count + 1).await;
                pending.leave();
                backend.closed(seen.connection).await;
            }
            Ending::LeftAfter => {
                let (chunks, reply) = self.begun();
                backend.next(reply);
                let mut opened = gateway.open(call).await;
                opened.until(self.last_seen()).await;
                opened.leave();
                chunks.closed().await;
            }
            Ending::DeadBefore => {
                backend.next(Reply::cut());
                assert_eq!(gateway.call(call).await.status, 502);
            }
            Ending::DeadAfter => {
                let (chunks, reply) = self.begun();
                backend.next(reply);
                let mut opened = gateway.open(call).await;
                opened.until(self.last_seen()).await;
                chunks.cut();
                // An error event, or a broken connection.
                while let Ok(Some(_)) = opened.chunk().await {}
            }
            Ending::Error => {
                let usage = self.api.answer(CHUNKS, true);
                backend.next(Reply::json(429, &usage));
                assert_eq!(gateway.call(call).await.status, 429);
            }
            Ending::LateBefore => {
                let never = Gate::new();
                backend.next(Reply::json(200, &json!({})).after(&never));
                assert_eq!(gateway.call(call).await.status, 504);
            }
            Ending::LateAtHead => {
                let (chunks, reply) = Reply::stream();
                backend.next(reply);
                assert_eq!(gateway.call(call).await.status, 504);
                chunks.closed().await;
            }
            Ending::LateAfter => {
                let (chunks, reply) = self.begun();
                backend.next(reply);
                let answer = gateway.call(call).await;
                assert_eq!(answer.status, 200);
                drop(chunks);
            }
        }
    }

    /// What the caller has seen when it has all chunks; the text is in one place of a plain answer.
    fn last_seen(self) -> &'static str {
        match (self.stream, self.api) {
            (false, Api::Embeddings) => "0.5",
            _ => CHUNK,
        }
    }
}

/// Plays all cases in one dimension, one after the other, and looks at the budget after each.
async fn check(dimension: &str, endings: &[Ending], timeouts: &str) {
    let backend = Backend::start().await;
    let gateway = with_budget(&backend, dimension, |config| config.section(timeouts)).await;
    let mut expected = BUDGET;
    for case in Case::all(endings) {
        case.play(&gateway, &backend).await;
        expected -= case.charged();
        assert_eq!(left(&gateway, &backend).await, expected, "{case:?}, counted per {dimension}");
    }
    let metrics = gateway.metrics().await;
    let settled = metrics.value("rate_limit_tokens_settled_total", &[("dimension", dimension)]);
    assert_eq!(settled, Some((BUDGET - expected) as f64));
    assert_eq!(metrics.value("rate_limit_tokens_settled_total", &[]), settled, "in no other dimension");
}

const UNHURRIED: [Ending; 7] = [
    Ending::Complete,
    Ending::Uncounted,
    Ending::LeftBefore,
    Ending::LeftAfter,
    Ending::DeadBefore,
    Ending::DeadAfter,
    Ending::Error,
];

#[tokio::test(flavor = "multi_thread")]
async fn of_a_key() {
    check("api_key", &UNHURRIED, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_user() {
    check("user", &UNHURRIED, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_team() {
    check("team", &UNHURRIED, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_model() {
    check("model", &UNHURRIED, "").await;
}

/// Those whose time runs out, at once in all dimensions, since each takes its time.
#[tokio::test(flavor = "multi_thread")]
async fn of_those_whose_time_runs_out() {
    let timeouts = "timeouts: { request: { standard: { total: 250ms }, \
                    streaming: { first_byte: 250ms, idle: 250ms } } }";
    let late = [Ending::LateBefore, Ending::LateAtHead, Ending::LateAfter];
    tokio::join!(
        check("api_key", &late, timeouts),
        check("user", &late, timeouts),
        check("team", &late, timeouts),
        check("model", &late, timeouts),
    );
}
