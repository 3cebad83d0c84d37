//! One table: what went wrong -> status, code, type, headers and body.
//!
//! Nothing else in the gateway chooses a status. Bodies take the shape that the caller's client library parses: OpenAI's
//! error object, or Anthropic's on its paths.

mod body;
mod catalogue;
mod quota;

use std::time::Duration;

use fairlane_fair_queue::Class;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

pub(crate) use self::quota::is_smaller_share;
pub use self::{
    catalogue::{CODES, DEFERRAL_REASONS, Meaning, QUEUE_REASONS},
    quota::{QuotaStatus, Quotas},
};
use crate::{
    body::{Body, full},
    dimension::Dimension,
};

/// Whose error shape an answer takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `{"error": {"message", "type", "param", "code", ...}}`.
    #[default]
    OpenAi,
    /// `{"type": "error", "error": {"type", "message", ...}}`.
    Anthropic,
}

/// Marks the answer to a mistake of the gateway's own, for whoever knows the request's id to log it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mistake;

impl Dialect {
    /// The shape that the client library of a path's API parses, also where nothing is at the path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let below = path.strip_prefix("/v1/messages");
        if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            Self::Anthropic
        } else {
            Self::OpenAi
        }
    }
}

/// How much is asked of a bucket, and how much it ever holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// What the request is charged.
    pub asked: u64,
    /// The bucket's capacity, which is less.
    pub most: u64,
}

/// Why a request is answered by the gateway itself and not by a backend.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The request cannot be read, or means nothing.
    Invalid {
        /// What is wrong, for the caller.
        message: String,
        /// The field that is wrong, if it is one.
        param: Option<&'static str>,
    },
    /// No key where one is needed, or one that does not count.
    InvalidApiKey,
    /// The key may not use the model.
    ModelNotAllowed,
    /// No backend serves the model.
    ModelNotFound,
    /// No such path.
    NotFound,
    /// The path exists, for other methods.
    MethodNotAllowed {
        /// Those methods.
        allow: Method,
    },
    /// The caller sent no body byte for too long.
    BodyStalled,
    /// The body is over `server.max_body_bytes`.
    TooLarge {
        /// That bound.
        max_bytes: u64,
    },
    /// The body is compressed; it could not be read for its charges.
    UnsupportedEncoding,
    /// A limit refuses for now.
    RateLimited(RateLimited),
    /// A limit refuses for ever: its bucket never holds as much.
    ExceedsLimit {
        /// The dimension of that bucket.
        limit_type: Dimension,
        /// What it counts.
        class: Class,
        /// By how much, where that is known.
        excess: Option<Excess>,
    },
    /// Every backend that could serve this is at its own limit.
    BackendsExhausted {
        /// When the first of them has room again.
        retry_after: Duration,
    },
    /// The backend could not be reached, or broke before it answered.
    BackendUnavailable,
    /// The backend did not answer in time, or the request's time ran out while it was held.
    BackendTimeout,
    /// The limit store is out, and an outage refuses.
    StoreUnavailable,
    /// Every backend that could serve this is down.
    NoHealthyBackend,
    /// As many bytes of bodies are in memory as may be.
    Overloaded,
    /// The gateway is going down.
    ShuttingDown,
    /// A mistake of the gateway's own.
    Internal,
}

/// The particulars of a 429 `rate_limit_exceeded`.
#[derive(Clone, Debug)]
pub struct RateLimited {
    /// The dimension that binds.
    pub limit_type: Dimension,
    /// What is counted there.
    pub class: Class,
    /// When a request of the same size passes.
    pub retry_after: Duration,
    /// What refused to hold it, or to hold it any longer, where it might have been.
    pub held: Option<HoldRefusal>,
    /// How long it was deferred, if it was.
    pub deferred: Option<Duration>,
}

/// Who refuses to hold a request.
#[derive(Clone, Copy, Debug)]
pub enum HoldRefusal {
    /// The fair queue.
    Queue(QueueRefusal),
    /// Deferred admission.
    Deferral(DeferralRefusal),
}

/// What a caller is told when the fair queue refuses.
#[derive(Clone, Copy, Debug)]
pub struct QueueRefusal {
    /// The configured tenant dimension.
    pub tenant_dimension: &'static str,
    /// Which bound refused.
    pub reason: &'static str,
    /// 1-based place in the caller's own lane.
    pub position: usize,
    /// How long it was queued.
    pub waited: Duration,
}

/// What a caller is told when deferred admission refuses.
#[derive(Clone, Copy, Debug)]
pub struct DeferralRefusal {
    /// Which bound refused.
    pub reason: &'static str,
    /// How long it was deferred.
    pub waited: Duration,
    /// The tokens it asks for.
    pub tokens: u64,
}

