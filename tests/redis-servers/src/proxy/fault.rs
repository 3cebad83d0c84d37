//! What can go wrong between a client and a server.

use std::time::Duration;

use bytes::Bytes;

/// What the proxy does to commands and replies, on open connections and on new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: all is passed on.
    #[default]
    Pass,
    /// Each reply is passed on so much later than it came. Replies that wait come at once when the fault ends.
    Delay(Duration),
    /// Commands are passed on, and replies held until the fault ends; they come then, in order.
    Hold,
    /// Connections are accepted and read, nothing is passed on in either direction, and nothing is answered.
    ///
    /// A connection that has lost something in this way never answers again, not even when the fault has ended:
    /// TCP does not lose bytes from the middle of a connection. Those that were silent meanwhile are as good as new.
    BlackHole,
    /// As if nobody listened: open connections are cut, new ones refused.
    Refuse,
    /// Of the next reply on each connection only so many bytes are passed on; then the connection is cut.
    CutReply {
        /// Replies to which commands; others are passed on.
        to: Commands,
        /// Bytes that are passed on.
        length: usize,
    },
    /// Commands are answered with these bytes in place of being passed on.
    Answer {
        /// Which commands; others are passed on.
        to: Commands,
        /// The answer to each.
        bytes: Bytes,
    },
}

/// Commands that are spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commands {
    /// All of them.
    All,
    /// Those that run scripts: EVAL, EVALSHA and their like.
    Scripts,
}

impl Commands {
    /// Whether a command of this name is one of them.
    pub(super) fn include(self, command: &str) -> bool {
        self == Self::All || is_script(command)
    }
}

impl Fault {
    /// The next reply on each connection, whatever it answers, is cut after so many bytes, and the connection with it.
    #[must_use]
    pub const fn cut_reply(length: usize) -> Self {
        Self::CutReply { to: Commands::All, length }
    }

    /// The next reply to a script on each connection is cut after so many bytes, and the connection with it; others
    /// are passed on, so that connections that are made anew, or merely looked after, stay.
    #[must_use]
    pub const fn cut_script_reply(length: usize) -> Self {
        Self::CutReply { to: Commands::Scripts, length }
    }

    /// Each command is answered with bytes that are no reply at all.
    #[must_use]
    pub fn garbage() -> Self {
        Self::answer("HTTP/1.1 400 Bad Request\r\nserver: not redis\r\n\r\n")
    }

    /// Each command is answered with these bytes.
    #[must_use]
    pub fn answer(bytes: impl Into<Bytes>) -> Self {
        Self::Answer { to: Commands::All, bytes: bytes.into() }
    }

    /// Each command is answered with an error, such as `LOADING Redis is loading the dataset in memory`.
    #[must_use]
    pub fn error(line: &str) -> Self {
        Self::answer(format!("-{line}\r\n"))
    }

    /// Each command that runs a script is answered with these bytes; others are passed on.
    #[must_use]
    pub fn script_answer(bytes: impl Into<Bytes>) -> Self {
        Self::Answer { to: Commands::Scripts, bytes: bytes.into() }
    }

    /// Each command that runs a script is answered with an error, such as `READONLY You can't write against a read
    /// only replica.`; others are passed on, so that the server looks healthy.
    #[must_use]
    pub fn script_error(line: &str) -> Self {
        Self::script_answer(format!("-{line}\r\n"))
    }

    /// What a command is answered in place of being passed on, if it is.
    pub(super) fn answer_to(&self, command: &str) -> Option<Bytes> {
        match self {
            Self::Answer { to, bytes } if to.include(command) => Some(bytes.clone()),
            _ => None,
        }
    }
}

fn is_script(command: &str) -> bool {
    ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"].contains(&command)
}
