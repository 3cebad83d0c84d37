//! The binary under test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::OnceLock,
    time::SystemTime,
};

use tokio::process::Command;

use crate::wait::within;

/// Names a binary to test in place of the one built beside the tests; it is taken as it is.
const OVERRIDE: &str = "FAIRLANE_TEST_BINARY";

/// The path of `fairlane`, built in the same profile as the running test.
///
/// # Panics
///
/// When it is missing or older than its sources: a test of an old binary proves nothing.
pub(crate) fn path() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(given) = std::env::var_os(OVERRIDE) {
            return given.into();
        }
        // target/<profile>/deps/e2e-<hash>
        let test = std::env::current_exe().expect("a test knows its own path");
        let folder = test.ancestors().nth(2).expect("a test lies two folders deep");
        let binary = folder.join("fairlane");
        if let Err(stale) = fresh(&binary) {
            panic!("{stale}; run `cargo xtask test`");
        }
        binary
    })
}

/// Compares the binary with the sources that cargo noted beside it.
fn fresh(binary: &Path) -> Result<(), String> {
    let built = modified(binary).ok_or_else(|| format!("{} is missing", binary.display()))?;
    let noted = binary.with_extension("d");
    let noted = fs::read_to_string(&noted).map_err(|_| format!("{} is missing", noted.display()))?;
    let newer = sources(&noted).into_iter().find(|source| modified(source).is_none_or(|time| time > built));
    newer.map_or(Ok(()), |source| Err(format!("{} is older than {}", binary.display(), source.display())))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The files of a dependency note in make's syntax: `target: source source`, a space in a name as `\ `.
fn sources(note: &str) -> Vec<PathBuf> {
    let (_, sources) = note.split_once(": ").unwrap_or_default();
    let unspaced = sources.replace("\\ ", "\0");
    unspaced.split_whitespace().map(|name| name.replace('\0', " ").into()).collect()
}

/// A command line of the binary, in an environment that holds nothing of the machine's.
#[must_use]
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(arguments).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What a command line came to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Everything that was printed.
    #[must_use]
    pub fn printed(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Finished {
    let output = within("a command to end", command.output()).await.expect("the binary runs");
    let Output { status, stdout, stderr } = output;
    Finished {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_sources_with_spaces() {
        let note = "/target/debug/fairlane: /src/main.rs /my\\ src/cli.rs\n";
        assert_eq!(sources(note), [PathBuf::from("/src/main.rs"), PathBuf::from("/my src/cli.rs")]);
    }

    #[test]
    fn a_binary_older_than_a_source_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let (binary, source) = (folder.path().join("fairlane"), folder.path().join("main.rs"));
        let write = |path: &Path, time: u64| {
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(time)).unwrap();
        };
        assert!(fresh(&binary).unwrap_err().contains("missing"));
        write(&binary, 2);
        write(&source, 1);
        fs::write(binary.with_extension("d"), format!("{}: {}\n", binary.display(), source.display()))
            .unwrap();
        assert_eq!(fresh(&binary), Ok(()));
        write(&source, 3);
        assert!(fresh(&binary).unwrap_err().contains("older"));
    }
}
