//! No raw key, user, team or token comes out of the gateway, whatever is done to it.

use fairlane_tests::{Backend, Call, Config, Gate, Gateway, RawBackend, Reply, Seen, command, run};
use http::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// What callers and operators must keep secret: known keys, a wrong one, tokens.
const SECRETS: [&str; 8] = [
    "canary-key-one-7d1f",
    "canary-key-two-93ab",
    "canary-key-digested-55e0",
    "canary-key-off-1c2d",
    "canary-key-wrong-4444",
    "canary-admin-token-a0a0",
    "canary-backend-key-b1b1",
    "canary-hash-key-c2c2-of-some-length",
];
/// Whom they belong to.
const IDENTITIES: [&str; 4] = ["canary-user-one", "canary-user-two", "canary-team", "canary-ghost"];

fn digest(secret: &str) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fails if any of `canaries`, or the digest of one, is in `text`.
#[track_caller]
fn assert_silent(what: &str, text: &str, canaries: &[&str]) {
    let lower = text.to_lowercase();
    for canary in canaries {
        for shown in [(*canary).to_owned(), digest(canary)] {
            if let Some(at) = lower.find(&shown) {
                let line = lower[..at].lines().count();
                panic!(
                    "{what} says `{shown}` ({canary}) in line {line}: {}",
                    text.lines().nth(line - 1).unwrap_or_default()
                );
            }
        }
    }
}

fn everything() -> Vec<&'static str> {
    [&SECRETS[..], &IDENTITIES].concat()
}

fn config(backend: &str) -> String {
    let [one, two, digested, off, _, admin, backend_key, hash_key] = SECRETS;
    let [user, other, team, ghost] = IDENTITIES;
    Config::new()
        .backend("primary", backend, &format!("models: [m, slow], api_key: {backend_key}"))
        .backend("gone", "http://127.0.0.1:1", "models: [gone]")
        .key("first", one, &format!("user: {user}, team: {team}, tier: gold"))
        .key("second", two, &format!("user: {other}, team: {team}"))
        .key("off", off, &format!("user: {other}, enabled: false"))
        .yaml()
        .replace("    - { id: first", &format!("    - {{ id: third, sha256: {} }}\n    - {{ id: first", digest(digested)))
        + &format!(
            "\
admin: {{ token: {admin} }}
log: {{ level: trace }}
identity: {{ hash_key: {hash_key}, tiers: {{ gold: {{ weight: 2 }} }} }}
timeouts: {{ request: {{ standard: {{ total: 1s }} }} }}
rate_limiting:
  limits:
    per_client: {{ requests_per_hour: 1000 }}
    per_user:
      requests_per_minute: 120
      burst_capacity: 2
      overrides: {{ {user}: {{ requests_per_second: 4, burst_capacity: 2 }}, {ghost}: {{ requests_per_second: 1 }} }}
    per_team: {{ requests_per_hour: 1000, overrides: {{ {team}: {{ requests_per_hour: 500 }} }} }}
    per_api_key: {{ requests_per_hour: 900 }}
  fair_queuing:
    enabled: true
    max_queue_depth_per_tenant: 2
    max_wait_ms: 900
    weights: [ {{ tenant: {user}, weight: 3 }}, {{ tenant: {ghost}, weight: 2 }} ]
"
        )
}

/// Requests that end in every way there is.
fn calls() -> Vec<Call> {
    let [one, two, digested, off, wrong, admin, ..] = SECRETS;
    let user = IDENTITIES[0];
    let unclosed = format!("{{\"model\": \"m\", \"user\": \"{user}\", \"key\": \"{one}\"");
    vec![
        Call::chat("m").key(one),
        Call::chat("m").set("x-api-key", two),
        Call::chat("m").key(digested),
        Call::chat_stream("m").key(two),
        Call::message("m").set("x-api-key", two),
        Call::chat("m").key(off),
        Call::chat("m").key(wrong),
        Call::chat("m").set("authorization", &format!("Basic {wrong}")),
        Call::chat("m").key(one).set("x-api-key", two),
        Call::chat("m").key(admin),
        Call::chat("unknown").key(one),
        Call::chat("gone").key(two),
        Call::message("gone").set("x-api-key", digested),
        Call::get("/nowhere").key(one),
        Call::get("/v1/chat/completions").key(one),
        Call::get("/v1/models").key(one),
        Call::new(Method::POST, "/v1/chat/completions").body("application/json", unclosed).key(one),
        Call::post("/v1/chat/completions", &json!({"model": {user: one}})).key(one),
        Call::new(Method::POST, "/v1/audio/speech").body("text/plain", one).key(one),
        Call::new(Method::POST, "/v1/images/edits")
            .body("multipart/form-data; boundary=b", format!("--b\r\n{one}"))
            .key(one),
        Call::chat("m").key(one).set("content-encoding", one),
        Call::chat("m").key(one).set("host", "a b"),
        Call::chat("slow").key(one),
        Call::chat("slow").key(two),
    ]
}

/// What a mean caller writes on the wire, with its key in it.
fn raw_requests() -> Vec<String> {
    let key = SECRETS[0];
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {key}\r\n");
    vec![
        format!("{head}Connection: close\r\n\r\n"),
        format!("{head}Host: a\r\nHost: a\r\nConnection: close\r\n\r\n"),
        format!("{head}Host: a\r\nContent-Length: x\r\n\r\n"),
        format!("{head}Host: a\r\nBad Header: {key}\r\n\r\n"),
        format!("{head}Host: a\r\nX-Long: {key}{}\r\n\r\n", "x".repeat(100_000)),
        format!("Bearer {key}\r\n\r\n"),
        format!("CONNECT {key}:443 HTTP/1.1\r\nHost: {key}:443\r\nConnection: close\r\n\r\n"),
    ]
}

