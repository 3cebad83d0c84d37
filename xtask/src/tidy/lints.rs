//! A crate's own `clippy.toml` replaces the one at the root whole, so it has to repeat it.

use std::{fs, path::Path};

use crate::workspace::Workspace;

pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let house = fs::read_to_string(workspace.root.join("clippy.toml"))?;
    let mut problems = Vec::new();
    for package in &workspace.packages {
        let path = package.folder().join("clippy.toml");
        if path.is_file() {
            let missing = missing(&house, &fs::read_to_string(&path)?);
            problems.extend(missing.iter().map(|line| complaint(workspace, &path, line)));
        }
    }
    Ok(problems)
}

fn complaint(workspace: &Workspace, path: &Path, line: &str) -> String {
    format!("{}: this line of the root's clippy.toml is missing: {line}", workspace.relative(path))
}

/// The rules of the house that a crate's file leaves out.
fn missing(house: &str, own: &str) -> Vec<String> {
    let rules = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    let own = rules(own);
    rules(house).into_iter().filter(|rule| !own.contains(rule)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_repeats_the_rules_and_may_add_some() {
        let house = "# why\nfirst = true\nlist = [\n  { path = \"a\" },\n]\n";
        assert!(missing(house, "own = 1\nfirst = true\nlist = [\n{ path = \"a\" },\n]\n").is_empty());
        assert_eq!(missing(house, "# first = true\nlist = [\n]\n"), ["first = true", "{ path = \"a\" },"]);
    }
}
