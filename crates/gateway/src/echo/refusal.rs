//! Requests that the embedded backend does not understand.

use http::{Method, Response, StatusCode};
use serde_json::json;

use super::with_type;
use crate::body::{Body, full};

/// A request that is not answered, and why.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    param: Option<&'static str>,
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), param: Some(param) }
    }

    pub(super) fn not_found(method: &Method, path: &str) -> Self {
        Self { status: StatusCode::NOT_FOUND, message: format!("Invalid URL ({method} {path})"), param: None }
    }

    /// The refusal in the shape that clients of this path read.
    pub(super) fn into_response(self, path: &str) -> Response<Body> {
        let Self { status, message, param } = self;
        let not_found = status == StatusCode::NOT_FOUND;
        let body = if path.starts_with("/v1/messages") {
            let kind = if not_found { "not_found_error" } else { "invalid_request_error" };
            json!({ "type": "error", "error": { "type": kind, "message": message } })
        } else {
            let code = not_found.then_some("not_found");
            let error =
                json!({ "message": message, "type": "invalid_request_error", "param": param, "code": code });
            json!({ "error": error })
        };
        let mut response = with_type(full(body.to_string()), "application/json");
        *response.status_mut() = status;
        response
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        // Where it went wrong, and what was expected there; a wrong value itself may be long, or private.
        let (line, column) = (error.line(), error.column());
        let what = match error.classify() {
            serde_json::error::Category::Data => "does not have the expected fields",
            _ => "is not valid JSON",
        };
        Self {
            status: StatusCode::BAD_REQUEST,
            message: format!("The body {what} (line {line}, column {column})."),
            param: None,
        }
    }
}
