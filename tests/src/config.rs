//! Configurations in few words.

use std::fmt::Write as _;

use crate::{Backend, RawBackend};

/// A configuration that listens on free ports of loopback, built of entries in YAML: `"requests_per_second: 1"`.
///
/// Entries of one section add up. The admin plane is open unless a test sets a token.
#[derive(Clone, Debug, Default)]
pub struct Config {
    server: Vec<String>,
    backends: Vec<String>,
    keys: Vec<String>,
    mode: Option<&'static str>,
    rate_limiting: Vec<String>,
    limits: Vec<String>,
    fair_queuing: Vec<String>,
    further: String,
}

impl Config {
    /// Nothing but the listeners.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The usual: one backend for every model, named `primary`.
    #[must_use]
    pub fn with(backend: &Backend) -> Self {
        Self::new().backend("primary", &backend.url(), "")
    }

    /// As [`Config::with`], for a backend that speaks no HTTP.
    #[must_use]
    pub fn with_raw(backend: &RawBackend) -> Self {
        Self::new().backend("primary", &backend.url(), "")
    }

    /// A backend; `more` are further entries, by default `models: ["*"]`.
    #[must_use]
    pub fn backend(mut self, name: &str, url: &str, more: &str) -> Self {
        let models = if more.contains("models:") { "" } else { "models: [\"*\"]" };
        let entries =
            [models, more].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        self.backends.push(format!("{{ name: {name}, url: \"{url}\", {entries} }}"));
        self
    }

    /// An API key; `more` are further entries, such as `user: alice, team: research`.
    #[must_use]
    pub fn key(mut self, id: &str, key: &str, more: &str) -> Self {
        let comma = if more.is_empty() { "" } else { ", " };
        self.keys.push(format!("{{ id: {id}, key: \"{key}\"{comma}{more} }}"));
        self
    }

    /// Requests need no key.
    #[must_use]
    pub fn permissive(mut self) -> Self {
        self.mode = Some("permissive");
        self
    }

    /// An entry of `server`.
    #[must_use]
    pub fn server(mut self, entry: &str) -> Self {
        self.server.push(entry.to_owned());
        self
    }

    /// An entry of `rate_limiting`.
    #[must_use]
    pub fn rate_limiting(mut self, entry: &str) -> Self {
        self.rate_limiting.push(entry.to_owned());
        self
    }

    /// An entry of `rate_limiting.limits`: `per_user: { requests_per_second: 1 }`.
    #[must_use]
    pub fn limit(mut self, entry: &str) -> Self {
        self.limits.push(entry.to_owned());
        self
    }

    /// Enables fair queuing, with a further entry unless it is empty.
    #[must_use]
    pub fn fair_queuing(mut self, entry: &str) -> Self {
        if self.fair_queuing.is_empty() {
            self.fair_queuing.push("enabled: true".to_owned());
        }
        if !entry.is_empty() {
            self.fair_queuing.push(entry.to_owned());
        }
        self
    }

    /// Any other section, whole: `timeouts: { connect: 1s }`.
    #[must_use]
    pub fn section(mut self, yaml: &str) -> Self {
        self.further.push_str(yaml);
        self.further.push('\n');
        self
    }

    /// The file's text.
    #[must_use]
    pub fn yaml(&self) -> String {
        let mut yaml = Yaml(self.further.clone());
        yaml.section(0, "server", &["listen: 127.0.0.1:0", "admin_listen: 127.0.0.1:0"]);
        yaml.entries(1, "", &self.server);
        yaml.section::<&str>(0, "backends", &[]);
        yaml.entries(1, "- ", &self.backends);
        let mode = self.mode.map(|mode| format!("mode: {mode}"));
        yaml.section(0, "api_keys", mode.as_slice());
        if !self.keys.is_empty() {
            yaml.section::<&str>(1, "keys", &[]);
            yaml.entries(2, "- ", &self.keys);
        }
        if !(self.rate_limiting.is_empty() && self.limits.is_empty() && self.fair_queuing.is_empty()) {
            yaml.section(0, "rate_limiting", &self.rate_limiting);
        }
        if !self.limits.is_empty() {
            yaml.section(1, "limits", &self.limits);
        }
        if !self.fair_queuing.is_empty() {
            yaml.section(1, "fair_queuing", &self.fair_queuing);
        }
        yaml.0
    }
}

/// Text that grows by sections and their entries, two spaces for each level.
struct Yaml(String);

impl Yaml {
    fn section<S: AsRef<str>>(&mut self, level: usize, name: &str, entries: &[S]) {
        _ = writeln!(self.0, "{}{name}:", "  ".repeat(level));
        self.entries(level + 1, "", entries);
    }

    fn entries<S: AsRef<str>>(&mut self, level: usize, mark: &str, entries: &[S]) {
        for entry in entries {
            _ = writeln!(self.0, "{}{mark}{}", "  ".repeat(level), entry.as_ref());
        }
    }
}
