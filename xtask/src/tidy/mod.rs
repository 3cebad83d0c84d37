//! `cargo xtask tidy`: what the compiler does not check about the layout.

mod documents;
mod layers;
mod lints;
mod modules;
mod packages;
mod size;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::bail;

use crate::workspace::{Package, Workspace};

type Check = fn(&Workspace) -> anyhow::Result<Vec<String>>;

const CHECKS: &[Check] =
    &[layers::check, packages::check, lints::check, modules::check, size::check, documents::check];

/// Makes all checks and shows every problem that they find.
///
/// # Errors
///
/// When there is a problem, or a file cannot be read.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for check in CHECKS {
        problems.extend(check(workspace)?);
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => bail!("one thing is out of place"),
        count => bail!("{count} things are out of place"),
    }
}

/// The source files of a package, without those of packages that lie inside it.
fn sources(workspace: &Workspace, package: &Package) -> io::Result<Vec<PathBuf>> {
    let own = package.folder();
    let inside: Vec<_> = workspace
        .packages
        .iter()
        .map(Package::folder)
        .filter(|other| *other != own && other.starts_with(own))
        .collect();
    let mut sources = files(own, "rs")?;
    sources.retain(|path| !inside.iter().any(|other| path.starts_with(other)));
    Ok(sources)
}

/// All files under a folder with this ending, in order. Hidden folders and what builds leave behind do not count.
fn files(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if entry.file_type()?.is_dir() {
                if !hidden && entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|own| own == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
