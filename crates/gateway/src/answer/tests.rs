use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;

fn rendered(fault: &Fault, dialect: Dialect) -> (http::response::Parts, Value) {
    let (parts, body) = fault.answer(dialect).into_parts();
    let bytes = futures_lite(body);
    (parts, serde_json::from_slice(&bytes).unwrap())
}

/// A body that is whole already needs no runtime to be read.
fn futures_lite(body: Body) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { body.collect().await.unwrap().to_bytes().to_vec() })
}

fn queue_refusal() -> Fault {
    Fault::RateLimited(RateLimited {
        limit_type: Dimension::User,
        class: Class::Requests,
        retry_after: Duration::from_micros(811_300),
        held: Some(HoldRefusal::Queue(QueueRefusal {
            tenant_dimension: "user",
            reason: "tenant_queue_full",
            position: 33,
            waited: Duration::ZERO,
        })),
        deferred: None,
    })
}

#[test]
fn a_queue_refusal_tells_everything_in_openais_shape() {
    let (parts, body) = rendered(&queue_refusal(), Dialect::OpenAi);
    assert_eq!(parts.status, 429);
    assert_eq!(parts.headers["retry-after"], "1");
    assert_eq!(parts.headers["retry-after-ms"], "812");
    assert_eq!(parts.headers["x-fair-queue-position"], "33");
    assert_eq!(parts.headers["x-fair-queue-wait-ms"], "0");
    let mut error = body["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("tenant_queue_full"));
    error.as_object_mut().unwrap().remove("message");
    assert_eq!(
        error,
        json!({"type": "requests", "param": null, "code": "rate_limit_exceeded", "details": {
            "limit_type": "user", "retry_after_ms": 812,
            "fair_queue": {"tenant_dimension": "user", "reason": "tenant_queue_full", "position": 33, "waited_ms": 0}}})
    );
}

#[test]
fn the_same_refusal_in_anthropics_shape() {
    let (_, body) = rendered(&queue_refusal(), Dialect::Anthropic);
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"]["type"], "rate_limit_error");
    assert_eq!(body["error"]["code"], "rate_limit_exceeded");
    assert_eq!(body["error"]["details"]["fair_queue"]["position"], 33);
}

#[test]
fn a_refusal_of_deferral_tells_its_tokens_and_the_wait() {
    let waited = Duration::from_micros(1_500_900);
    let fault = Fault::RateLimited(RateLimited {
        limit_type: Dimension::Team,
        class: Class::Tokens,
        retry_after: Duration::from_secs(3),
        held: Some(HoldRefusal::Deferral(DeferralRefusal {
            reason: "deadline_exceeded",
            waited,
            tokens: 900,
        })),
        deferred: Some(waited),
    });
    let (parts, body) = rendered(&fault, Dialect::OpenAi);
    assert_eq!(parts.headers["x-deferred-admission-wait-ms"], "1500");
    assert!(!parts.headers.contains_key("x-fair-queue-position"));
    assert_eq!(body["error"]["type"], "tokens");
    assert!(body["error"]["message"].as_str().unwrap().contains("team token limit"));
    assert_eq!(
        body["error"]["details"],
        json!({"limit_type": "team", "retry_after_ms": 3000,
            "deferred_admission": {"reason": "deadline_exceeded", "waited_ms": 1500, "tokens": 900}})
    );
}

#[test]
fn what_can_never_pass_is_not_retried() {
    let excess = Some(Excess { asked: 5_000, most: 140 });
    let fault = Fault::ExceedsLimit { limit_type: Dimension::Team, class: Class::Tokens, excess };
    let (parts, body) = rendered(&fault, Dialect::OpenAi);
    assert_eq!(body["error"]["type"], "tokens");
    assert_eq!(parts.status, 429);
    assert_eq!(body["error"]["code"], "request_exceeds_limit");
    assert_eq!(body["error"]["details"], json!({"limit_type": "team"}));
    assert!(!parts.headers.contains_key("retry-after"));
    assert!(!parts.headers.contains_key("retry-after-ms"));
    assert_eq!(parts.headers["x-should-retry"], "false");
}

#[test]
fn statuses_and_codes_are_those_of_the_contract() {
    let check = |fault: Fault, status: u16, code: &str, openai: &str, anthropic: &str| {
        let (parts, body) = rendered(&fault, Dialect::OpenAi);
        assert_eq!(parts.status, status, "{code}");
        assert_eq!(
            (body["error"]["code"].as_str(), body["error"]["type"].as_str()),
            (Some(code), Some(openai))
        );
        let (parts, body) = rendered(&fault, Dialect::Anthropic);
        assert_eq!(parts.status, status, "{code}");
        let explained = CODES.iter().any(|meaning| (meaning.status, meaning.name) == (status, code));
        assert!(explained, "{code} is not explained");
        assert_eq!(
            (body["error"]["code"].as_str(), body["error"]["type"].as_str()),
            (Some(code), Some(anthropic))
        );
    };
    let invalid = "invalid_request_error";
    let message = String::new();
    check(Fault::Invalid { message, param: None }, 400, invalid, invalid, invalid);
    check(Fault::InvalidApiKey, 401, "invalid_api_key", invalid, "authentication_error");
    check(Fault::ModelNotAllowed, 403, "model_not_allowed", invalid, "permission_error");
    check(Fault::ModelNotFound, 404, "model_not_found", invalid, "not_found_error");
    check(Fault::NotFound, 404, "not_found", invalid, "not_found_error");
    check(Fault::MethodNotAllowed { allow: Method::POST }, 405, "method_not_allowed", invalid, invalid);
    check(Fault::BodyStalled, 408, "request_timeout", invalid, invalid);
    check(Fault::TooLarge { max_bytes: 1 }, 413, "request_too_large", invalid, "request_too_large");
    check(Fault::UnsupportedEncoding, 415, "unsupported_encoding", invalid, invalid);
    let retry_after = Duration::from_secs(2);
    check(
        Fault::BackendsExhausted { retry_after },
        429,
        "rate_limit_exceeded",
        "requests",
        "rate_limit_error",
    );
    check(Fault::BackendUnavailable, 502, "backend_unavailable", "server_error", "api_error");
    check(Fault::BackendTimeout, 504, "backend_timeout", "server_error", "timeout_error");
    check(Fault::StoreUnavailable, 503, "rate_limit_store_unavailable", "server_error", "overloaded_error");
    check(Fault::NoHealthyBackend, 503, "no_healthy_backend", "server_error", "overloaded_error");
    check(Fault::Overloaded, 503, "overloaded", "server_error", "overloaded_error");
    check(Fault::ShuttingDown, 503, "shutting_down", "server_error", "overloaded_error");
}

#[test]
fn headers_that_a_status_demands() {
    let (parts, _) = rendered(&Fault::InvalidApiKey, Dialect::OpenAi);
    assert_eq!(parts.headers["www-authenticate"], "Bearer");
    let (parts, _) = rendered(&Fault::MethodNotAllowed { allow: Method::GET }, Dialect::OpenAi);
    assert_eq!(parts.headers["allow"], "GET");
    let (parts, _) = rendered(&Fault::StoreUnavailable, Dialect::OpenAi);
    assert_eq!(parts.headers["retry-after"], "1");
}

#[test]
fn waits_are_rounded_up_and_never_zero_seconds() {
    assert_eq!(whole_seconds(Duration::ZERO), 1);
    assert_eq!(whole_seconds(Duration::from_millis(1_001)), 2);
    assert_eq!(ceil_millis(Duration::from_micros(1)), 1);
    assert_eq!(ceil_millis(Duration::from_millis(5)), 5);
}
