//! Titles of keys, as editors show them above a description.

/// Words that are not written as in keys.
const WORDS: [(&str, &str); 7] = [
    ("api", "API"),
    ("ca", "CA"),
    ("id", "ID"),
    ("ipv4", "IPv4"),
    ("ipv6", "IPv6"),
    ("sha256", "SHA-256"),
    ("url", "URL"),
];

/// `max_wait_ms` as `Max wait (ms)`.
pub(super) fn of(key: &str) -> String {
    let (name, unit) = match key.rsplit_once('_') {
        Some((name, "ms")) => (name, " (ms)"),
        Some((name, "bytes")) => (name, " (bytes)"),
        _ => (key, ""),
    };
    let words =
        name.split('_').enumerate().map(|(n, word)| match WORDS.iter().find(|(key, _)| *key == word) {
            Some((_, written)) => (*written).to_owned(),
            None if n == 0 => capitalised(word),
            None => word.to_owned(),
        });
    format!("{}{unit}", words.collect::<Vec<_>>().join(" "))
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_title_reads_like_words() {
        let titles =
            ["max_wait_ms", "max_body_bytes", "bytes_per_token", "per_api_key", "url", "sha256"].map(of);
        let expected =
            ["Max wait (ms)", "Max body (bytes)", "Bytes per token", "Per API key", "URL", "SHA-256"];
        assert_eq!(titles, expected);
    }
}
