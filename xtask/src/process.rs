//! Other programs, run where the user can watch them.

use std::{
    env,
    ffi::{OsStr, OsString},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

/// The cargo that runs this task, so that a task never mixes toolchains.
pub(crate) fn cargo<I: IntoIterator<Item: AsRef<OsStr>>>(arguments: I) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(arguments);
    command
}

/// Says what is run, and runs it with the user's output and no input: a task never waits for an answer.
///
/// # Errors
///
/// When the program cannot be started, or says that it failed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = announce(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("start {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// Like [`run`], but hands back what the program wrote to its standard output.
///
/// # Errors
///
/// When the program cannot be started, says that it failed, or writes what is not UTF-8.
pub(crate) fn read(command: &mut Command) -> anyhow::Result<String> {
    let line = announce(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("start {line}"))?;
    if !output.status.success() {
        bail!("{line}: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{line} wrote no UTF-8"))
}

/// Whether a program can be started and succeeds. What it writes is nobody's concern.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Shows the command as it could be typed, and returns it for messages.
fn announce(command: &Command) -> String {
    let line = shown(command);
    eprintln!("$ {line}");
    line
}

fn shown(command: &Command) -> String {
    let program = command.get_program();
    // A full path to the program tells a reader nothing.
    let name = std::path::Path::new(program).file_name().unwrap_or(program);
    let words = std::iter::once(name).chain(command.get_args()).map(OsStr::to_string_lossy);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_by_its_name_and_arguments() {
        assert_eq!(shown(Command::new("/some/where/tool").args(["--flag", "value"])), "tool --flag value");
    }

    #[test]
    fn a_failure_is_told_with_its_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c exit 3"), "{error}");
        assert!(error.contains('3'), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_does_not_succeed() {
        assert!(!succeeds(&mut Command::new("a-program-that-nobody-has")));
        assert!(succeeds(&mut Command::new("true")));
    }
}
