//! Reads URLs with several hosts, which the usual URL does not know.

use super::settings::{Address, Mode, SENTINEL_PORT, SERVER_PORT, SettingsError, Topology};

/// What a URL says.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) topology: Topology,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u32,
    pub(super) tls: bool,
}

pub(super) fn split(url: &str, mode: Mode) -> Result<Parts, SettingsError> {
    let (plain, encrypted, expected) = match mode {
        Mode::Standalone | Mode::Cluster => ("redis", "rediss", "redis:// or rediss://"),
        Mode::Sentinel => ("redis+sentinel", "rediss+sentinel", "redis+sentinel:// or rediss+sentinel://"),
    };
    let wrong_scheme = SettingsError::Scheme { expected };
    let (scheme, rest) = url.trim().split_once("://").ok_or_else(|| wrong_scheme.clone())?;
    let tls = match scheme.to_ascii_lowercase() {
        scheme if scheme == plain => false,
        scheme if scheme == encrypted => true,
        _ => return Err(wrong_scheme),
    };
    // A password may hold anything but `@`, so what follows is read from behind the last one.
    let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
    if rest.contains(['?', '#']) {
        return Err(SettingsError::Query);
    }
    let (hosts, path) = rest.split_once('/').map_or((rest, ""), |(hosts, path)| (hosts, path));
    let (username, password) = login.map_or(Ok((None, None)), credentials)?;
    let port = if mode == Mode::Sentinel { SENTINEL_PORT } else { SERVER_PORT };
    let mut servers = hosts.split(',').map(|host| address(host, port)).collect::<Result<Vec<_>, _>>()?;
    let (topology, database) = match mode {
        Mode::Standalone => {
            let server = servers.pop().ok_or(SettingsError::Host)?;
            if !servers.is_empty() {
                return Err(SettingsError::SeveralServers);
            }
            (Topology::Standalone { server }, path)
        }
        Mode::Cluster => (Topology::Cluster { seeds: servers }, path),
        Mode::Sentinel => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return Err(SettingsError::MasterName);
            }
            (Topology::Sentinel { sentinels: servers, master: decode(master)? }, database)
        }
    };
    let database = match database {
        "" => 0,
        number => number.parse().map_err(|_| SettingsError::Database)?,
    };
    if mode == Mode::Cluster && database != 0 {
        return Err(SettingsError::ClusterDatabase);
    }
    Ok(Parts { topology, username, password, database, tls })
}

type Credentials = (Option<String>, Option<String>);

fn credentials(login: &str) -> Result<Credentials, SettingsError> {
    let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
    let some = |text: &str| if text.is_empty() { Ok(None) } else { decode(text).map(Some) };
    Ok((some(user)?, password.map_or(Ok(None), some)?))
}

fn address(text: &str, default_port: u16) -> Result<Address, SettingsError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or(SettingsError::Host)?;
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':').ok_or(SettingsError::Host)?)),
            }
        }
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => return Err(SettingsError::Host),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(SettingsError::Host);
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return Err(SettingsError::Port),
            Ok(port) => port,
        },
    };
    Ok(Address::new(host, port))
}

fn decode(text: &str) -> Result<String, SettingsError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = rest.next().and_then(|byte| char::from(byte).to_digit(16));
            digit.and_then(|digit| u8::try_from(digit).ok()).ok_or(SettingsError::Encoding)
        };
        bytes.push(digit()? << 4 | digit()?);
    }
    String::from_utf8(bytes).map_err(|_| SettingsError::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(of: &[(&str, u16)]) -> Vec<Address> {
        of.iter().map(|&(host, port)| Address::new(host, port)).collect()
    }

    #[test]
    fn a_standalone_url_is_read() {
        let parts = split("redis://localhost", Mode::Standalone).unwrap();
        assert_eq!(parts.topology, Topology::Standalone { server: Address::new("localhost", 6_379) });
        assert_eq!((parts.username, parts.password, parts.database, parts.tls), (None, None, 0, false));

        let parts = split("REDISS://ada:p%40ss%3Aw/rd@[::1]:7000/12", Mode::Standalone).unwrap();
        assert_eq!(parts.topology, Topology::Standalone { server: Address::new("::1", 7_000) });
        assert_eq!((parts.username.as_deref(), parts.password.as_deref()), (Some("ada"), Some("p@ss:w/rd")));
        assert_eq!((parts.database, parts.tls), (12, true));

        let parts = split("redis://:secret@h:1/", Mode::Standalone).unwrap();
        assert_eq!((parts.username, parts.password.as_deref()), (None, Some("secret")));
    }

    #[test]
    fn urls_with_several_servers_are_read() {
        let parts = split("redis://a:1,b,[fe80::1]:3", Mode::Cluster).unwrap();
        assert_eq!(
            parts.topology,
            Topology::Cluster { seeds: addresses(&[("a", 1), ("b", 6_379), ("fe80::1", 3)]) }
        );
        let parts = split("rediss+sentinel://u:p@a:1,b/my%20master/3", Mode::Sentinel).unwrap();
        let sentinels = addresses(&[("a", 1), ("b", 26_379)]);
        assert_eq!(parts.topology, Topology::Sentinel { sentinels, master: "my master".to_owned() });
        assert_eq!((parts.database, parts.tls), (3, true));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_showing_the_password() {
        use SettingsError::{
            ClusterDatabase, Database, Encoding, Host, MasterName, Port, Query, SeveralServers,
        };
        for (url, mode, expected) in [
            ("redis://hunter2@", Mode::Standalone, Host),
            ("redis://u:hunter2@h,", Mode::Cluster, Host),
            ("redis://u:hunter2@[::1", Mode::Standalone, Host),
            ("redis://u:hunter2@::1", Mode::Standalone, Host),
            ("redis://u:hunter2@a,b", Mode::Standalone, SeveralServers),
            ("redis://u:hunter2@h:0", Mode::Standalone, Port),
            ("redis://u:hunter2@h:65536", Mode::Standalone, Port),
            ("redis://u:hunter2%4@h", Mode::Standalone, Encoding),
            ("redis://u:hunter2%ff@h", Mode::Standalone, Encoding),
            ("redis://u:hunter2@h/x", Mode::Standalone, Database),
            ("redis://u:hunter2@h/1", Mode::Cluster, ClusterDatabase),
            ("redis+sentinel://u:hunter2@h", Mode::Sentinel, MasterName),
            ("redis://u:hunter2@h?db=1", Mode::Standalone, Query),
        ] {
            let error = split(url, mode).unwrap_err();
            assert_eq!(error, expected, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}");
        }
        for (url, mode) in [
            ("http://u:hunter2@h", Mode::Standalone),
            ("u:hunter2@h", Mode::Standalone),
            ("redis://u:hunter2@h/m", Mode::Sentinel),
            ("redis+sentinel://u:hunter2@h/m", Mode::Cluster),
        ] {
            let error = split(url, mode).unwrap_err();
            assert!(matches!(error, SettingsError::Scheme { .. }), "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}");
        }
    }
}
