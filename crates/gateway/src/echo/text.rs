//! Texts of requests, cut and counted.

use serde::Deserialize;

use super::MAX_ANSWER_BYTES;
use super::refusal::Refusal;

/// What one token stands for.
pub(super) const BYTES_PER_TOKEN: usize = 4;

/// What a message says when nobody said anything.
const NOTHING_SAID: &str = "Hello from Fairlane.";

/// Text as the APIs accept it: alone, in typed parts, or not at all.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    #[default]
    None,
    Text(String),
    Parts(Vec<Part>),
}

/// One part of a message; parts without text, such as images, count for nothing.
#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(default)]
    text: Option<String>,
}

/// One message of a conversation.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) role: String,
    #[serde(default)]
    pub(super) content: Content,
}

/// The text of an answer, and whether a cap cut it short.
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// The number of tokens of so many bytes of text.
pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// Identifies a request, so that the same one is answered with the same id (64-bit FNV-1a; nothing hangs on it).
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Cuts a text into the pieces of a stream, one token each.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // A character longer than what is left of the token goes with it whole.
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(BYTES_PER_TOKEN));
        rest = after;
        Some(piece)
    })
}

// === impl Content ===

impl Content {
    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let (whole, parts) = match self {
            Self::None => (None, &[][..]),
            Self::Text(text) => (Some(text.as_str()), &[][..]),
            Self::Parts(parts) => (None, parts.as_slice()),
        };
        whole.into_iter().chain(parts.iter().filter_map(|part| part.text.as_deref()))
    }
}

// === impl Reply ===

impl Reply {
    /// What is answered to a text, under an output cap in tokens.
    ///
    /// # Errors
    ///
    /// A cap of zero.
    pub(super) fn to(said: &Content, cap: Option<u64>, param: &'static str) -> Result<Self, Refusal> {
        if cap == Some(0) {
            return Err(Refusal::invalid(param, format!("'{param}' must be at least 1.")));
        }
        let mut text = String::new();
        for said in said.texts() {
            let room = MAX_ANSWER_BYTES - text.len();
            text.push_str(&said[..said.floor_char_boundary(room)]);
        }
        if text.is_empty() {
            text.push_str(NOTHING_SAID);
        }
        let room =
            cap.and_then(|cap| usize::try_from(cap).ok()).and_then(|cap| cap.checked_mul(BYTES_PER_TOKEN));
        let is_cut = room.is_some_and(|room| text.len() > room);
        if let Some(room) = room.filter(|_| is_cut) {
            // At least one character, as a cap is at least one token, and a character at most as long.
            text.truncate(text.floor_char_boundary(room));
        }
        Ok(Self { text, is_cut })
    }

    /// What is answered to a conversation: the last thing the user said.
    ///
    /// # Errors
    ///
    /// See [`Reply::to`].
    pub(super) fn to_last(
        messages: &[Message],
        cap: Option<u64>,
        param: &'static str,
    ) -> Result<Self, Refusal> {
        let said = messages.iter().rev().find(|message| message.role == "user");
        Self::to(said.map_or(&Content::None, |message| &message.content), cap, param)
    }

    /// Its length in tokens.
    pub(super) fn tokens(&self) -> u64 {
        tokens(self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_pieces(text: &str, expected: &[&str]) {
        assert_eq!(pieces(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn pieces_are_tokens_and_never_split_a_character() {
        check_pieces("", &[]);
        check_pieces("abcdefgh!", &["abcd", "efgh", "!"]);
        check_pieces("abcäöü", &["abcä", "öü"]);
        check_pieces("😀😀", &["😀", "😀"]);
    }

    #[test]
    fn an_answer_is_bounded() {
        let long = Content::Text("ä".repeat(MAX_ANSWER_BYTES));
        let reply = Reply::to(&long, None, "max_tokens").unwrap();
        assert_eq!((reply.text.len(), reply.is_cut), (MAX_ANSWER_BYTES, false));
        let parts =
            Content::Parts(vec![Part { text: Some("x".repeat(MAX_ANSWER_BYTES - 1)) }, Part { text: None }]);
        assert_eq!(Reply::to(&parts, None, "max_tokens").unwrap().text.len(), MAX_ANSWER_BYTES - 1);
    }

    #[test]
    fn a_cap_cuts_an_answer_and_says_so() {
        let said = Content::Text("0123456789".into());
        let cut = Reply::to(&said, Some(2), "max_tokens").unwrap();
        assert_eq!((cut.text.as_str(), cut.is_cut, cut.tokens()), ("01234567", true, 2));
        let whole = Reply::to(&said, Some(3), "max_tokens").unwrap();
        assert_eq!((whole.text.as_str(), whole.is_cut, whole.tokens()), ("0123456789", false, 3));
        assert!(!Reply::to(&said, Some(u64::MAX), "max_tokens").unwrap().is_cut);
        assert!(Reply::to(&said, Some(0), "max_tokens").is_err());
    }
}
