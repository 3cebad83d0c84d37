//! What reading a request for its charges costs, per KiB of its body: `cargo bench -p fairlane-gateway --bench reading`.
//!
//! Each body is read for its model alone, as where no token limit is configured; for its tokens; and with its tokens
//! counted by a tokenizer. The median of many rounds is printed. The program ends well whatever the figures are.
#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fairlane_gateway::request::{self, Api, Counting, Estimator, Kind};
use futures_util::FutureExt;
use http::HeaderMap;
use serde_json::json;

/// What is asked: time per KiB of body, in nanoseconds, where tokens are wanted.
const MOST_NS_PER_KIB: f64 = 1_000.0;

const KIB: usize = 1_024;
const SIZES: [(&str, usize); 3] = [("1 KiB", KIB), ("16 KiB", 16 * KIB), ("1 MiB", KIB * KIB)];

const PROSE: &str =
    "The quick brown fox jumps over the lazy dog, and then it thinks about what it has done all day. ";
const CODE: &str =
    "    let name = \"fox\";\n\tif path == \"C:\\\\dogs\" {\n        return Err(name);\n    }\n";
const CHINESE: &str = "\u{654f}\u{6377}\u{7684}\u{68d5}\u{8272}\u{72d0}\u{72f8}\u{8df3}\u{8fc7}\u{4e86}\u{61d2}\u{72d7}\u{3002}";

type BoxError = Box<dyn std::error::Error>;

fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    // `cargo test --benches` does not say `--bench`, and only wants to see that it works.
    let rounds = match (has("--bench"), has("--quick")) {
        (false, _) => 1,
        (true, true) => 21,
        (true, false) => 201,
    };
    Estimator::Tiktoken.prepare();

    println!(
        "{:<10}{:<34}{:>14}{:>14}{:>16}",
        "", "median time per KiB of body", "model alone", "tokens", "tokenizer"
    );
    let mut worst: f64 = 0.0;
    for (size_name, size) in SIZES {
        for (name, body) in bodies(size) {
            let kib = body.len() as f64 / KIB as f64;
            let cost =
                |counting| Ok::<_, BoxError>(median(rounds, &body, counting)?.as_secs_f64() * 1e9 / kib);
            let alone = cost(None)?;
            let bytes = cost(Some(Counting { api: Api::Chat, estimator: Estimator::Bytes }))?;
            let tokens = cost(Some(Counting { api: Api::Chat, estimator: Estimator::Tiktoken }))?;
            println!("{size_name:<10}{name:<34}{alone:>11.0} ns{bytes:>11.0} ns{:>13.2} us", tokens / 1e3);
            worst = worst.max(bytes);
        }
    }
    let verdict = if worst <= MOST_NS_PER_KIB { "PASS" } else { "MISS" };
    println!("\n{verdict}  dearest body, tokens wanted: {worst:.0} ns per KiB (bar: {MOST_NS_PER_KIB:.0})");
    Ok(())
}

/// Bodies of about `size` bytes.
fn bodies(size: usize) -> Vec<(&'static str, Bytes)> {
    // Not what takes the place of text in each of them.
    let room = size.saturating_sub(100);
    let text = |of: &str, written: usize| of.repeat(room / written);
    let chat = |content: String| json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": content }], "stream": true });
    let turns: Vec<_> = (0..room / 100)
        .map(|turn| {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            json!({ "role": role, "content": &PROSE[..64] })
        })
        .collect();
    let tools: Vec<_> = (0..room / 110)
        .map(|_| json!({ "type": "function", "function": { "name": "look", "parameters": { "properties": { "at": {} } } } }))
        .collect();
    let ids: Vec<_> = (0..room / 6).map(|id| 10_000 + id % 90_000).collect();
    let picture = json!({ "type": "image_url", "image_url": { "url": text("iVBORw0KGgo", 11) } });
    let ascii = chat(text(CHINESE, 6 * CHINESE.chars().count())).to_string();
    vec![
        ("prose", Bytes::from(chat(text(PROSE, PROSE.len())).to_string())),
        ("a word without end", Bytes::from(chat(text("a", 1)).to_string())),
        ("code, an escape in 12 bytes", Bytes::from(chat(text(CODE, CODE.len() + 12)).to_string())),
        ("Chinese", Bytes::from(chat(text(CHINESE, CHINESE.len())).to_string())),
        ("Chinese, all of it escaped", Bytes::from(escape(&ascii))),
        ("many short messages", Bytes::from(json!({ "model": "gpt-4o", "messages": turns }).to_string())),
        ("tools", Bytes::from(json!({ "model": "gpt-4o", "tools": tools }).to_string())),
        ("token ids", Bytes::from(json!({ "model": "gpt-4o", "messages": ids }).to_string())),
        (
            "a picture",
            Bytes::from(json!({ "model": "gpt-4o", "messages": [{ "content": [picture] }] }).to_string()),
        ),
    ]
}

/// `json` with all that is not ASCII escaped.
fn escape(json: &str) -> String {
    json.chars().fold(String::new(), |mut escaped, char| {
        let mut units = [0; 2];
        match char {
            '\0'..='\x7f' => escaped.push(char),
            _ => char.encode_utf16(&mut units).iter().for_each(|unit| escaped += &format!("\\u{unit:04x}")),
        }
        escaped
    })
}

/// The typical time of one reading.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn median(rounds: usize, body: &Bytes, counting: Option<Counting>) -> Result<Duration, BoxError> {
    let headers = HeaderMap::new();
    let kind = Kind::Json { model_required: true };
    // Some tens of microseconds a round, so that reading the clock does not show.
    let runs = (64 * KIB / body.len()).max(1);
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..runs {
            let reading = request::read(kind, &headers, black_box(body), counting).now_or_never();
            black_box(reading.ok_or("a JSON body is read at once")?.map_err(|fault| format!("{fault:?}"))?);
        }
        times.push(start.elapsed() / u32::try_from(runs)?);
    }
    times.sort_unstable();
    times.get(rounds / 2).copied().ok_or_else(|| "no round".into())
}
