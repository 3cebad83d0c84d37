//! The JSON of an error, in either dialect.

use serde::Serialize;

use super::{
    DeferralRefusal, Dialect, Fault, HoldRefusal, QueueRefusal, RateLimited, Row, ceil_millis, whole_millis,
};

#[derive(Serialize)]
struct OpenAi<'a> {
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Serialize)]
struct Anthropic<'a> {
    r#type: &'a str,
    error: AnthropicError<'a>,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'a str,
    message: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Serialize)]
struct Details {
    limit_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fair_queue: Option<FairQueue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deferred_admission: Option<DeferredAdmission>,
}

#[derive(Serialize)]
struct FairQueue {
    tenant_dimension: &'static str,
    reason: &'static str,
    position: usize,
    waited_ms: u64,
}

#[derive(Serialize)]
struct DeferredAdmission {
    reason: &'static str,
    waited_ms: u64,
    tokens: u64,
}

fn details(fault: &Fault) -> Option<Details> {
    let limit_type = fault.limit_type()?.as_str();
    let mut details = Details {
        limit_type,
        retry_after_ms: fault.retry_after().map(ceil_millis),
        fair_queue: None,
        deferred_admission: None,
    };
    if let Fault::RateLimited(RateLimited { held: Some(held), .. }) = fault {
        match *held {
            HoldRefusal::Queue(QueueRefusal { tenant_dimension, reason, position, waited }) => {
                let waited_ms = whole_millis(waited);
                details.fair_queue = Some(FairQueue { tenant_dimension, reason, position, waited_ms });
            }
            HoldRefusal::Deferral(DeferralRefusal { reason, waited, tokens }) => {
                let waited_ms = whole_millis(waited);
                details.deferred_admission = Some(DeferredAdmission { reason, waited_ms, tokens });
            }
        }
    }
    Some(details)
}

pub(super) fn render(fault: &Fault, row: &Row, dialect: Dialect) -> Vec<u8> {
    let message = &fault.message();
    let (code, details) = (row.code, details(fault));
    let rendered = match dialect {
        Dialect::OpenAi => {
            let param = match fault {
                Fault::Invalid { param, .. } => *param,
                Fault::ModelNotAllowed | Fault::ModelNotFound => Some("model"),
                _ => None,
            };
            serde_json::to_vec(&OpenAi {
                error: OpenAiError { message, r#type: row.openai, param, code, details },
            })
        }
        Dialect::Anthropic => serde_json::to_vec(&Anthropic {
            r#type: "error",
            error: AnthropicError { r#type: row.anthropic, message, code, details },
        }),
    };
    // Strings and integers always serialise; an empty body is the honest rest.
    rendered.unwrap_or_default()
}
