//! `POST /v1/embeddings`.

use serde::Deserialize;
use serde_json::json;

use super::Answer;
use super::base64;
use super::refusal::Refusal;
use super::text::{fingerprint, tokens};
use super::usage::Telling;

const DEFAULT_DIMENSIONS: usize = 16;
const MAX_DIMENSIONS: usize = 4096;
/// As many inputs as OpenAI's API takes at once.
const MAX_INPUTS: usize = 2048;
/// Numbers in one answer, so that a small request does not make a huge one.
const MAX_NUMBERS: usize = 1_000_000;

#[derive(Deserialize)]
struct Request {
    model: String,
    input: Input,
    #[serde(default)]
    dimensions: Option<usize>,
    #[serde(default)]
    encoding_format: Option<EncodingFormat>,
    #[serde(default)]
    echo_usage: Telling,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Tokens(Vec<u64>),
    Texts(Vec<String>),
    TokenLists(Vec<Vec<u64>>),
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncodingFormat {
    #[default]
    Float,
    Base64,
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, Refusal> {
    let request: Request = serde_json::from_slice(body)?;
    let dimensions = request.dimensions.unwrap_or(DEFAULT_DIMENSIONS);
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        let message = format!("'dimensions' must be between 1 and {MAX_DIMENSIONS}.");
        return Err(Refusal::invalid("dimensions", message));
    }
    let inputs = request.input.inputs();
    if inputs.is_empty() || inputs.len() > MAX_INPUTS {
        return Err(Refusal::invalid(
            "input",
            format!("'input' must hold between 1 and {MAX_INPUTS} inputs."),
        ));
    }
    if inputs.len() * dimensions > MAX_NUMBERS {
        let message = format!("'dimensions' times the inputs must be at most {MAX_NUMBERS}.");
        return Err(Refusal::invalid("dimensions", message));
    }
    let format = request.encoding_format.unwrap_or_default();
    let data = inputs.iter().enumerate().map(|(index, (seed, _))| {
        let vector = vector(*seed, dimensions);
        let embedding = match format {
            EncodingFormat::Float => json!(vector),
            EncodingFormat::Base64 => {
                let bytes: Vec<u8> = vector.into_iter().flat_map(f32::to_le_bytes).collect();
                json!(base64::encode(&bytes))
            }
        };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    });
    let tokens: u64 = inputs.iter().map(|(_, tokens)| tokens).sum();
    Answer::json(&request.echo_usage.apply(json!({
        "object": "list",
        "model": request.model,
        "data": data.collect::<Vec<_>>(),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })))
}

impl Input {
    /// What each input's vector grows from, and its length in tokens.
    fn inputs(&self) -> Vec<(u64, u64)> {
        let text = |text: &String| (fingerprint(text.as_bytes()), tokens(text.len()));
        let list = |list: &Vec<u64>| {
            let bytes: Vec<u8> = list.iter().flat_map(|token| token.to_le_bytes()).collect();
            (fingerprint(&bytes), list.len() as u64)
        };
        match self {
            Self::Text(one) => vec![text(one)],
            Self::Tokens(one) if one.is_empty() => Vec::new(),
            Self::Tokens(one) => vec![list(one)],
            Self::Texts(many) => many.iter().map(text).collect(),
            Self::TokenLists(many) => many.iter().map(list).collect(),
        }
    }
}

/// A vector of length one that depends on the seed alone (the numbers are SplitMix64's, by G. Steele et al., 2014).
fn vector(seed: u64, dimensions: usize) -> Vec<f32> {
    let mut state = seed;
    let mut vector: Vec<f32> = (0..dimensions)
        .map(|_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            // The top 16 bits, which a float holds exactly, centred on zero without ever being zero.
            let top = u16::try_from((mixed ^ mixed >> 31) >> 48).unwrap_or(0);
            f32::from(top) - 32_767.5
        })
        .collect();
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    for value in &mut vector {
        *value /= length;
    }
    vector
}
