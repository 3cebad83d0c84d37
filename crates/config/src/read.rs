//! From a file to its text.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileTypeExt as _,
    path::Path,
};

use crate::{
    diagnostic::{Diagnostic, KeyPath, Kind, Span},
    tree::{Format, Lines},
};

/// The largest file that is read, in bytes: far more than 100 000 keys need.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Reads a file whose ending tells its form, or tells why it cannot. `what` is what the file is to be.
pub(crate) fn read(path: &Path, what: &str) -> Result<(Vec<u8>, Format), Diagnostic> {
    let refuse = |message: String| Diagnostic::error(Kind::Unreadable, KeyPath::root(), message);
    let format =
        Format::of(path).ok_or_else(|| refuse(format!("{what} ends in .yaml, .yml, .toml or .json")))?;
    let bytes = read_bounded(path).map_err(|error| refuse(format!("the file cannot be read: {error}")))?;
    if bytes.len() > MOST_BYTES {
        return Err(refuse(format!("the file is longer than {MOST_BYTES} bytes")));
    }
    Ok((bytes, format))
}

/// Reads a file up to just beyond the bound: it may be a device without end.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let kind = fs::metadata(path)?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        // Opening a pipe waits for somebody who writes to it, perhaps for ever.
        return Err(io::Error::other("it is a pipe or a socket, and no file"));
    }
    File::open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes of a file as text.
pub(crate) fn decode(bytes: &[u8]) -> Result<&str, Diagnostic> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let refuse = |message: &str| Diagnostic::error(Kind::Syntax, KeyPath::root(), message);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        refuse("the file is not UTF-8").at(Span::point(Lines::new(&valid).position(valid.len())))
    })?;
    match text.find(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        Some(at) => Err(refuse("here is a control character").at(Span::point(Lines::new(text).position(at)))),
        None => Ok(text),
    }
}
