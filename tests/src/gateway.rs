//! The gateway as a process.

use std::{net::SocketAddr, path::Path, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    Answer, Call, Client, Config, Log, Metrics, Opened, Pending, binary,
    wait::{until, within},
};

/// A running `fairlane serve`. Dropping it ends the process.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    stderr: Log,
    stdout: Log,
    listen: SocketAddr,
    admin: Option<SocketAddr>,
    /// Where its configuration lies.
    folder: TempDir,
}

impl Gateway {
    /// Starts one, and waits until it serves.
    pub async fn start(config: &Config) -> Self {
        Self::start_yaml(&config.yaml(), |_| {}).await
    }

    /// Starts one from YAML; `prepare` may change the command, for instance its environment.
    ///
    /// The file must have it listen on loopback, and log at least what is information.
    pub async fn start_yaml(yaml: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("fairlane.yaml");
        std::fs::write(&file, yaml).expect("the folder is writable");
        let mut command = binary::command(&["serve", "--config"]);
        command.arg(&file).current_dir(folder.path());
        prepare(&mut command);
        let stderr = capture(|pipe| command.stderr(pipe));
        let stdout = capture(|pipe| command.stdout(pipe));
        let child = command.spawn().expect("the binary runs");
        // The command holds the writing ends of the pipes, which would keep them open.
        drop(command);
        let serving = within("the gateway to serve", stderr.find("serving")).await;
        let Some(serving) = serving else {
            panic!("the gateway does not start:\n{}\nwith\n{yaml}", stderr.text())
        };
        let listen = address(&serving, "listen").unwrap_or_else(|| panic!("no address: {serving}"));
        let admin = address(&serving, "admin");
        Self { child, stderr, stdout, listen, admin, folder }
    }

    /// The data plane's address.
    #[must_use]
    pub const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// A client of the data plane.
    #[must_use]
    pub const fn client(&self) -> Client {
        Client::new(self.listen)
    }

    /// A client of the admin plane.
    ///
    /// # Panics
    ///
    /// When the configuration has switched it off.
    #[must_use]
    pub fn admin(&self) -> Client {
        Client::new(self.admin.expect("the admin plane is on"))
    }

    /// The admin plane's address, if it is on.
    #[must_use]
    pub const fn admin_listen(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Sends a request on a connection of its own, and waits for the whole answer.
    pub async fn call(&self, call: Call) -> Answer {
        self.client().call(call).await
    }

    /// Sends a request, and waits for the head of its answer.
    pub async fn open(&self, call: Call) -> Opened {
        self.client().open(call).await
    }

    /// Sends a request, and does not wait. Dropping what comes back is the caller's leaving.
    #[must_use]
    pub fn begin(&self, call: Call) -> Pending {
        self.client().begin(call)
    }

    /// Scrapes `/metrics`.
    pub async fn metrics(&self) -> Metrics {
        let answer = self.admin().call(Call::get("/metrics")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Metrics::parse(&answer.text())
    }

    /// The page `/admin/queues`.
    pub async fn queues(&self) -> Value {
        self.admin().call(Call::get("/admin/queues")).await.json()
    }

    /// Waits until exactly `count` requests are held in lanes.
    pub async fn held(&self, count: u64) {
        until(&format!("{count} requests to be held"), async || {
            (self.queues().await["held"] == count).then_some(())
        })
        .await;
    }

    /// Waits until `count` requests in all have joined a lane, whether they still are in it or have been admitted since.
    pub async fn held_or_served(&self, count: u64) {
        until(&format!("{count} requests to have been held"), async || {
            let metrics = self.metrics().await;
            let value = |name| metrics.value(name, &[]).unwrap_or_default();
            let joined = value("rate_limit_fair_queue_depth") + value("rate_limit_fair_queue_grants_total");
            (joined >= count as f64).then_some(())
        })
        .await;
    }

    /// Waits for the metric to read `value`.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        until(&format!("{name}{labels:?} to be {value}"), async || {
            (self.metrics().await.value(name, labels) == Some(value)).then_some(())
        })
        .await;
    }

    /// Puts another configuration in the place of its own, as an editor does, and waits until it is in force.
    pub async fn reconfigure(&self, config: &Config) {
        self.reconfigure_yaml(&config.yaml()).await;
    }

    /// The same from YAML.
    pub async fn reconfigure_yaml(&self, yaml: &str) {
        self.reloaded("success", async || self.rewrite("fairlane.yaml", yaml)).await;
    }

    /// Has `change` done, which is to lead to one reload with this result, and waits for it.
    pub async fn reloaded(&self, result: &str, change: impl AsyncFnOnce()) {
        let count = async || self.metrics().await.value("config_reloads_total", &[("result", result)]);
        let before = count().await.expect("reloads are counted");
        change().await;
        until(&format!("a reload with {result}"), async || (count().await? > before).then_some(())).await;
    }

    /// Replaces a file of its folder as a whole.
    pub fn rewrite(&self, name: &str, content: &str) {
        let new = self.folder().join(format!("{name}.new"));
        std::fs::write(&new, content).expect("the folder is writable");
        std::fs::rename(new, self.folder().join(name)).expect("the folder is writable");
    }

    /// Asks it to stop, as an operator does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("it runs");
        let id = Pid::from_raw(id.cast_signed()).expect("no process has the id 0");
        kill_process(id, signal).expect("it is ours");
    }

    /// Waits for its end; the exit code, or -1 when a signal ended it.
    pub async fn exited(&mut self) -> i32 {
        let status = within("the gateway to end", self.child.wait()).await;
        status.expect("it is ours").code().unwrap_or(-1)
    }

    /// What it logs.
    #[must_use]
    pub const fn stderr(&self) -> &Log {
        &self.stderr
    }

    /// What it prints, which should be nothing.
    #[must_use]
    pub const fn stdout(&self) -> &Log {
        &self.stdout
    }

    /// The folder it runs in, with its `fairlane.yaml`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn capture<'a>(attach: impl FnOnce(Stdio) -> &'a mut Command) -> Log {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    attach(writer.into());
    Log::read(reader)
}

/// The address that a log line gives for a field, in either format: `listen=127.0.0.1:1`, `"listen":"127.0.0.1:1"`.
fn address(line: &str, field: &str) -> Option<SocketAddr> {
    let plain = line.replace(['"', ',', '}'], " ").replace(" : ", "=");
    let (_, rest) = plain.split_once(&format!("{field}="))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[test]
fn addresses_are_found_in_both_formats() {
    let text = "2026-01-01T00:00:00Z  INFO fairlane::cli: serving listen=127.0.0.1:1 admin=[::1]:2";
    let json = r#"{"level":"INFO","fields":{"message":"serving","listen":"127.0.0.1:1","admin":"[::1]:2"}}"#;
    for line in [text, json] {
        assert_eq!(address(line, "listen"), "127.0.0.1:1".parse().ok());
        assert_eq!(address(line, "admin"), "[::1]:2".parse().ok());
    }
    assert_eq!(address("serving, without an admin plane listen=127.0.0.1:1", "admin"), None);
}
