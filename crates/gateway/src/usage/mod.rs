//! What an answer used of its caller's token budgets.
//!
//! A backend tells its usage in the answer itself, mostly at its end. [`Watch::body`] wraps the answer's body, looks at what
//! passes by, and reports an [`Outcome`] exactly once, however the answer ends; [`spent`] turns that into what the request
//! settles to. Nothing is buffered, delayed or changed on the way, except that a usage chunk that only the gateway asked
//! for can be kept from the caller.
//!
//! Where no usage comes, the output is estimated by the bytes of its text: of the deltas of a stream (content, reasoning,
//! arguments of tools, of every choice), of the choices of a whole answer. Names, ids, types and log probabilities around
//! it do not count. Bytes are what the estimate of a prompt counts, too, and events would not do: a model may put one
//! token into each, or a sentence.

mod alike;
mod anthropic;
mod glance;
mod look;
mod openai;
mod settle;
mod shape;
mod skim;
mod sse;
mod tally;
mod watch;
mod withhold;

use std::num::NonZeroU32;

pub use self::settle::{Ending, correction, spent};
pub use self::watch::Watched;
use crate::request::Api;

/// The tokens of one answer, as the backend counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, cached ones among them.
    pub prompt: u64,
    /// Tokens of the output.
    pub output: u64,
    /// All tokens: what is charged. At least the sum of the two, and more where a backend counts what is neither.
    pub total: u64,
}

/// What was seen of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The usage that the backend told, if it did.
    pub usage: Option<Usage>,
    /// Estimated tokens of output that were seen and that no usage covers: those after the last usage, or, without any,
    /// all of them.
    pub observed_output: u64,
    /// How the answer ended.
    pub ended: Ended,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The backend sent all of it.
    Complete,
    /// Whoever read it gave it up.
    Dropped,
    /// The backend failed in the middle.
    Failed,
}

/// Takes the outcome of one answer.
pub trait Settle {
    /// Takes it. Called once, perhaps from a destructor: it must not block, and must not panic.
    fn settle(self, outcome: Outcome);
}

impl<F: FnOnce(Outcome)> Settle for F {
    fn settle(self, outcome: Outcome) {
        self(outcome);
    }
}

/// How an answer is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The API it speaks.
    pub api: Api,
    /// Bytes of output that are taken for one token, where no usage tells.
    pub bytes_per_token: NonZeroU32,
    /// Whether the chunk that has the usage and nothing else is kept from the caller, because only the gateway asked for
    /// it.
    pub hide_usage: bool,
}

#[cfg(test)]
mod tests;