/// The answer's row: what is the same for every answer of its kind.
struct Row {
    status: StatusCode,
    code: &'static str,
    /// `error.type` in OpenAI's shape.
    openai: &'static str,
    /// `error.type` in Anthropic's shape.
    anthropic: &'static str,
}

const fn row(status: StatusCode, code: &'static str, openai: &'static str, anthropic: &'static str) -> Row {
    Row { status, code, openai, anthropic }
}

impl Fault {
    /// A request that cannot be read, with no particular field to blame.
    #[must_use]
    pub const fn invalid(message: String) -> Self {
        Self::Invalid { message, param: None }
    }

    fn row(&self) -> Row {
        use StatusCode as S;
        match self {
            Self::Invalid { .. } => {
                row(S::BAD_REQUEST, "invalid_request_error", "invalid_request_error", "invalid_request_error")
            }
            Self::InvalidApiKey => {
                row(S::UNAUTHORIZED, "invalid_api_key", "invalid_request_error", "authentication_error")
            }
            Self::ModelNotAllowed => {
                row(S::FORBIDDEN, "model_not_allowed", "invalid_request_error", "permission_error")
            }
            Self::ModelNotFound => {
                row(S::NOT_FOUND, "model_not_found", "invalid_request_error", "not_found_error")
            }
            Self::NotFound => row(S::NOT_FOUND, "not_found", "invalid_request_error", "not_found_error"),
            Self::MethodNotAllowed { .. } => row(
                S::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "invalid_request_error",
                "invalid_request_error",
            ),
            Self::BodyStalled => {
                row(S::REQUEST_TIMEOUT, "request_timeout", "invalid_request_error", "invalid_request_error")
            }
            Self::TooLarge { .. } => {
                row(S::PAYLOAD_TOO_LARGE, "request_too_large", "invalid_request_error", "request_too_large")
            }
            Self::UnsupportedEncoding => row(
                S::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_encoding",
                "invalid_request_error",
                "invalid_request_error",
            ),
            Self::RateLimited(RateLimited { class, .. }) => {
                row(S::TOO_MANY_REQUESTS, "rate_limit_exceeded", class.as_str(), "rate_limit_error")
            }
            Self::BackendsExhausted { .. } => {
                row(S::TOO_MANY_REQUESTS, "rate_limit_exceeded", "requests", "rate_limit_error")
            }
            Self::ExceedsLimit { class, .. } => {
                row(S::TOO_MANY_REQUESTS, "request_exceeds_limit", class.as_str(), "rate_limit_error")
            }
            Self::BackendUnavailable => {
                row(S::BAD_GATEWAY, "backend_unavailable", "server_error", "api_error")
            }
            Self::BackendTimeout => {
                row(S::GATEWAY_TIMEOUT, "backend_timeout", "server_error", "timeout_error")
            }
            Self::StoreUnavailable => row(
                S::SERVICE_UNAVAILABLE,
                "rate_limit_store_unavailable",
                "server_error",
                "overloaded_error",
            ),
            Self::NoHealthyBackend => {
                row(S::SERVICE_UNAVAILABLE, "no_healthy_backend", "server_error", "overloaded_error")
            }
            Self::Overloaded => row(S::SERVICE_UNAVAILABLE, "overloaded", "server_error", "overloaded_error"),
            Self::ShuttingDown => {
                row(S::SERVICE_UNAVAILABLE, "shutting_down", "server_error", "overloaded_error")
            }
            Self::Internal => row(S::INTERNAL_SERVER_ERROR, "internal_error", "server_error", "api_error"),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Invalid { message, .. } => message.clone(),
            Self::InvalidApiKey => "The API key is missing or not valid.".to_owned(),
            Self::ModelNotAllowed => "This API key may not use the requested model.".to_owned(),
            Self::ModelNotFound => "No backend serves the requested model.".to_owned(),
            Self::NotFound => "There is nothing at this path.".to_owned(),
            Self::MethodNotAllowed { allow } => format!("This path takes {allow} only."),
            Self::BodyStalled => "The request's body stopped arriving.".to_owned(),
            Self::TooLarge { max_bytes } => format!("The request's body is larger than {max_bytes} bytes."),
            Self::UnsupportedEncoding => {
                "The request's body must be sent without a content encoding.".to_owned()
            }
            Self::RateLimited(limited) => limited.message(),
            Self::ExceedsLimit { limit_type, class, excess } => {
                let limit = limit_type.as_str();
                match excess {
                    Some(Excess { asked, most }) => format!(
                        "The request asks for {asked} {class} at once, and its {limit} limit never allows more than {most}."
                    ),
                    None => format!(
                        "The request asks for more {class} than its {limit} limit ever allows at once."
                    ),
                }
            }
            Self::BackendsExhausted { .. } => {
                "Every backend for this model is at its own rate limit.".to_owned()
            }
            Self::BackendUnavailable => {
                "The backend could not be reached, or its answer broke off.".to_owned()
            }
            Self::BackendTimeout => "The backend did not answer in time.".to_owned(),
            Self::StoreUnavailable => "The rate limit store is out of reach; try again shortly.".to_owned(),
            Self::NoHealthyBackend => "No healthy backend serves the requested model now.".to_owned(),
            Self::Overloaded => {
                "The gateway has no memory left for further request bodies; try again shortly.".to_owned()
            }
            Self::ShuttingDown => "The gateway is shutting down; try again shortly.".to_owned(),
            Self::Internal => "The gateway failed to handle this request.".to_owned(),
        }
    }

