//! Where Redis is.

use std::{fmt, str::FromStr};

use super::{MASK, Secret, ValueError, url::split_port};

/// The shape that the schema asks for; the details are checked by the parser.
pub(crate) const PATTERN: &str = r"^rediss?(://|\+sentinel://[^\s/?#]+/)[^\s?#]+$";

/// The port of a Redis server, if none is written.
const SERVER_PORT: u16 = 6379;

/// The port of a sentinel, if none is written.
const SENTINEL_PORT: u16 = 26379;

/// The largest number of a database that is taken for one: Redis has 16, if nobody says otherwise.
const MOST_DATABASE: u32 = 65_535;

/// Where Redis is, and who asks.
///
/// `redis://user:password@host:6379/0` is one server, `redis://a:6379,b:6379` are nodes of a cluster,
/// `redis+sentinel://a:26379,b:26379/master/0` are sentinels that know a master by its name. `rediss` and
/// `rediss+sentinel` are the same over TLS. In the user and in the password `%` and two hexadecimal digits stand for
/// a byte, as in every URL.
///
/// `Debug`, `Display` and `Serialize` show a mask in place of the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    is_tls: bool,
    credentials: Option<Credentials>,
    servers: Vec<RedisServer>,
    master: Option<String>,
    database: Option<u32>,
}

/// One server, one node of a cluster, or one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisServer {
    host: String,
    port: u16,
}

#[derive(Clone, PartialEq, Eq)]
struct Credentials {
    /// Empty for the default user.
    user: String,
    password: Secret,
}

impl RedisUrl {
    /// Whether connections are made over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The servers as written, at least one: the server itself, nodes of the cluster, or the sentinels.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The name by which the sentinels know the master; none if the URL names no sentinels.
    #[must_use]
    pub fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    /// The number of the database, if one is written.
    #[must_use]
    pub fn database(&self) -> Option<u32> {
        self.database
    }

    /// The user; none if no credentials are written, or if they are those of the default user.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.credentials.as_ref().map(|credentials| credentials.user.as_str()).filter(|user| !user.is_empty())
    }

    /// The password, if credentials are written.
    #[must_use]
    pub fn password(&self) -> Option<&Secret> {
        self.credentials.as_ref().map(|credentials| &credentials.password)
    }

    /// The whole URL with its password, for the client that connects.
    #[must_use]
    pub fn with_password(&self) -> Secret {
        let password = self.credentials.as_ref().map_or("", |credentials| credentials.password.expose());
        Secret::new(fmt::from_fn(|f| self.write(f, |f| percent_encode(password, f))).to_string())
    }

    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        password: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let tls = if self.is_tls { "s" } else { "" };
        let sentinel = if self.master.is_some() { "+sentinel" } else { "" };
        write!(f, "redis{tls}{sentinel}://")?;
        if let Some(credentials) = &self.credentials {
            percent_encode(&credentials.user, f)?;
            f.write_str(":")?;
            password(f)?;
            f.write_str("@")?;
        }
        for (n, server) in self.servers.iter().enumerate() {
            let separator = if n > 0 { "," } else { "" };
            write!(f, "{separator}{server}")?;
        }
        if let Some(master) = &self.master {
            write!(f, "/{master}")?;
        }
        match self.database {
            Some(database) => write!(f, "/{database}"),
            None => Ok(()),
        }
    }

    /// Database 0 of a server on this machine, without TLS and without a password.
    pub(crate) fn local() -> Self {
        Self {
            is_tls: false,
            credentials: None,
            servers: vec![RedisServer { host: "127.0.0.1".to_owned(), port: SERVER_PORT }],
            master: None,
            database: None,
        }
    }
}

impl RedisServer {
    /// The host: a name, an IPv4 address, or an IPv6 address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 6379 (for a sentinel 26379) if none is written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for RedisUrl {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (is_tls, is_sentinel) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis+sentinel" => (false, true),
            "rediss+sentinel" => (true, true),
            _ => {
                return Err(ValueError::new(
                    "the URL of Redis begins with redis://, rediss://, redis+sentinel:// or rediss+sentinel://",
                ));
            }
        };
        if rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(ValueError::new("the URL of Redis has no blanks"));
        }
        if rest.contains(['?', '#']) {
            return Err(ValueError::new(
                "the URL of Redis has no query and no fragment; in a password `?` is written %3F, and `#` %23",
            ));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(ValueError::new(
                "`@` cannot come after a `/`; in a password `/` is written %2F, and `@` %40",
            ));
        }
        let (credentials, servers) = match authority.rsplit_once('@') {
            Some((credentials, servers)) => (Some(Credentials::parse(credentials)?), servers),
            None => (None, authority),
        };
        let default_port = if is_sentinel { SENTINEL_PORT } else { SERVER_PORT };
        let servers = servers
            .split(',')
            .map(|server| RedisServer::parse(server, default_port))
            .collect::<Result<_, _>>()?;
        let (master, database) = if is_sentinel {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            (Some(parse_master(master)?), database)
        } else {
            (None, path)
        };
        Ok(Self { is_tls, credentials, servers, master, database: parse_database(database)? })
    }
}

impl Credentials {
    fn parse(text: &str) -> Result<Self, ValueError> {
        // A password alone, taken for a user, would be shown.
        let (user, password) = text.split_once(':').filter(|(_, password)| !password.is_empty()).ok_or_else(
            || {
                ValueError::new(
                    "credentials are a user and a password, as user:password@, or :password@ for the default user",
                )
            },
        )?;
        Ok(Self { user: percent_decode(user)?, password: Secret::new(percent_decode(password)?) })
    }
}

impl RedisServer {
    fn parse(text: &str, default_port: u16) -> Result<Self, ValueError> {
        if text.is_empty() {
            return Err(ValueError::new("a host is missing in the URL of Redis"));
        }
        let (host, port) = split_port(text)?;
        Ok(Self { host: host.to_ascii_lowercase(), port: port.unwrap_or(default_port) })
    }
}

/// The name of a master, of the characters that a sentinel allows.
fn parse_master(text: &str) -> Result<String, ValueError> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if text.is_empty() {
        Err(ValueError::new(
            "the name of the master is missing: redis+sentinel://host:26379/name, as the sentinels know it",
        ))
    } else if text.bytes().all(is_allowed) {
        Ok(text.to_owned())
    } else {
        Err(ValueError::new("the name of a master has letters, digits and `.`, `-`, `_`"))
    }
}

fn parse_database(text: &str) -> Result<Option<u32>, ValueError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(database) if digits && database <= MOST_DATABASE => Ok(Some(database)),
        _ => Err(ValueError::new(format!(
            "after the servers comes the number of a database, 0 to {MOST_DATABASE}"
        ))),
    }
}

/// Replaces `%` and two hexadecimal digits by the byte that they stand for.
fn percent_decode(text: &str) -> Result<String, ValueError> {
    let problem = || {
        ValueError::new(
            "in credentials `%` begins a byte in two hexadecimal digits; `%` itself is written %25",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16)).ok_or_else(problem);
        let value = digit()? << 4 | digit()?;
        bytes.push(u8::try_from(value).map_err(|_| problem())?);
    }
    String::from_utf8(bytes).map_err(|_| ValueError::new("the bytes of the credentials are not UTF-8"))
}

/// With a mask in place of the password; what is shown can be read again.
impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |f| f.write_str(MASK))
    }
}

fn percent_encode(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

/// Host and port, an IPv6 address in brackets.
impl fmt::Display for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
