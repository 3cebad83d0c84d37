//! Why a request had no answer, and what may be concluded from that.

use std::borrow::Cow;
use std::io;

use redis::{RedisError, ServerError, ServerErrorKind};

use super::script::Nonsense;
use super::voice::on_one_line;
use crate::StoreError;

/// Why a request had no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server is not asked at present. The last thing that was wrong with it.
    Down(Option<RedisError>),
    /// As many requests as there may be are under way.
    Crowded,
    /// No answer in time.
    Timeout,
    /// The connection had been lost before: nothing was sent.
    Unsent(RedisError),
    /// The connection broke.
    Broken(RedisError),
    /// The server says that it did not do it, and that it could not.
    Refused(ServerError),
    /// The server says that it did not do it, since it does not know the script.
    NoScript,
    /// The server says that it did not do it, since another server should.
    Elsewhere(Redirection),
    /// The server says that something went wrong, perhaps half-way.
    Failed(ServerError),
    /// The answer makes no sense.
    Nonsense(Nonsense),
}

/// Where a cluster sends a request that came to the wrong server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// To the server that has the slot from now on.
    Moved { slot: u16, address: String },
    /// This once, to the server that is about to get the slot.
    Ask { address: String },
    /// Nowhere: half of the keys have moved. Later it will be known.
    Later,
}

/// What a failure says about the connection or the server it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concern {
    /// Nothing: the request was wrong, or went to the wrong place.
    None,
    /// The server may be unable to serve; several in a row say that it is.
    Doubt,
    /// The connection is of no use any more.
    Redial,
}

impl Failure {
    pub(super) fn of_server(error: ServerError) -> Self {
        match error.kind() {
            Some(ServerErrorKind::NoScript) => Self::NoScript,
            Some(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::TryAgain) => {
                redirection(&error).map_or(Self::Refused(error), Self::Elsewhere)
            }
            // What every error is called that has no name of its own.
            Some(ServerErrorKind::ResponseError) if !is_refusal(&error) => Self::Failed(error),
            _ if error.code() == "WRONGTYPE" => Self::Failed(error),
            _ => Self::Refused(error),
        }
    }

    pub(super) fn of_connection(error: RedisError) -> Self {
        if error.kind() == redis::ErrorKind::Parse {
            Self::Nonsense("not the protocol of Redis")
        } else {
            Self::Broken(error)
        }
    }

    /// Whether the server may have done what it was asked to.
    pub(super) const fn may_have_happened(&self) -> bool {
        match self {
            Self::Timeout | Self::Broken(_) | Self::Failed(_) | Self::Nonsense(_) => true,
            Self::Down(_)
            | Self::Crowded
            | Self::Unsent(_)
            | Self::Refused(_)
            | Self::NoScript
            | Self::Elsewhere(_) => false,
        }
    }

    /// Whether the server has answered, as one does that is well, what is to be done instead.
    pub(super) const fn is_direction(&self) -> bool {
        matches!(self, Self::NoScript | Self::Elsewhere(_))
    }

    pub(super) fn concern(&self) -> Concern {
        match self {
            Self::Down(_) | Self::Crowded | Self::NoScript | Self::Elsewhere(_) | Self::Failed(_) => {
                Concern::None
            }
            Self::Timeout => Concern::Doubt,
            Self::Unsent(_) | Self::Broken(_) | Self::Nonsense(_) => Concern::Redial,
            Self::Refused(error) => match (error.kind(), error.code()) {
                // Demoted, or never a master.
                (Some(ServerErrorKind::ReadOnly), _) | (_, "NOAUTH") => Concern::Redial,
                _ => Concern::Doubt,
            },
        }
    }

    /// Whether the script itself was refused in this form.
    pub(super) fn refuses_command(&self) -> bool {
        match self {
            Self::Refused(error) => error.kind() == Some(ServerErrorKind::NoPerm) || is_refusal(error),
            _ => false,
        }
    }

    /// The error for those who only look at what is wrong with a server. It is on one line, whatever the server said.
    pub(super) fn to_redis(&self) -> RedisError {
        let error = self.as_it_came();
        match on_one_line(&error.to_string()) {
            Cow::Borrowed(_) => error,
            Cow::Owned(line) => io::Error::other(line).into(),
        }
    }

    fn as_it_came(&self) -> RedisError {
        match self {
            Self::Down(Some(error)) | Self::Unsent(error) | Self::Broken(error) => error.clone(),
            Self::Refused(error) | Self::Failed(error) => error.clone().into(),
            Self::Down(None) => io::Error::new(io::ErrorKind::NotConnected, "not connected").into(),
            Self::Crowded => io::Error::new(io::ErrorKind::WouldBlock, "too many requests under way").into(),
            Self::Timeout => io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into(),
            Self::NoScript => io::Error::other("the script is not known, although it was sent").into(),
            Self::Elsewhere(to) => {
                io::Error::other(format!("the server sends requests to another: {to:?}")).into()
            }
            Self::Nonsense(what) => {
                let what = format!("an answer that makes no sense: {what}");
                io::Error::new(io::ErrorKind::InvalidData, what).into()
            }
        }
    }
}

impl From<Nonsense> for Failure {
    fn from(nonsense: Nonsense) -> Self {
        Self::Nonsense(nonsense)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Timeout => Self::Timeout,
            Failure::Down(error) => Self::Unavailable(error.map(Into::into)),
            Failure::Failed(_) | Failure::Nonsense(_) => Self::Protocol(Some(failure.to_redis().into())),
            other => Self::Unavailable(Some(other.to_redis().into())),
        }
    }
}

/// Errors without a name of their own that say that a command is not available, or that a server is full.
fn is_refusal(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    error.code() == "ERR"
        && ["unknown command", "max number of clients", "unknown subcommand"]
            .iter()
            .any(|start| details.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start)))
}

fn redirection(error: &ServerError) -> Option<Redirection> {
    if error.kind() == Some(ServerErrorKind::TryAgain) {
        return Some(Redirection::Later);
    }
    let (slot, address) = error.details()?.split_once(' ')?;
    let address = address.to_owned();
    match error.kind()? {
        ServerErrorKind::Moved => Some(Redirection::Moved { slot: slot.parse().ok()?, address }),
        ServerErrorKind::Ask => Some(Redirection::Ask { address }),
        _ => None,
    }
}