    fn limit_type(&self) -> Option<Dimension> {
        match self {
            Self::RateLimited(limited) => Some(limited.limit_type),
            Self::ExceedsLimit { limit_type, .. } => Some(*limit_type),
            Self::BackendsExhausted { .. } => Some(Dimension::Backend),
            _ => None,
        }
    }

    /// When it is worth asking again, where that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(limited) => Some(limited.retry_after),
            Self::BackendsExhausted { retry_after } => Some(*retry_after),
            Self::StoreUnavailable | Self::Overloaded | Self::ShuttingDown => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// The whole answer.
    #[must_use]
    pub fn answer(&self, dialect: Dialect) -> Response<Body> {
        let row = self.row();
        let mut response = Response::new(full(body::render(self, &row, dialect)));
        *response.status_mut() = row.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.write_headers(headers);
        if matches!(self, Self::Internal) {
            response.extensions_mut().insert(Mistake);
        }
        response
    }

    /// The same as an event, for a stream that has begun.
    #[must_use]
    pub fn event(&self, dialect: Dialect) -> Vec<u8> {
        let name: &[u8] = match dialect {
            Dialect::OpenAi => b"data: ",
            Dialect::Anthropic => b"event: error\ndata: ",
        };
        [name, &body::render(self, &self.row(), dialect), b"\n\n"].concat()
    }

    fn write_headers(&self, headers: &mut HeaderMap) {
        if let Some(wait) = self.retry_after() {
            write_retry_after(headers, wait);
        }
        match self {
            Self::InvalidApiKey => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::MethodNotAllowed { allow } => {
                if let Ok(value) = HeaderValue::from_str(allow.as_str()) {
                    headers.insert(header::ALLOW, value);
                }
            }
            // Client libraries retry a 429 by themselves; this one can never pass.
            Self::ExceedsLimit { .. } => {
                headers.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
            }
            // What is left of the body would be read as the next request.
            Self::TooLarge { .. } | Self::BodyStalled | Self::Overloaded => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Self::RateLimited(limited) => limited.write_headers(headers),
            _ => {}
        }
    }
}

impl RateLimited {
    fn message(&self) -> String {
        let seconds = whole_seconds(self.retry_after);
        let (dimension, what) = (
            self.limit_type.as_str(),
            match self.class {
                Class::Requests => "request",
                Class::Tokens => "token",
            },
        );
        let reason = match &self.held {
            None => return format!("The {dimension} {what} limit is reached; try again in {seconds} s."),
            Some(HoldRefusal::Queue(queue)) => queue.reason,
            Some(HoldRefusal::Deferral(deferral)) => deferral.reason,
        };
        format!(
            "The {dimension} {what} limit is reached and the request could not be held ({reason}); try again in {seconds} s."
        )
    }

    fn write_headers(&self, headers: &mut HeaderMap) {
        if let Some(HoldRefusal::Queue(queue)) = &self.held {
            headers.insert(HeaderName::from_static("x-fair-queue-position"), queue.position.into());
            headers
                .insert(HeaderName::from_static("x-fair-queue-wait-ms"), whole_millis(queue.waited).into());
        }
        if let Some(deferred) = self.deferred {
            write_deferral(headers, deferred);
        }
    }
}

/// Tells how long a request was deferred.
pub(crate) fn write_deferral(headers: &mut HeaderMap, deferred: Duration) {
    headers.insert(HeaderName::from_static("x-deferred-admission-wait-ms"), whole_millis(deferred).into());
}

/// Writes both forms of "try again after": whole seconds, and milliseconds, which the official client libraries prefer.
///
/// Both are rounded up, and the seconds are at least 1: some client libraries retry at once on 0.
pub(crate) fn write_retry_after(headers: &mut HeaderMap, wait: Duration) {
    headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
    headers.insert(HeaderName::from_static("retry-after-ms"), ceil_millis(wait).into());
}

fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// Milliseconds, rounded up.
pub(crate) fn ceil_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Milliseconds, rounded down.
pub(crate) fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
