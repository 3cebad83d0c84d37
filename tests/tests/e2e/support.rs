//! What several modules check or wait for, above all what an answer of the gateway's own must look like.

use fairlane_tests::{Answer, Call, Client, Config, Gateway, Pending, wait};
use serde_json::Value;

/// Checks the whole shape of a refusal for callers of OpenAI's API.
#[track_caller]
pub(crate) fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.printed());
    assert!(answer.complete);
    assert_eq!(answer.header("content-type"), "application/json");
    let error = answer.error();
    let fields: Vec<_> = error.as_object().expect("an object").keys().map(String::as_str).collect();
    for field in ["message", "type", "param", "code"] {
        assert!(fields.contains(&field), "no `{field}`: {error}");
    }
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    let kind = match (status, code) {
        (429, _) => "requests",
        (500.., _) => "server_error",
        _ => "invalid_request_error",
    };
    assert_eq!(error["type"], kind);
    assert_named(answer);
}

/// Checks the whole shape of a refusal for callers of Anthropic's API.
#[track_caller]
pub(crate) fn assert_refused_anthropic(answer: &Answer, status: u16, kind: &str, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.printed());
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.json()["type"], "error");
    assert_eq!(answer.error()["type"], kind);
    assert!(answer.error()["message"].as_str().is_some_and(|message| !message.is_empty()));
    assert_named(answer);
}

/// Both client libraries find the request's id, under their own name for it.
#[track_caller]
pub(crate) fn assert_named(answer: &Answer) {
    let id = answer.header("x-request-id");
    assert!(!id.is_empty(), "{}", answer.printed());
    assert_eq!(answer.header("request-id"), id);
}

/// Checks that the time to wait is told the same way everywhere, and returns it in milliseconds.
#[track_caller]
pub(crate) fn assert_retry(answer: &Answer) -> u64 {
    let exact = answer.number("retry-after-ms").unwrap_or_else(|| panic!("{}", answer.printed()));
    let seconds = answer.number("retry-after").expect("whole seconds");
    assert_eq!(seconds, exact.div_ceil(1_000).max(1), "{}", answer.printed());
    if answer.status == 429 {
        assert_eq!(answer.details()["retry_after_ms"], exact, "{}", answer.printed());
    }
    exact
}

/// The whole refusal of a limit that did not queue: shape, times and quota.
#[track_caller]
pub(crate) fn assert_limited(answer: &Answer, limit_type: &str) {
    assert_refused(answer, 429, "rate_limit_exceeded");
    assert_eq!(answer.limit_type(), limit_type, "{}", answer.printed());
    assert_eq!(answer.details()["fair_queue"], Value::Null, "nothing was queued");
    assert_eq!(answer.header("x-fair-queue-position"), "");
    assert_retry(answer);
}

/// A quota as the answer's header fields tell it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) policy: String,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// Until it is full again, in seconds.
    pub(crate) reset: f64,
    pub(crate) window: u64,
}

impl Told {
    /// Reads the fields, and checks that both forms say the same.
    #[track_caller]
    pub(crate) fn of(answer: &Answer) -> Self {
        let shown = || answer.printed();
        let number = |name: &str| answer.number(name).unwrap_or_else(|| panic!("no {name}: {}", shown()));
        let reset = seconds(answer.header("x-ratelimit-reset-requests"));
        let (policy, q, w) = item(answer.header("ratelimit-policy"), ["q", "w"]);
        let (name, r, t) = item(answer.header("ratelimit"), ["r", "t"]);
        let told = Self {
            policy,
            limit: number("x-ratelimit-limit-requests"),
            remaining: number("x-ratelimit-remaining-requests"),
            reset: reset.unwrap_or_else(|| panic!("no reset: {}", shown())),
            window: w,
        };
        assert_eq!((name.as_str(), q, r), (told.policy.as_str(), told.limit, told.remaining), "{}", shown());
        // A refusal's `t` is not later than its Retry-After; otherwise it is the reset.
        assert!(f64::from(u32::try_from(t).unwrap()) < told.reset + 1.0, "{}", shown());
        told
    }
}

/// An item of a structured field with two integer parameters: `"name";q=1;w=60`.
fn item(field: &str, parameters: [&str; 2]) -> (String, u64, u64) {
    let parts: Vec<_> = field.split(';').collect();
    let [name, first, second] = parts[..] else { panic!("not an item with two parameters: {field:?}") };
    let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).expect("a quoted name");
    let value = |text: &str, name: &str| {
        text.strip_prefix(name).and_then(|text| text.strip_prefix('=')).and_then(|text| text.parse().ok())
    };
    let value = |text, name| value(text, name).unwrap_or_else(|| panic!("no {name}: {field:?}"));
    (name.to_owned(), value(first, parameters[0]), value(second, parameters[1]))
}

/// A duration in OpenAI's form: `12ms`, `1.5s`, `6m0s`.
fn seconds(mut text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut any = false;
    while !text.is_empty() {
        let digits = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
        let (number, rest) = text.split_at(digits);
        let unit = rest.find(|sign: char| sign.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(unit);
        let factor = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        any = true;
        text = rest;
    }
    any.then_some(total)
}

#[test]
fn durations_are_read_as_openai_writes_them() {
    assert_eq!(seconds("12ms"), Some(0.012));
    assert_eq!(seconds("1.5s"), Some(1.5));
    assert_eq!(seconds("1h6m0s"), Some(3_960.0));
    assert_eq!(seconds("6"), None);
    assert_eq!(seconds(""), None);
}

/// A gateway whose callers are Alice and her team, and Bob; Alice has two keys.
pub(crate) fn people(config: Config) -> Config {
    config
        .key("alice-1", "key-of-alice", "user: alice, team: research")
        .key("alice-2", "second-key-of-alice", "user: alice, team: research")
        .key("bob", "key-of-bob", "user: bob, team: research")
}

/// Alice asks.
pub(crate) fn alice() -> Call {
    Call::chat("gpt-x").key("key-of-alice")
}

/// Bob asks.
pub(crate) fn bob() -> Call {
    Call::chat("gpt-x").key("key-of-bob")
}

/// Sends the same request until it is refused, at most `most` times; how often it passed, and the refusal.
pub(crate) async fn exhaust(gateway: &Gateway, call: &Call, most: usize) -> (usize, Answer) {
    exhaust_at(gateway.client(), call, most).await
}

async fn exhaust_at(client: Client, call: &Call, most: usize) -> (usize, Answer) {
    for passed in 0..most {
        let answer = client.call(call.clone()).await;
        if answer.status != 200 {
            return (passed, answer);
        }
    }
    panic!("all of {most} requests passed")
}

/// Waits until each of them is held or answered, and none on its way any more.
pub(crate) async fn until_all_came(gateway: &Gateway, pending: &[Pending]) {
    wait::until("all requests to be held or answered", async || {
        // In this order a request that is admitted in between is missed, rather than counted twice.
        let answered = pending.iter().filter(|pending| pending.is_answered()).count();
        let held = gateway.queues().await["held"].as_u64()?;
        (answered as u64 + held >= pending.len() as u64).then_some(())
    })
    .await;
}
