//! The example programs, run as a reader would.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::workspace::Workspace;

/// How long an example may take. It shows something; it does not stay.
const PATIENCE: Duration = Duration::from_secs(60);

/// A line of cargo's build messages, as far as it concerns us.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Built>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Built {
    name: String,
    kind: Vec<String>,
}

/// Runs every example among the messages of a build, from the root of the workspace and without arguments.
///
/// # Errors
///
/// When an example fails, or does not end.
pub(crate) fn run(workspace: &Workspace, messages: &str) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for (name, executable) in found(messages)? {
        let (status, output) = execute(&executable, &workspace.root)?;
        match status {
            Some(status) if status.success() => println!("example {name} ... ok"),
            Some(status) => failed.push(format!("{name}: {status}\n{output}")),
            None => failed.push(format!("{name}: did not end within {PATIENCE:?}\n{output}")),
        }
    }
    if !failed.is_empty() {
        bail!("examples failed:\n{}", failed.join("\n"));
    }
    Ok(())
}

/// The examples that a build has made, by name.
fn found(messages: &str) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut examples = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("read a message of cargo")?;
        if let (Some(target), Some(executable)) = (message.target, message.executable)
            && message.reason == "compiler-artifact"
            && target.kind == ["example"]
        {
            examples.push((target.name, executable));
        }
    }
    examples.sort();
    Ok(examples)
}

/// Runs one example to its end, or ends it. Returns its status, unless it had to be ended, and what it printed.
fn execute(executable: &Path, folder: &Path) -> anyhow::Result<(Option<ExitStatus>, String)> {
    let mut child = Command::new(executable)
        .current_dir(folder)
        // An example that wants a configuration finds the one that the README shows.
        .env("FAIRLANE_CONFIG", "examples/quickstart.yaml")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", executable.display()))?;
    let stdout = child.stdout.take();
    let (sender, ended) = mpsc::channel();
    // Its output ends when it does; reading on a thread is what lets us stop waiting.
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut text));
        // Nobody listens any more once the example had to be ended.
        drop(sender.send(read.map(|_| String::from_utf8_lossy(&text).into_owned())));
    });
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        child.kill().and_then(|()| child.wait()).with_context(|| format!("end {}", executable.display()))?;
        return Ok((None, String::new()));
    };
    Ok((Some(child.wait()?), output?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_among_the_messages_of_a_build() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"lib","kind":["lib"]},"executable":null}
{"reason":"compiler-artifact","target":{"name":"shown","kind":["example"]},"executable":"/t/shown"}
{"reason":"compiler-artifact","target":{"name":"tool","kind":["bin"]},"executable":"/t/tool"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(found(messages).unwrap(), [("shown".to_owned(), PathBuf::from("/t/shown"))]);
    }

    #[test]
    fn an_example_is_told_by_its_status_and_output() {
        let (status, output) = execute(Path::new("pwd"), Path::new("/")).unwrap();
        assert!(status.unwrap().success());
        assert_eq!(output, "/\n");
        let (status, _) = execute(Path::new("false"), Path::new("/")).unwrap();
        assert!(!status.unwrap().success());
    }
}
