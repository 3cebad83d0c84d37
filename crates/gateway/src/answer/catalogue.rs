//! What the gateway's own refusals mean, and what to do about them.
//!
//! The one place of these texts: `fairlane explain` and the tables in the documentation take them from here.

/// One error code, or one reason for which nothing was held.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// The code or reason.
    pub name: &'static str,
    /// The status of the answers that have it.
    pub status: u16,
    /// When it is told.
    pub when: &'static str,
    /// What to do, as a caller or as an operator.
    pub advice: &'static str,
}

const fn meaning(status: u16, name: &'static str, when: &'static str, advice: &'static str) -> Meaning {
    Meaning { name, status, when, advice }
}

/// Every `error.code`, by status.
pub const CODES: &[Meaning] = &[
    meaning(
        400,
        "invalid_request_error",
        "the request cannot be read: bad JSON, no model, two readings of its framing, no Host",
        "mend the request: `message` says what is wrong, and `param` which field",
    ),
    meaning(
        401,
        "invalid_api_key",
        "no key in `blocking` mode; a key that is wrong, disabled, expired or malformed in any mode",
        "send a key that is in `api_keys`, as `Authorization: Bearer` or `x-api-key`",
    ),
    meaning(
        403,
        "model_not_allowed",
        "the key may not use the model",
        "ask for a model of `GET /v1/models`, or add the model to `models` of the key",
    ),
    meaning(
        404,
        "model_not_found",
        "nobody serves the model",
        "ask for a model of `GET /v1/models`, or add the model to `models` of a backend",
    ),
    meaning(
        404,
        "not_found",
        "nothing is at the path",
        "check the path; `server.paths` forwards further ones",
    ),
    meaning(405, "method_not_allowed", "the path is for another method", "use the method that `Allow` names"),
    meaning(
        408,
        "request_timeout",
        "the body stopped arriving for `server.timeouts.body_progress`, or took longer than any request may",
        "send the body faster, or raise `server.timeouts.body_progress`",
    ),
    meaning(
        413,
        "request_too_large",
        "the body is over `server.max_body_bytes`; the connection is closed",
        "send less, or raise `server.max_body_bytes`",
    ),
    meaning(415, "unsupported_encoding", "the body is compressed", "send it uncompressed"),
    meaning(
        429,
        "rate_limit_exceeded",
        "a limit refuses for now; `details.limit_type` says which",
        "wait for as long as `retry-after-ms` says: a request of the same size then passes; or raise the limit",
    ),
    meaning(
        429,
        "request_exceeds_limit",
        "the ask is larger than its bucket ever holds: no `Retry-After`, `x-should-retry: false`",
        "ask for less, for example with a smaller `max_tokens`, or raise the capacity of the limit: no waiting helps",
    ),
    meaning(
        500,
        "internal_error",
        "a mistake of the gateway's own",
        "report it, with the line of the log that has the `x-request-id`",
    ),
    meaning(
        502,
        "backend_unavailable",
        "no connection, or it broke before an answer",
        "try again; as an operator look at the backend and at `backend_requests_total`",
    ),
    meaning(
        503,
        "no_healthy_backend",
        "every backend that serves the model is resting or down",
        "try again later; as an operator look at `backend_up`",
    ),
    meaning(
        503,
        "rate_limit_store_unavailable",
        "the limit store is out",
        "try again after `Retry-After`; as an operator look at `rate_limit_store_up` and run `fairlane check --connect`",
    ),
    meaning(
        503,
        "overloaded",
        "the bodies in memory would be over `server.max_buffered_bytes`; the connection is closed",
        "try again after `Retry-After`; as an operator raise `server.max_buffered_bytes` if there is memory for more",
    ),
    meaning(
        503,
        "shutting_down",
        "held until the end of a drain",
        "try again: another gateway, or this one once it is back, answers",
    ),
    meaning(
        504,
        "backend_timeout",
        "no answer in time; time spent held counts",
        "try again, or raise `timeouts.request`",
    ),
];

/// Every `reason` of `details.fair_queue`.
pub const QUEUE_REASONS: &[Meaning] = &[
    meaning(
        429,
        "queue_full",
        "`fair_queuing.max_total_queued` requests are held, or `server.max_buffered_bytes` of bodies",
        "raise the limit that is contended, or these bounds if there is memory for more",
    ),
    meaning(
        429,
        "tenant_queue_full",
        "`fair_queuing.max_queue_depth_per_tenant` requests of this tenant are held",
        "as a caller have fewer requests under way at one time; as an operator raise the bound or the limit",
    ),
    meaning(
        429,
        "tenant_table_full",
        "`fair_queuing.max_tenants` tenants are tracked and none can be forgotten",
        "raise `fair_queuing.max_tenants`",
    ),
    meaning(
        429,
        "wait_exceeds_budget",
        "it could not be served in time even if no other tenant waited",
        "wait for as long as `retry-after-ms` says; as an operator raise `max_wait_ms`, or the limit",
    ),
    meaning(
        429,
        "deadline_exceeded",
        "it was held, and its time ran out",
        "wait for as long as `retry-after-ms` says; as an operator raise `max_wait_ms`, or the limit",
    ),
];

/// Every `reason` of `details.deferred_admission`.
pub const DEFERRAL_REASONS: &[Meaning] = &[
    meaning(
        429,
        "hold_full",
        "`deferred_admission.max_held` requests are deferred, so many tenants are tracked that nobody can be deferred for another, or the bodies of all who wait are over `server.max_buffered_bytes`",
        "raise the budgets of tokens, or `deferred_admission.max_held` and `fair_queuing.max_tenants`",
    ),
    meaning(
        429,
        "tenant_hold_full",
        "`deferred_admission.max_held_per_tenant` requests of this tenant are deferred",
        "as a caller have fewer requests under way at one time; as an operator raise the bound or the budget",
    ),
    meaning(
        429,
        "wait_exceeds_budget",
        "the budget of tokens could not have room for it in time even if no other tenant waited",
        "ask for fewer tokens, or wait for as long as `retry-after-ms` says; as an operator raise `max_wait_ms`, or the budget",
    ),
    meaning(
        429,
        "deadline_exceeded",
        "it was deferred, and its time ran out",
        "wait for as long as `retry-after-ms` says; as an operator raise `max_wait_ms`, or the budget",
    ),
];
