//! `cargo xtask gen`: the files that are made from the code, written or compared.

#[path = "gen_reference.rs"]
mod reference;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

/// Writes the generated files, or, to check, compares them with what would be written.
///
/// # Errors
///
/// When a file cannot be read or written, or, on a check, when one is not as it would be written.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let schema = fairlane_config::schema();
    let keys_schema = fairlane_config::keys_schema();
    let files = [
        ("schemas/fairlane.schema.json", format!("{}\n", serde_json::to_string_pretty(&schema)?)),
        ("schemas/fairlane-keys.schema.json", format!("{}\n", serde_json::to_string_pretty(&keys_schema)?)),
        ("docs/configuration.md", reference::write(&schema)),
    ];
    let root = root();
    let mut stale = Vec::new();
    for (name, content) in files {
        let path = root.join(name);
        let current = fs::read_to_string(&path).unwrap_or_default();
        if current == content {
            continue;
        }
        if check {
            stale.push(name);
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
    }
    if !stale.is_empty() {
        bail!("not up to date: {}; run `cargo xtask gen`", stale.join(", "));
    }
    Ok(())
}

/// The folder of the workspace, which is above that of this package.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_generated_files_are_up_to_date() {
        super::run(true).unwrap();
    }
}
