//! Counting with the tokenizers of OpenAI's models, within a bound of time.
//!
//! Prose takes some 3 us a KiB, and code 7; a text that never ends a word takes up to 230 (benchmark of reading, on a busy
//! machine), which for a body of megabytes would keep the thread from everybody else for seconds. So a long text is not
//! counted whole: as many bytes are taken in stretches that are spread over it evenly, and stand for the rest. No prompt
//! takes more than some 4 ms.

use tiktoken::CoreBpe;

use super::{
    prompt::{Sink, Text},
    string::Unit,
};

/// Bytes of one prompt that are tokenized.
pub const TOKENIZED_BYTES: usize = 16 * 1_024;
/// Bytes of one stretch of a text that is not tokenized whole. Its two ends cut a word each, so that it is counted up to
/// two tokens too long, in some 250.
const STRETCH: usize = 1_024;

/// Loads the tokenizers.
pub(super) fn prepare() {
    for name in [O200K, CL100K] {
        tiktoken::get_encoding(name);
    }
}

const O200K: &str = "o200k_base";
const CL100K: &str = "cl100k_base";

/// The tokenizer for `model`: the newest, where it is not known.
fn encoding(model: Option<&str>) -> Option<&'static CoreBpe> {
    // Some routers put a provider's name in front.
    let model = model.unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let name = match tiktoken::model_to_encoding(model) {
        Some(CL100K) => CL100K,
        _ => O200K,
    };
    tiktoken::get_encoding(name)
}

/// Counts a text that is told in pieces.
pub(super) struct Counter {
    encoding: &'static CoreBpe,
    /// Bytes of the whole text.
    whole: u64,
    /// Bytes that are passed over after each stretch.
    gap: usize,
    /// Bytes that are still to be taken in this stretch, and bytes that are still to be passed over before the next.
    take: usize,
    pass: usize,
    /// What is taken of the piece at hand.
    stretch: Vec<u8>,
    taken: u64,
    tokens: u64,
}

impl Counter {
    /// For a text of `whole` bytes.
    pub(super) fn new(model: Option<&str>, whole: u64) -> Option<Self> {
        let bytes = usize::try_from(whole).unwrap_or(usize::MAX);
        let (take, gap) = if bytes <= TOKENIZED_BYTES {
            (TOKENIZED_BYTES, 0)
        } else {
            (STRETCH, bytes / (TOKENIZED_BYTES / STRETCH) - STRETCH)
        };
        Some(Self {
            encoding: encoding(model)?,
            whole,
            gap,
            take,
            // Half a gap at each end.
            pass: gap / 2,
            stretch: Vec::new(),
            taken: 0,
            tokens: 0,
        })
    }

    /// What the whole text has.
    pub(super) fn tokens(&self) -> u64 {
        if self.taken >= self.whole {
            return self.tokens;
        }
        let tokens = u128::from(self.tokens) * u128::from(self.whole);
        u64::try_from(tokens.div_ceil(u128::from(self.taken.max(1)))).unwrap_or(u64::MAX)
    }

    fn run(&mut self, mut run: &[u8]) {
        while !run.is_empty() {
            if self.pass > 0 {
                let passed = end_of_char(run, self.pass);
                self.pass = self.pass.saturating_sub(passed);
                run = run.get(passed..).unwrap_or_default();
                continue;
            }
            let taken = end_of_char(run, self.take);
            self.stretch.extend_from_slice(run.get(..taken).unwrap_or_default());
            self.take = self.take.saturating_sub(taken);
            run = run.get(taken..).unwrap_or_default();
            if self.take == 0 {
                self.count();
                (self.take, self.pass) = (STRETCH, self.gap);
            }
        }
    }

    /// Counts what was taken.
    fn count(&mut self) {
        if self.stretch.is_empty() {
            return;
        }
        self.taken += self.stretch.len() as u64;
        self.tokens += self.encoding.count(&String::from_utf8_lossy(&self.stretch)) as u64;
        self.stretch.clear();
    }
}

/// The first place in `text` at or behind `at` where a character ends.
fn end_of_char(text: &[u8], at: usize) -> usize {
    let behind = text.get(at..).unwrap_or_default();
    let rest = behind.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    at.min(text.len()) + rest
}

