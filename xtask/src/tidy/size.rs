//! A file is one room: past a size it is several.

use std::fs;

use crate::workspace::Workspace;

/// The most lines of a source file.
const MOST: usize = 600;

pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in &workspace.packages {
        for path in super::sources(workspace, package)? {
            let lines = fs::read_to_string(&path)?.lines().count();
            if lines > MOST {
                problems.push(format!("{}: {lines} lines, at most {MOST}", workspace.relative(&path)));
            }
        }
    }
    Ok(problems)
}
