//! The Python of the tests: a virtual environment of its own, with the pinned packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use crate::{process, workspace::Workspace};

/// Makes the environment under the target folder, or keeps it when it is what the requirements ask for, and returns
/// its interpreter.
///
/// # Errors
///
/// When the environment cannot be made or a package not be installed.
pub(crate) fn prepare(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let requirements = workspace.root.join("tests/python/requirements.txt");
    let folder = workspace.target.join("python");
    let interpreter = folder.join("bin/python");
    let wanted = fingerprint(&requirements, &folder)?;
    // Written last, so an installation that broke off is made again.
    let stamp = folder.join("installed");
    if interpreter.exists() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(interpreter);
    }
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    process::run(
        Command::new(&interpreter)
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
            .arg("--requirement")
            .arg(&requirements),
    )?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))?;
    Ok(interpreter)
}

/// All that the environment depends on: the packages, the interpreter, and the folder, whose path its scripts contain.
fn fingerprint(requirements: &Path, folder: &Path) -> anyhow::Result<String> {
    let packages =
        fs::read_to_string(requirements).with_context(|| format!("read {}", requirements.display()))?;
    let version = process::read(Command::new("python3").arg("--version"))?;
    Ok(format!("{version}{}\n{packages}", folder.display()))
}
