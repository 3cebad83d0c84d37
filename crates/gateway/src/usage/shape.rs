//! Where answers of one API have what matters.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{skim::Skim, tally::Tally};

static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"text\""));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));

/// Where answers have what matters.
#[derive(Debug)]
pub(super) struct Shape {
    /// The top-level object that may have the usage in it. Otherwise it is at the top level itself.
    pub(super) wrapper: &'static [u8],
    pub(super) output: Output,
    /// Reads a usage object.
    pub(super) read_usage: fn(&[u8]) -> Option<Tally>,
}

/// Where the text of the output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// In every `delta`, however deep.
    Deltas,
    /// In every `text`.
    Texts,
    /// In the members of a whole answer that are output.
    Document,
}

impl Shape {
    /// Whether what stands behind this key is output.
    pub(super) fn is_output(&self, key: &[u8], depth: u32) -> bool {
        match self.output {
            Output::Deltas => key == b"delta",
            Output::Texts => key == b"text",
            Output::Document => depth == 1 && matches!(key, b"choices" | b"output" | b"content" | b"text"),
        }
    }

    /// Bytes of output text in the data of a whole event. Finds them without reading the rest.
    pub(super) fn output_bytes(&'static self, data: &[u8]) -> u64 {
        let finder = match self.output {
            Output::Deltas => &*DELTA,
            Output::Texts => &*TEXT,
            Output::Document => return 0,
        };
        let (mut bytes, mut rest) = (0_u64, data);
        while let Some(value) = value_behind(finder, &mut rest) {
            let mut skim = Skim::of_output(self);
            let read = match value.first() {
                Some(b'"' | b'{' | b'[') => skim.feed(value),
                _ => 0,
            };
            rest = value.get(read..).unwrap_or_default();
            bytes = bytes.saturating_add(skim.found().output_bytes);
        }
        bytes
    }
}

/// Whether the data may have a usage object in it. A usage that is `null` is none: some backends write one into every chunk.
pub(super) fn may_have_usage(data: &[u8]) -> bool {
    let mut rest = data;
    while let Some(value) = value_behind(&USAGE, &mut rest) {
        if value.first() == Some(&b'{') {
            return true;
        }
        rest = value;
    }
    false
}

/// What stands behind the next such key; `rest` is what stands behind the key itself.
fn value_behind<'a>(key: &Finder<'_>, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    loop {
        let behind = rest.get(key.find(rest)? + key.needle().len()..)?;
        *rest = behind;
        if let Some(value) = behind.trim_ascii_start().strip_prefix(b":") {
            return Some(value.trim_ascii_start());
        }
    }
}
