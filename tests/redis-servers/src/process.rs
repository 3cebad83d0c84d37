//! A server's process, and what makes sure that it ends.

use std::{
    io,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// A process that is killed when this is dropped, or when the test process is gone.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Child,
}

impl Process {
    /// Starts `redis-server` in a folder.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new("redis-server");
        command.args(arguments).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => panic!(
                "redis-server is missing: install Debian's package `redis-server`, or run `cargo xtask test`, \
                 which does so where it may"
            ),
            Err(error) => panic!("redis-server does not start: {error}"),
        };
        let watchdog = watchdog(child.id());
        Self { child, watchdog }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).expect("no process has the id 0");
        // Not waited for yet, so the id is still its own even if it has ended.
        kill_process(id, signal).expect("it is ours");
    }
}

/// A shell that kills the process once nobody holds the other end of its standard input: when this test process has
/// been killed and could not do it. It is deaf to the signals that a terminal sends to all.
fn watchdog(id: u32) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap '' INT TERM HUP; read -r line; kill -s KILL "$1""#, "watchdog"]);
    command.arg(id.to_string()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("there is a shell")
}

// === impl Drop ===

impl Drop for Process {
    fn drop(&mut self) {
        // First the watchdog: once the process has been waited for, its id may be somebody else's.
        for child in [&mut self.watchdog, &mut self.child] {
            // A process that has ended meanwhile is as good as a killed one. A stopped one dies of it, too.
            child.kill().ok();
            child.wait().ok();
        }
    }
}
