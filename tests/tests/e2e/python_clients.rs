//! The official Python client libraries, unmodified, against the running gateway.
//!
//! What the callers do and check stands in `tests/python/client.py`; here, what the gateway is told, and what it counted.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
};

use fairlane_tests::{Config, Gateway, run};
use tokio::process::Command;

/// Names the interpreter, in an environment with the packages of `tests/python/requirements.txt`.
const PYTHON: &str = "FAIRLANE_PYTHON";

/// The interpreter given, or that of the environment which `cargo xtask test` makes beside the build.
fn python() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/<profile>/deps/e2e-<hash>
    let beside =
        || test.ancestors().nth(3).expect("a test lies three folders deep").join("python/bin/python");
    let python = std::env::var_os(PYTHON).map_or_else(beside, PathBuf::from);
    assert!(python.exists(), "there is no {}; run `cargo xtask test`", python.display());
    python
}

async fn play(gateway: &Gateway, scene: &str) {
    play_from(gateway, "client.py", scene).await;
}

/// Plays one scene of a script in `tests/python`, for a caller whose key is `key-of-alice`.
pub(crate) async fn play_from(gateway: &Gateway, script: &str, scene: &str) {
    let mut command = Command::new(python());
    command
        // Nothing of the machine's may steer the library: no proxy, no other key, no log.
        .env_clear()
        .env("OPENAI_BASE_URL", format!("http://{}/v1", gateway.listen()))
        .env("OPENAI_API_KEY", "key-of-alice")
        .env("ANTHROPIC_BASE_URL", format!("http://{}", gateway.listen()))
        .env("ANTHROPIC_API_KEY", "key-of-alice")
        .arg(self::script(script))
        .arg(scene)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let finished = run(command).await;
    assert_eq!(finished.code, 0, "{}\n{}", finished.printed(), gateway.stderr().text());
}

fn script(name: &str) -> OsString {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name).into()
}

/// The embedded backend, and alice.
fn config() -> Config {
    Config::new().backend("echo", "builtin:echo", "").key("alice", "key-of-alice", "user: alice")
}

/// Alice may send one request every two seconds: long enough that two in a row are two within them.
fn scarce() -> Config {
    config().limit("per_user: { requests_per_minute: 30, burst_capacity: 1 }")
}

async fn denied(gateway: &Gateway) -> Option<f64> {
    let labels = [("limit_type", "user"), ("class", "requests"), ("decision", "denied")];
    gateway.metrics().await.value("rate_limit_decisions_total", &labels)
}

#[tokio::test]
async fn completions_streams_embeddings_and_models_are_parsed() {
    let config = Config::new()
        .backend("echo", "builtin:echo?chunk_ms=1", "models: [echo-small, echo-large]")
        .key("alice", "key-of-alice", "user: alice");
    let gateway = Gateway::start(&config).await;

    play(&gateway, "answers").await;
}

#[tokio::test]
async fn a_queued_request_is_one_slow_answer() {
    let config = config()
        .limit("per_model: { overrides: { slow: { requests_per_second: 1, burst_capacity: 1 } } }")
        .fair_queuing("max_wait_ms: 20000");
    let gateway = Gateway::start(&config).await;

    play(&gateway, "queued").await;

    let grants = gateway.metrics().await.value("rate_limit_fair_queue_grants_total", &[]);
    assert_eq!(grants, Some(2.0), "the first was not held, the others were");
}

#[tokio::test]
async fn a_refusal_is_recovered_from_by_one_retry_after_the_told_time() {
    let gateway = Gateway::start(&scarce()).await;

    play(&gateway, "recovers").await;

    assert_eq!(denied(&gateway).await, Some(2.0), "one to be told the time, one to be recovered from");
}

#[tokio::test]
async fn a_refusal_is_the_librarys_own_error() {
    let gateway = Gateway::start(&scarce()).await;

    play(&gateway, "refused").await;

    assert_eq!(denied(&gateway).await, Some(1.0));
}
