use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest number of tokens that one answer is taken to have.
const MOST_OUTPUT: u32 = 1_000_000_000;

/// How many tokens a request is taken to need until its backend tells how many it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tokens {
    /// Tokens that are reserved for the answer to a request that does not say how long it may be, for each answer
    /// that it asks for. A budget that holds less reserves what it can hold.
    #[schemars(range(max = MOST_OUTPUT))]
    pub default_output: NonZeroU32,
    /// Bytes of text that are taken for one token: of a prompt, by `estimator: bytes`, and of an answer whose backend tells
    /// no usage.
    #[schemars(range(max = 1000))]
    pub bytes_per_token: NonZeroU32,
    /// How the tokens of a prompt are counted before a backend has counted them.
    pub estimator: TokenEstimator,
}

/// How the tokens of a prompt are counted before a backend has counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TokenEstimator {
    /// By the length of its text, in `bytes_per_token`. It costs next to nothing, and is right within a factor for most
    /// languages.
    #[default]
    Bytes,
    /// By the tokenizers of OpenAI's models, for a long text in samples of it. It is closer, and costs time and memory.
    Tiktoken,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            default_output: const { NonZeroU32::new(512).unwrap() },
            bytes_per_token: const { NonZeroU32::new(4).unwrap() },
            estimator: TokenEstimator::default(),
        }
    }
}