/// A backend that now and then breaks, and is slow where a test asks for it.
fn answer(gate: &Gate) -> impl Fn(&Seen) -> Reply + Send + Sync + 'static {
    let gate = gate.clone();
    move |seen| match seen.json()["model"].as_str() {
        Some("slow") => Reply::completion(seen).after(&gate),
        _ => Reply::completion(seen),
    }
}

#[tokio::test]
async fn nothing_that_a_running_gateway_says_holds_a_key_or_an_identity() {
    let backend = Backend::start().await;
    let never = Gate::new();
    backend.always(answer(&never));
    let mut gateway = Gateway::start_yaml(&config(&backend.url()), |_| {}).await;
    let mut said = String::new();
    let mut statuses = std::collections::BTreeSet::new();
    for call in calls() {
        for answer in [gateway.call(call.clone()).await, gateway.client().call_http2(call).await] {
            statuses.insert(answer.status);
            said.push_str(&answer.printed());
        }
    }
    for request in raw_requests() {
        let mut raw = gateway.client().raw().await;
        raw.send(request).await;
        said.push_str(&raw.rest().await);
    }
    // Two of each tenant are held, others are refused, some leave.
    let pending: Vec<_> = (0..6)
        .flat_map(|_| [Call::chat("m").key(SECRETS[0]), Call::chat("slow").key(SECRETS[1])])
        .map(|call| gateway.begin(call))
        .collect();
    for (n, pending) in pending.into_iter().enumerate() {
        if n % 5 == 4 {
            pending.leave();
        } else {
            let answer = pending.answer().await;
            statuses.insert(answer.status);
            said.push_str(&answer.printed());
        }
    }
    for status in [200, 400, 401, 404, 405, 415, 429, 502, 504] {
        assert!(statuses.contains(&status), "{status} is not among {statuses:?}");
    }
    let token = SECRETS[5];
    let running = gateway.begin(Call::chat("slow").key(SECRETS[1]));
    for path in ["/metrics", "/admin/queues", "/admin/config", "/healthz", "/readyz", "/nowhere"] {
        for call in [Call::get(path).key(token), Call::get(path).key(SECRETS[0]), Call::get(path)] {
            said.push_str(&gateway.admin().call(call).await.printed());
        }
    }
    assert!(said.contains("rate_limit_fair_queue_depth") && said.contains("max_queue_depth_per_tenant"));
    gateway.terminate();
    said.push_str(&running.answer().await.printed());
    assert_eq!(gateway.exited().await, 0);
    let log = gateway.stderr().whole().await;
    assert!(log.contains("TRACE"), "the log is at its most talkative");
    assert!(log.contains("warning"), "what matches nothing is warned of: {log}");
    assert_silent("an answer", &said, &everything());
    assert_silent("the log", &log, &everything());
    assert_silent("standard output", &gateway.stdout().text(), &everything());
    // The control: what is searched for is what was sent, and a search finds what is there.
    assert!(std::panic::catch_unwind(|| assert_silent("", &digest(SECRETS[2]), &SECRETS)).is_err());
    let reached = backend.seen();
    assert!(reached.iter().all(|seen| seen.header("authorization") == format!("Bearer {}", SECRETS[6])));
    let reached: String = reached.iter().map(|seen| format!("{} {:?}", seen.path, seen.headers)).collect();
    assert_silent(
        "a request to the backend",
        &reached,
        &[&SECRETS[..6], &SECRETS[7..], &IDENTITIES].concat(),
    );
}

#[tokio::test]
async fn no_command_prints_a_key_and_only_check_names_whom_it_concerns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = config(&RawBackend::nobody());
    let again = "    - { id: first";
    let bad = good
        .replace(again, &format!("    - {{ id: dup, key: {} }}\n{again}", SECRETS[0]))
        .replace("level: trace", &format!("level: {}", SECRETS[0]))
        .replace("max_wait_ms: 900", &format!("max_wait_ms: {}", SECRETS[1]))
        .replace("per_api_key:", "per_api_kye:");
    let syntax = good.replace("admin: {", "admin: }").replace("identity:", " identity:");
    for (name, text, code) in [("good", good, 0), ("bad", bad, 78), ("syntax", syntax, 78)] {
        let file = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, text).expect("it is ours");
        let file = file.to_str().expect("a plain name");
        for arguments in [["check", file], ["config", file]] {
            let finished = run(command(&arguments)).await;
            assert_eq!(finished.code, code, "{arguments:?}: {}", finished.printed());
            let keys: Vec<_> = if name == "bad" {
                // Where a name is due, what stands there is shown: nobody would put a key there but this test.
                SECRETS[2..].to_vec()
            } else {
                SECRETS.to_vec()
            };
            assert_silent(&format!("{arguments:?}"), &finished.printed(), &keys);
            if arguments[0] == "config" {
                assert_silent("config", &finished.stdout, &IDENTITIES);
            }
        }
    }
    assert_silent("schema", &run(command(&["schema"])).await.printed(), &everything());
}
