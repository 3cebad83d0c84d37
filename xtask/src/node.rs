//! The language tools of the editor tests: a folder of their own, with the packages of the lock file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use crate::{process, workspace::Workspace};

/// What says which packages, in which versions, with which digests, and from where.
const MANIFEST: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// Makes the folder under the target folder, or keeps it when it is what the lock file asks for, and returns that of its
/// packages.
///
/// # Errors
///
/// When the folder cannot be made or a package not be installed.
pub(crate) fn prepare(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let source = workspace.root.join("tests/editor");
    let folder = workspace.target.join("editor");
    let packages = folder.join("node_modules");
    let wanted = fingerprint(&source)?;
    // Written last, so an installation that broke off is made again.
    let stamp = folder.join("installed");
    if packages.exists() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(packages);
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for name in MANIFEST {
        fs::copy(source.join(name), folder.join(name)).with_context(|| format!("copy {name}"))?;
    }
    // `ci` takes exactly what the lock file names, and compares every digest. No package runs anything of its own.
    process::run(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&folder),
    )?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))?;
    Ok(packages)
}

/// All that the packages depend on. None is built, so it does not matter for which Node.js they were installed.
fn fingerprint(source: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for name in MANIFEST {
        let path = source.join(name);
        text += &fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address in a lock file would bind everybody to the registry of whoever wrote it.
    #[test]
    fn the_lock_file_knows_packages_by_their_digests_and_names_no_registry() {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/editor/package-lock.json");
        let lock: serde_json::Value = serde_json::from_str(&fs::read_to_string(lock).unwrap()).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        assert!(packages.len() > 1, "{packages:?}");
        for (path, package) in packages.iter().filter(|(path, _)| !path.is_empty()) {
            assert!(package["integrity"].is_string(), "{path}");
            assert!(package.get("resolved").is_none(), "{path}");
        }
    }
}
