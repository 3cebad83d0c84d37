//! What a request shows to say who it is.

use std::fmt;

use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, HeaderName},
};

use crate::secret;

static X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The API key a request presents, already hashed.
///
/// It holds the SHA-256 of the key and nothing else, so nothing that is passed a credential can leak the key.
pub struct Credential {
    sha256: [u8; 32],
}

/// A request presents something that cannot be an API key.
///
/// It is to be answered like a wrong key, never like an absent one: otherwise sending garbage would buy the laxer
/// treatment that anonymous requests may enjoy. None of the variants carries any part of what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedCredential {
    /// `Authorization` names no scheme, or another one than `Bearer`.
    #[error("the authorization scheme is not bearer")]
    Scheme,
    /// A header is there without a key in it.
    #[error("the api key is empty")]
    Empty,
    /// The key holds a space, a control character or a byte beyond ASCII.
    #[error("the api key holds a character that no key has")]
    Character,
    /// More than one line of the same header.
    #[error("a credential header is repeated")]
    Repeated,
    /// `Authorization` and `x-api-key` hold different keys.
    #[error("two headers hold different api keys")]
    Conflict,
}

// === impl Credential ===

impl Credential {
    /// The headers a credential is read from; a proxy drops both before it passes a request on.
    pub const HEADERS: [&'static str; 2] = ["authorization", "x-api-key"];

    /// Reads `Authorization: Bearer …` or `x-api-key: …`; `None` if neither header is there.
    ///
    /// Both headers may be there if they hold the same key.
    ///
    /// # Errors
    ///
    /// [`MalformedCredential`] if a header is there and cannot be used.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, MalformedCredential> {
        let bearer = only_line(headers, &AUTHORIZATION)?.map(bearer_token).transpose()?;
        let plain = only_line(headers, &X_API_KEY)?.map(|line| token(line.as_bytes())).transpose()?;
        match (bearer, plain) {
            // Both come from the caller, who learns nothing from how long the comparison takes.
            (Some(bearer), Some(plain)) if bearer != plain => Err(MalformedCredential::Conflict),
            (Some(key), _) | (None, Some(key)) => Ok(Some(Self { sha256: secret::sha256(key) })),
            (None, None) => Ok(None),
        }
    }

    pub(crate) const fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(redacted)")
    }
}

fn only_line<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, MalformedCredential> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (line, None) => Ok(line),
        (_, Some(_)) => Err(MalformedCredential::Repeated),
    }
}

/// The token of `Bearer 1*SP token`; the scheme's case does not matter (RFC 9110, section 11.1).
fn bearer_token(line: &HeaderValue) -> Result<&[u8], MalformedCredential> {
    let line = line.as_bytes();
    let (scheme, rest) = match line.iter().position(|&byte| byte == b' ') {
        Some(space) => line.split_at(space),
        None => (line, [].as_slice()),
    };
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(if line.is_empty() { MalformedCredential::Empty } else { MalformedCredential::Scheme });
    }
    token(rest)
}

/// The key inside the optional white space that a header value may have around it.
fn token(bytes: &[u8]) -> Result<&[u8], MalformedCredential> {
    let key = bytes.trim_ascii();
    if key.is_empty() {
        return Err(MalformedCredential::Empty);
    }
    if !secret::is_visible(key) {
        return Err(MalformedCredential::Character);
    }
    Ok(key)
}