impl Sink for Counter {
    fn text(&mut self, text: Text<'_>) {
        match text {
            Text::Quoted(quoted) => {
                for unit in quoted.units() {
                    match unit {
                        Unit::Run(run) => self.run(run),
                        Unit::Char(char) => self.run(char.encode_utf8(&mut [0; 4]).as_bytes()),
                    }
                }
            }
            Text::Json(json) => self.run(json),
        }
        // The next text starts a word of its own.
        self.count();
    }

    fn ids(&mut self, _: u64) {}

    fn media(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::string::Quoted;

    fn count(model: &str, texts: &[&str]) -> u64 {
        let whole = texts.iter().map(|text| text.len() as u64).sum();
        let mut counter = Counter::new(Some(model), whole).unwrap();
        for text in texts {
            counter.text(Text::Json(text.as_bytes()));
        }
        counter.tokens()
    }

    #[test]
    fn each_model_has_its_tokenizer() {
        const WORD: &str =
            " \u{4f60}\u{597d}\u{4e16}\u{754c}\u{ff0c}\u{8fd9}\u{662f}\u{4e00}\u{4e2a}\u{6d4b}\u{8bd5}";
        let is = |model, name| std::ptr::eq(encoding(model).unwrap(), tiktoken::get_encoding(name).unwrap());
        for model in
            ["gpt-4o-mini", "gpt-4.1", "gpt-5", "o3-mini", "openai/gpt-4o", "claude-sonnet", "llama", ""]
        {
            assert!(is(Some(model), O200K), "{model}");
        }
        for model in [
            "gpt-4",
            "gpt-4-turbo",
            "gpt-3.5-turbo-0125",
            "text-embedding-3-small",
            "ft:gpt-4:x",
            "a/b/gpt-4",
        ] {
            assert!(is(Some(model), CL100K), "{model}");
        }
        assert!(is(None, O200K));
        assert_ne!(count("gpt-4", &[WORD]), count("gpt-4o", &[WORD]));
    }

    #[test]
    fn tokens_are_those_of_the_model() {
        assert_eq!(count("gpt-4", &["tiktoken is great!"]), 6);
        assert_eq!(count("gpt-4o", &["hello world"]), 2);
        assert_eq!(count("gpt-4o", &["hello", " world", ""]), 2);
        assert_eq!(count("gpt-4o", &[]), 0);
        // Not what its name says: a caller cannot write control tokens.
        assert!(count("gpt-4o", &["<|endoftext|>"]) > 1);
    }

    #[test]
    fn escapes_are_read_before_they_are_counted() {
        let mut counter = Counter::new(Some("gpt-4o"), 11).unwrap();
        counter.text(Text::Quoted(Quoted::read(br#"hel\u006co\u0020world""#).unwrap().0));
        assert_eq!(counter.tokens(), 2);
    }

    #[test]
    fn a_long_text_is_estimated_by_samples_of_it() {
        let words =
            ["lorem", "ipsum", "caf\u{e9}", "\u{4f60}\u{597d}", "x = y + 1;\n", "antidisestablishment"];
        let mut state = 7_u32;
        let text: String = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("{} ", words[(state >> 16) as usize % words.len()])
        })
        .take(60_000)
        .collect();
        let exact = tiktoken::get_encoding(O200K).unwrap().count(&text) as u64;
        let within = |estimate: u64, percent: u64| estimate.abs_diff(exact) * 100 <= exact * percent;
        assert!(text.len() > 20 * TOKENIZED_BYTES);
        assert!(within(count("gpt-4o", &[&text]), 4), "{} {exact}", count("gpt-4o", &[&text]));
        // However it is cut.
        let pieces: Vec<&str> = text.split_inclusive('\n').collect();
        assert!(within(count("gpt-4o", &pieces), 4), "{} {exact}", count("gpt-4o", &pieces));
    }

    #[test]
    fn what_is_tokenized_is_bounded() {
        for bytes in [TOKENIZED_BYTES, TOKENIZED_BYTES + 1, 2 * TOKENIZED_BYTES - 1, 100_000, 3_000_001] {
            let text = "\u{e9}".repeat(bytes / 2);
            let mut counter = Counter::new(None, text.len() as u64).unwrap();
            counter.text(Text::Json(text.as_bytes()));
            let taken = usize::try_from(counter.taken).unwrap();
            assert!(taken >= text.len().min(TOKENIZED_BYTES - STRETCH), "{bytes} {taken}");
            assert!(taken <= TOKENIZED_BYTES + 2 * STRETCH, "{bytes} {taken}");
        }
    }
}
