//! Where a backend is.

use std::{fmt, net::Ipv6Addr, str::FromStr, time::Duration};

use super::ValueError;

/// The shape that the schema asks for; the details are checked by the parser.
pub(crate) const PATTERN: &str = r"^(https?://[^\s/?#]+(/[^\s?#]*)?|builtin:echo(\?[a-z0-9_=&]*)?)$";

/// Where a backend is: a server, or the embedded one for trying things out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendUrl {
    /// Plain text HTTP.
    Http(ServerUrl),
    /// HTTP over TLS.
    Https(ServerUrl),
    /// `builtin:echo`, the embedded OpenAI-compatible backend.
    Echo {
        /// Time before the first byte of the answer (`latency_ms`).
        latency: Duration,
        /// Time between two chunks of a stream (`chunk_ms`).
        chunk_interval: Duration,
    },
}

impl BackendUrl {
    /// Whether this is the embedded backend.
    #[must_use]
    pub fn is_echo(&self) -> bool {
        matches!(self, Self::Echo { .. })
    }

    /// Where to connect to; none for the embedded backend.
    #[must_use]
    pub fn server(&self) -> Option<&ServerUrl> {
        match self {
            Self::Http(server) | Self::Https(server) => Some(server),
            Self::Echo { .. } => None,
        }
    }
}

/// Host, port and base path of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    host: String,
    port: Option<u16>,
    default_port: u16,
    base_path: String,
}

impl ServerUrl {
    /// The host: a name, an IPv4 address, or an IPv6 address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 80 or 443 if none is written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.default_port)
    }

    /// Host and port as a `Host` header has them: brackets around IPv6, no port where it is the usual one.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) if port != self.default_port => format!("{host}:{port}"),
            _ => host,
        }
    }

    /// What goes before the path of each request: empty, or begins with `/` and does not end with it.
    #[must_use]
    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    fn parse(rest: &str, default_port: u16) -> Result<Self, ValueError> {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if rest.contains(['?', '#']) || rest.contains(char::is_whitespace) {
            return Err(ValueError::new("the URL of a backend has no query, fragment or blank"));
        }
        if authority.contains('@') {
            return Err(ValueError::new("credentials do not belong in the URL: use `api_key`"));
        }
        if !path.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ValueError::new("the path of the URL has characters that must be percent-encoded"));
        }
        let (host, port) = split_port(authority)?;
        Ok(Self {
            host: host.to_ascii_lowercase(),
            port,
            default_port,
            base_path: path.trim_end_matches('/').to_owned(),
        })
    }
}

pub(super) fn split_port(authority: &str) -> Result<(&str, Option<u16>), ValueError> {
    let bad_host = || ValueError::new("the host of the URL is no name and no IP address");
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, tail) = rest.split_once(']').ok_or_else(bad_host)?;
        host.parse::<Ipv6Addr>().map_err(|_| bad_host())?;
        let port = match tail {
            "" => None,
            tail => Some(tail.strip_prefix(':').ok_or_else(bad_host)?),
        };
        (host, port)
    } else {
        let (host, port) = authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
        let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if host.is_empty() || host.len() > 253 || !host.bytes().all(valid) {
            return Err(bad_host());
        }
        (host, port)
    };
    let port = match port {
        None => None,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => match digits.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err(ValueError::new("the port of the URL is not in 1..=65535")),
        },
        Some(_) => return Err(ValueError::new("the port of the URL is not a number")),
    };
    Ok((host, port))
}

fn parse_echo(query: &str) -> Result<BackendUrl, ValueError> {
    let mut latency = Duration::ZERO;
    let mut chunk_interval = Duration::ZERO;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let target = match name {
            "latency_ms" => &mut latency,
            "chunk_ms" => &mut chunk_interval,
            _ => return Err(ValueError::new("builtin:echo knows `latency_ms` and `chunk_ms`")),
        };
        let millis = value.parse().ok().filter(|ms| *ms <= MOST_ECHO_MILLIS).ok_or_else(|| {
            ValueError::new(format!("`{name}` is a whole number of milliseconds, at most {MOST_ECHO_MILLIS}"))
        })?;
        *target = Duration::from_millis(millis);
    }
    Ok(BackendUrl::Echo { latency, chunk_interval })
}

/// One day: more is surely a slip.
const MOST_ECHO_MILLIS: u64 = 86_400_000;

impl FromStr for BackendUrl {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some(rest) = text.strip_prefix("http://") {
            ServerUrl::parse(rest, 80).map(Self::Http)
        } else if let Some(rest) = text.strip_prefix("https://") {
            ServerUrl::parse(rest, 443).map(Self::Https)
        } else if text == "builtin:echo" {
            parse_echo("")
        } else if let Some(query) = text.strip_prefix("builtin:echo?") {
            parse_echo(query)
        } else {
            Err(ValueError::new("the URL of a backend begins with http:// or https://, or is builtin:echo"))
        }
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(server) => write!(f, "http://{}{}", server.authority(), server.base_path),
            Self::Https(server) => write!(f, "https://{}{}", server.authority(), server.base_path),
            Self::Echo { latency, chunk_interval } => {
                write!(
                    f,
                    "builtin:echo?latency_ms={}&chunk_ms={}",
                    latency.as_millis(),
                    chunk_interval.as_millis()
                )
            }
        }
    }
}
