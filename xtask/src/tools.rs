//! Programs from outside that the tests need, and how a machine gets them.

use std::{fs, os::unix::fs::MetadataExt, process::Command};

use anyhow::bail;

use crate::process;

/// A program that the tests need.
struct Tool {
    name: &'static str,
    /// A command that succeeds where the tool is there and good enough.
    probe: &'static [&'static str],
    /// The Debian packages that bring it.
    packages: &'static [&'static str],
    /// What it is for.
    reason: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "Python 3.11 with venv",
        // Debian leaves `ensurepip` out of `python3`, and without it a virtual environment gets no pip.
        probe: &["python3", "-c", "import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 11))"],
        packages: &["python3", "python3-venv"],
        reason: "the official client library calls the gateway",
    },
    Tool {
        name: "redis-server 7",
        // `redis-server --sentinel` is a sentinel, so the package of that name, and the service that comes with it,
        // is not needed. The service of this one is not used either: tests start servers of their own.
        probe: &["sh", "-c", "redis-server --version | grep -Eq ' v=([7-9]|[1-9][0-9])[.]'"],
        packages: &["redis-server"],
        reason: "limits that a fleet shares are tested on real servers, sentinels and clusters",
    },
    Tool {
        name: "Node.js 18",
        probe: &["node", "-e", "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)"],
        packages: &["nodejs"],
        reason: "the language server of editors is asked about configurations",
    },
    Tool {
        name: "npm",
        // Apart from Node.js, because others than Debian bring it along with that.
        probe: &["npm", "--version"],
        packages: &["npm"],
        reason: "the language server of editors comes from its registry",
    },
];

/// Makes sure that every tool is there: installs what is missing where it may, or says what to install.
///
/// # Errors
///
/// When a tool is missing and could not be installed.
pub(crate) fn ensure() -> anyhow::Result<()> {
    let missing = missing(TOOLS);
    if missing.is_empty() {
        return Ok(());
    }
    let packages = packages(&missing);
    if is_root() && process::succeeds(Command::new("apt-get").arg("--version")) {
        install(&packages)?;
    }
    let missing = self::missing(TOOLS);
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = missing.iter().map(|tool| format!("\n  {}: {}", tool.name, tool.reason)).collect();
    bail!(
        "the tests need what is missing here:{}\non Debian: apt-get install {}",
        list.concat(),
        self::packages(&missing).join(" ")
    );
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    // A list that cannot be renewed, of some other source perhaps, need not be the one that is needed.
    if let Err(error) = process::run(apt().arg("update")) {
        eprintln!("{error:#}: going on with the lists that are here");
    }
    process::run(apt().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// apt that asks nothing, and waits while another one is at work.
fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["--quiet", "--option", "DPkg::Lock::Timeout=120"]);
    command
}

fn missing<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<&'a Tool> {
    tools.into_iter().filter(|tool| !is_there(tool.probe)).collect()
}

fn is_there(probe: &[&str]) -> bool {
    let [program, arguments @ ..] = probe else { return false };
    process::succeeds(Command::new(program).args(arguments))
}

fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let mut packages: Vec<_> = tools.iter().flat_map(|tool| tool.packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Whether this process may install packages: its own entry in `/proc` belongs to the user it acts as.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: Tool = Tool { name: "true", probe: &["true"], packages: &["one"], reason: "" };
    const BROKEN: Tool = Tool { name: "false", probe: &["false"], packages: &["two", "one"], reason: "" };
    const ABSENT: Tool =
        Tool { name: "absent", probe: &["a-program-that-nobody-has"], packages: &["three"], reason: "" };

    #[test]
    fn a_tool_is_missing_when_its_probe_fails_or_cannot_start() {
        let missing = missing(&[THERE, BROKEN, ABSENT]).iter().map(|tool| tool.name).collect::<Vec<_>>();
        assert_eq!(missing, ["false", "absent"]);
    }

    #[test]
    fn each_package_is_installed_once() {
        assert_eq!(packages(&[&THERE, &BROKEN, &ABSENT]), ["one", "three", "two"]);
    }

    #[test]
    fn every_tool_says_what_it_is_for_and_where_it_comes_from() {
        for tool in TOOLS {
            assert!(
                !tool.probe.is_empty() && !tool.packages.is_empty() && !tool.reason.is_empty(),
                "{}",
                tool.name
            );
        }
    }
}
