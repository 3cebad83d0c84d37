//! The wire edge: listening, accepting, timing, framing and closing of connections.
//!
//! hyper parses HTTP well, but leaves open what a gateway must close: it has no timer for a client that
//! sends nothing, half a preface or half a body, no bound on connections, it lets through requests which
//! two parsers may read differently, and it does not notice in every case that the caller of a waiting
//! request has gone. This module owns the accept loop and the bytes on both sides of hyper:
//!
//! ```text
//! listen -> serve -> workers -> driver (one task a connection, one timer) -> hyper -> service (counts what is in flight)
//!                       io (sniffs the version, follows HTTP/1 framing, sees stalled writes)
//! ```
//!
//! The timers, each closing the connection when it ends:
//!
//! | the client has sent | bound |
//! |---|---|
//! | nothing, or part of an HTTP/2 preface | `first_byte`, from the accept |
//! | part of an HTTP/1 request head | `header`, from its first byte |
//! | whole requests, all answered; or an HTTP/2 preface | `keep_alive`, from the last answer |
//! | a request that is in flight | none here: the service answers in time |
//! | part of a body | `body_progress` between two pieces, by [`read_body`] |
//! | requests whose answers it does not take | `body_progress` without one byte written |
//! | the same, on one HTTP/2 stream | `body_progress` without room for another piece: the stream is reset |
//! | requests whose answers it takes too slowly | when the answer has to have ended, by whoever made it |
//!
//! The last two are for answers that hyper does not ask for more: their own timers are not heard then, whatever they are
//! (`uptake.rs`).
//!
//! An HTTP/2 connection without a request in flight has `keep_alive` whatever frames come, a half-sent head
//! included. Not bounded here: PING and SETTINGS frames, which h2 answers one by one in constant memory.
//!
//! A body of which the answer is sent before it was read (413) is not read to its end: the answer says
//! `connection: close`, the write side is shut, and what still comes in is thrown away until the client
//! closes, for at most five seconds. Closing at once would reset the connection, and with it often the answer.

mod activity;
mod connection;
mod driver;
mod framing;
mod io;
mod listen;
mod read_body;
mod registry;
mod room;
mod serve;
mod service;
mod settings;
mod socket;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod vet;
mod workers;

pub use self::activity::Activity;
pub use self::connection::Connection;
pub use self::listen::bind;
pub use self::read_body::{BodyError, Pace, Whole, read_body};
pub use self::room::Room;
pub use self::serve::serve;
pub use self::settings::{EdgeSettings, EdgeTimeouts};
pub use self::vet::{Malformed, vet};
pub use self::workers::Workers;
