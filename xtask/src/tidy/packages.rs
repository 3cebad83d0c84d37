//! What every package brings along: a licence, and what a stranger needs to use it.

use std::fs;

use crate::workspace::{Package, Workspace};

const LICENCE: &str = "MIT OR Apache-2.0";

pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for text in ["LICENSE-MIT", "LICENSE-APACHE"] {
        if !workspace.root.join(text).is_file() {
            problems.push(format!("{text} is missing"));
        }
    }
    for package in &workspace.packages {
        problems.extend(of(package)?.into_iter().map(|problem| format!("{}: {problem}", package.name)));
    }
    Ok(problems)
}

fn of(package: &Package) -> anyhow::Result<Vec<&'static str>> {
    let mut problems = Vec::new();
    if package.license.as_deref() != Some(LICENCE) {
        problems.push("its licence is not that of the workspace");
    }
    let manifest = fs::read_to_string(&package.manifest_path)?;
    if !manifest.contains("[lints]\nworkspace = true\n") {
        problems.push("it does not take the lints of the workspace");
    }
    if package.description.as_deref().is_none_or(str::is_empty) {
        problems.push("it has no description");
    }
    if !package.is_published() {
        return Ok(problems);
    }
    if !package.readme.as_ref().is_some_and(|readme| package.folder().join(readme).is_file()) {
        problems.push("it has no README");
    }
    if package.targets("example").next().is_none() {
        problems.push("it has no example of its use");
    }
    Ok(problems)
}
