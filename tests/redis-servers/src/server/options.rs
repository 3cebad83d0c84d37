//! What is special about a server.

use std::{fmt::Write as _, net::SocketAddr, path::PathBuf};

/// What is special about a server. Chained: `ServerOptions::new().password("p").line("maxmemory 3mb")`.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ServerOptions {
    pub(super) lines: Vec<String>,
    pub(super) tls: Option<Tls>,
    pub(super) sentinel: bool,
}

/// Files for a port with TLS, in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The server's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that clients' certificates come from.
    pub authority: PathBuf,
    /// Whether clients must have a certificate.
    pub require_client_certificate: bool,
}

impl ServerOptions {
    /// Nothing special.
    pub fn new() -> Self {
        Self::default()
    }

    /// A line of `redis.conf`, such as `rename-command EVAL ""` or `user app on >secret ~* +@all -eval`.
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// The default user's password (`requirepass`), also towards a master.
    pub fn password(self, password: &str) -> Self {
        self.line(format!("requirepass {password}")).line(format!("masterauth {password}"))
    }

    /// Room for data, in bytes; at the end of it the server refuses to write.
    pub fn max_memory(self, bytes: u64) -> Self {
        self.line(format!("maxmemory {bytes}")).line("maxmemory-policy noeviction")
    }

    /// Follows a master.
    pub fn replica_of(self, master: SocketAddr) -> Self {
        self.line(format!("replicaof {} {}", master.ip(), master.port()))
    }

    /// A second port, with TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// A sentinel in place of a server.
    pub(crate) fn sentinel() -> Self {
        Self { sentinel: true, ..Self::default() }
    }
}

impl Tls {
    /// The lines that open the port.
    pub(super) fn write(&self, port: u16, config: &mut String) {
        let Self { certificate, key, authority, require_client_certificate } = self;
        let clients = if *require_client_certificate { "yes" } else { "no" };
        writeln!(
            config,
            "tls-port {port}\ntls-cert-file \"{}\"\ntls-key-file \"{}\"\ntls-ca-cert-file \"{}\"\n\
             tls-auth-clients {clients}",
            certificate.display(),
            key.display(),
            authority.display()
        )
        .expect("a string takes everything");
    }
}
