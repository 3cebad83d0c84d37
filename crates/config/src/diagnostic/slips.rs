//! What may be shown of a line of a file that cannot be read: the words that the schema knows, and what follows a key
//! that is never a secret.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use serde_json::Value as Json;

use super::excerpt::{Show, Token};
use crate::schema::Document;

/// The words of the schema.
#[derive(Default)]
struct Words {
    /// Its keys, each with whether its values may be shown wherever it occurs.
    keys: HashMap<&'static str, bool>,
    /// Its choices.
    choices: HashSet<&'static str>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let mut words = Words::default();
    words.take(Document::Configuration.schema());
    words.choices.extend(["true", "false", "null"]);
    words
});

impl Words {
    fn take(&mut self, schema: &'static Json) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let scalar = if property["type"] == "array" { &property["items"] } else { property };
            let is_public = scalar["type"] != "object" && scalar["writeOnly"] != true && key != "tenant";
            *self.keys.entry(key).or_insert(true) &= is_public;
            self.take(property);
        }
        for variant in schema["oneOf"].as_array().into_iter().flatten() {
            self.choices.extend(variant["const"].as_str());
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(schema) = schema.get(keyword) {
                self.take(schema);
            }
        }
        for schema in schema["patternProperties"].as_object().into_iter().flat_map(|map| map.values()) {
            self.take(schema);
        }
    }
}

/// The parts of a line that may be shown.
pub(super) fn tokens(line: &str) -> Vec<Token> {
    let letters: Vec<char> = line.chars().collect();
    // A URL may hold a password.
    let has_at = letters.contains(&'@');
    let mut found = Vec::new();
    let mut after_public_key = false;
    let mut at = 0;
    while at < letters.len() {
        if letters[at] == '#' && (at == 0 || letters[at - 1].is_whitespace()) {
            break;
        }
        if !is_word(letters[at]) {
            at += 1;
            continue;
        }
        let end = letters[at..].iter().position(|c| !is_word(*c)).map_or(letters.len(), |length| at + length);
        let word: String = letters[at..end].iter().collect();
        let show = if is_key(&letters[end..]) {
            after_public_key = WORDS.keys.get(word.as_str()).is_some_and(|public| *public);
            is_known(&word)
        } else {
            is_known(&word) || (after_public_key && !has_at)
        };
        if show {
            let column = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
            found.push(Token { start: column(at), end: column(end), show: Show::Plain });
        }
        at = end;
    }
    found
}

fn is_word(c: char) -> bool {
    !(c.is_whitespace() || "{}[](),:=?|>&*!\"'#".contains(c))
}

/// Whether what follows a word makes it a key.
fn is_key(rest: &[char]) -> bool {
    let quoted = matches!(rest.first(), Some('"' | '\''));
    let rest = &rest[usize::from(quoted)..];
    let blanks = rest.iter().take_while(|c| matches!(c, ' ' | '\t')).count();
    match &rest[blanks..] {
        ['=', ..] | [':'] => true,
        [':', next, ..] => quoted || next.is_whitespace(),
        _ => false,
    }
}

/// Whether a word, or each part of a dotted one, is one of the schema's.
fn is_known(word: &str) -> bool {
    let known = |word: &str| WORDS.keys.contains_key(word) || WORDS.choices.contains(word);
    word.split('.').all(known)
}
