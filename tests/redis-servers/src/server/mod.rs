//! One server.

mod options;

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redis::{Cmd, FromRedisValue, RedisResult, Value};
use rustix::process::Signal;
use tempfile::TempDir;

pub use self::options::{ServerOptions, Tls};
use crate::{
    admin::{self, Login, field},
    port,
    process::Process,
    wait::until,
};

/// How many ports are tried: more than one only if another process takes one at the wrong moment.
const PORTS_TRIED: usize = 20;

/// A Redis server of a test's own, which keeps nothing on disk.
///
/// Its methods take `&self`, so that one task of a test can break it while others use it.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    port: u16,
    tls_port: Option<u16>,
    folder: TempDir,
    /// None while it is stopped.
    process: Mutex<Option<Process>>,
}

/// Why a server did not start.
#[derive(Debug)]
struct PortTaken;

impl Server {
    /// Starts a server with nothing special about it, and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(ServerOptions::new()).await
    }

    /// Starts a server with options, and waits until it answers.
    pub async fn start_with(options: ServerOptions) -> Self {
        for _ in 0..PORTS_TRIED {
            let server = Self {
                port: port::free(),
                tls_port: options.tls.is_some().then(port::free),
                folder: tempfile::tempdir().expect("a temporary folder"),
                process: Mutex::new(None),
                options: options.clone(),
            };
            if server.launch().await.is_ok() {
                return server;
            }
        }
        panic!("others took {PORTS_TRIED} ports before they could be used")
    }

    /// Its port on 127.0.0.1, without TLS.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        port::loopback(self.port)
    }

    /// Its port on 127.0.0.1 with TLS.
    ///
    /// # Panics
    ///
    /// When it was started without.
    #[must_use]
    pub fn tls_addr(&self) -> SocketAddr {
        port::loopback(self.tls_port.expect("a server with TLS"))
    }

    /// `redis://127.0.0.1:<port>`, without a user or a password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The process id.
    ///
    /// # Panics
    ///
    /// While it is stopped.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running(Process::id)
    }

    /// Whether there is a process, paused or not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process().is_some()
    }

    /// Kills it, as a crash would (SIGKILL).
    pub fn stop(&self) {
        self.process().take();
    }

    /// Stops the process from doing anything (SIGSTOP). The system still accepts connections and bytes for it.
    pub fn pause(&self) {
        self.running(|process| process.signal(Signal::STOP));
    }

    /// Lets a paused process go on (SIGCONT), with everything that has arrived meanwhile.
    pub fn resume(&self) {
        self.running(|process| process.signal(Signal::CONT));
    }

    /// Starts it again on the same port, without any data and scripts, and waits until it answers. A server that
    /// still runs is killed.
    pub async fn restart_empty(&self) {
        self.stop();
        self.launch().await.expect("ports of servers are given to nobody else");
    }

    /// Sends a command as the harness's own user, who may do everything.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub async fn command(&self, words: &[&str]) -> Value {
        self.query(words).await
    }

    /// The same, with the answer in a type of one's choice.
    ///
    /// # Panics
    ///
    /// When the command fails, or answers with something else.
    pub async fn query<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = self.try_query(words).await;
        answer.unwrap_or_else(|error| panic!("{words:?} at {}: {error}", self.addr()))
    }

    /// The same for a command that may fail.
    ///
    /// # Errors
    ///
    /// Those of the server, and of the connection to it.
    pub async fn try_query<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        admin::command(self.addr(), self.login(), &admin::words(words)).await
    }

    /// What INFO says about a field of a section, such as `role` in `replication`.
    pub async fn info(&self, section: &str, name: &str) -> Option<String> {
        let info: String = self.query(&["INFO", section]).await;
        field(&info, name).map(str::to_owned)
    }

    /// How many times a command has been called since the start, or since `CONFIG RESETSTAT`; also from scripts, and
    /// also by the harness. Its name in lower case, as `evalsha` or `config|get`.
    pub async fn calls(&self, command: &str) -> u64 {
        let stats = self.info("commandstats", &format!("cmdstat_{command}")).await;
        let calls = stats.as_deref().and_then(|stats| stats.strip_prefix("calls=")?.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("calls are counted in numbers"))
    }

    /// Waits until it follows a master and has everything of it.
    pub async fn synced(&self) {
        until("a replica to have its master's data", || async {
            let info: String = self.try_query(&["INFO", "replication"]).await.ok()?;
            (field(&info, "master_link_status") == Some("up")).then_some(())
        })
        .await;
    }

    /// What the server has logged, for a test that fails.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    /// Sends a command to a server that may not be there.
    pub(crate) async fn glance<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        admin::glance(self.addr(), self.login(), &admin::words(words)).await
    }

    /// Sends a command that was put together elsewhere.
    pub(crate) async fn send<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        admin::command(self.addr(), self.login(), command).await
    }

    const fn login(&self) -> Login {
        if self.options.sentinel { Login::Default } else { Login::Own }
    }

    /// Starts the process and waits until it is this very process that answers on the port.
    async fn launch(&self) -> Result<(), PortTaken> {
        let folder = self.folder.path();
        let file = folder.join(CONFIG);
        fs::write(&file, self.config(folder)).expect("the folder is writable");
        // What an earlier process has logged says nothing about this one.
        fs::remove_file(folder.join(LOG)).ok();
        let arguments: &[&str] = if self.options.sentinel { &[CONFIG, "--sentinel"] } else { &[CONFIG] };
        *self.process() = Some(Process::start(folder, arguments));
        let id = self.pid().to_string();
        until("redis-server to answer", || async {
            if self.process().as_mut().is_none_or(Process::has_ended) {
                let log = self.log();
                assert!(log.contains("Address already in use"), "redis-server does not start:\n{log}");
                return Some(Err(PortTaken));
            }
            let info: String = self.glance(&["INFO", "server"]).await.ok()?;
            (field(&info, "process_id") == Some(&id)).then_some(Ok(()))
        })
        .await
    }

    fn config(&self, folder: &Path) -> String {
        let mut config = format!(
            "bind 127.0.0.1\nport {}\nprotected-mode no\ndaemonize no\ndir \"{}\"\nlogfile {LOG}\n",
            self.port,
            folder.display()
        );
        if !self.options.sentinel {
            config.push_str("save \"\"\nappendonly no\n");
            config.push_str("repl-diskless-sync yes\nrepl-diskless-sync-delay 0\n");
            writeln!(config, "user {} on >{} ~* &* +@all", admin::USER, admin::PASSWORD).expect("a string");
        }
        if let (Some(tls), Some(port)) = (&self.options.tls, self.tls_port) {
            tls.write(port, &mut config);
        }
        for line in &self.options.lines {
            config.push_str(line);
            config.push('\n');
        }
        config
    }

    fn running<T>(&self, act: impl FnOnce(&Process) -> T) -> T {
        act(self.process().as_ref().expect("the server runs"))
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CONFIG: &str = "redis.conf";
const LOG: &str = "server.log";
