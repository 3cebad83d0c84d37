//! Backends: which one, forwarding to it, and what happens when it fails.
//!
//! [`Proxy::forward`] takes one admitted request, chooses a healthy backend that serves its model, by weight,
//! and streams the answer back. Its rules:
//!
//! - **Only a connection that could not be made is retried**, on the next candidate. Once a byte may have been
//!   sent ([`Reached`]), the request may have been executed, and a second execution costs somebody money.
//! - **Nothing is buffered on the way back.** The only thing ever waited for is the first byte of a streamed
//!   answer: until it is there, a failure can still be told as a plain 502 or 504, which clients retry.
//! - **Dropping is cancelling.** Dropping the future of `forward`, or the body it returned, closes the
//!   connection to the backend at once.
//! - **A stream never ends silently.** When a backend dies or stalls, an event stream ends with an error event of its
//!   dialect; any other answer, a compressed one, and one that promised a length, is cut off, which every client
//!   notices.

mod answer_body;
mod answering;
mod backend;
mod backend_body;
mod candidates;
mod choice;
mod client;
mod deadline;
mod endpoint;
mod error;
mod forward;
mod headers;
mod health;
mod payload;
mod pool;
mod quota;
mod server;
mod taken;
mod target;
mod telemetry;

pub use crate::reached::Reached;
pub use answer_body::BodyError;
pub use backend::{
    Auth, Backend, Credential, HealthSettings, InvalidCredential, StreamingTimeouts, Timeouts,
};
pub use error::{ForwardError, ProxyError};
pub use forward::{Forwarded, Outbound, Proxy};
pub use health::HealthWatch;
pub use payload::Payload;
pub use quota::{BackendQuota, QuotaFuture};
pub use target::{HttpTarget, InvalidTarget, Target};
