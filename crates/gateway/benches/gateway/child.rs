//! The processes that are measured, and the one behind them.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use crate::BoxError;
use crate::role::Role;

/// The runtimes of all children have as many threads.
const WORKERS: &str = "2";

/// A running child. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    address: SocketAddr,
    status: (SocketAddr, &'static str),
    /// Watched while it runs: a change would be a reload.
    _config: Option<ConfigFile>,
}

impl Child {
    /// Runs this program again, in a role.
    pub(crate) fn role(role: Role) -> Result<Self, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        // Its end is the end of the child.
        command.args(role.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut starting = Starting::spawn(&mut command)?;
        let stdout = starting.0.as_mut().and_then(|process| process.stdout.take());
        let line = first_line(stdout.ok_or("no standard output")?)?;
        let address = address(&line, "listen=")?;
        Ok(Self { process: starting.started()?, address, status: (address, "/held"), _config: None })
    }

    /// Runs the gateway with a configuration in YAML.
    pub(crate) fn gateway(config: &str) -> Result<Self, BoxError> {
        let file = ConfigFile::write(config)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairlane"));
        command.arg("serve").arg("--config").arg(file.path());
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut starting = Starting::spawn(&mut command)?;
        let stderr = starting.0.as_mut().and_then(|process| process.stderr.take());
        let line = first_line(stderr.ok_or("no standard error")?)?;
        let admin = address(&line, "admin=")?;
        let address = address(&line, "listen=")?;
        let status = (admin, "/admin/queues");
        Ok(Self { process: starting.started()?, address, status, _config: Some(file) })
    }

    /// Where it takes requests.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it tells how many requests it holds: an address and a path.
    pub(crate) const fn status(&self) -> (SocketAddr, &'static str) {
        self.status
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// A child that has not told its address yet, and ends if it does not.
struct Starting(Option<process::Child>);

impl Starting {
    fn spawn(command: &mut Command) -> Result<Self, BoxError> {
        Ok(Self(Some(command.env("TOKIO_WORKER_THREADS", WORKERS).spawn()?)))
    }

    fn started(mut self) -> Result<process::Child, BoxError> {
        self.0.take().ok_or_else(|| "a child is started once".into())
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            end(process);
        }
    }
}

fn end(process: &mut process::Child) {
    // Errors say that it has ended already.
    _ = process.kill();
    _ = process.wait();
}

/// The first line that tells an address. What comes before and after is for whoever runs the benchmark.
fn first_line(output: impl Read + Send + 'static) -> Result<String, BoxError> {
    let mut lines = BufReader::new(output).lines();
    for line in lines.by_ref() {
        let line = line?;
        if line.contains("listen=") {
            std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| println!("{line}")));
            return Ok(line);
        }
        println!("{line}");
    }
    Err("a child did not start".into())
}

/// The address that a line gives for a field.
fn address(line: &str, field: &str) -> Result<SocketAddr, BoxError> {
    let (_, rest) = line.split_once(field).ok_or_else(|| format!("no {field} in: {line}"))?;
    Ok(rest.split_whitespace().next().unwrap_or_default().parse()?)
}

/// A file that is there as long as its child.
#[derive(Debug)]
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn write(config: &str) -> Result<Self, BoxError> {
        let file = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}.yaml", process::id())));
        std::fs::write(file.path(), config)?;
        Ok(file)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        // A file left behind does no harm.
        _ = std::fs::remove_file(&self.0);
    }
}
