//! `cargo xtask gen`: the files that are made from the code, written or compared.

#[path = "gen_reference.rs"]
mod reference;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use fairlane_config::Kind;

/// Writes the generated files, or, to check, compares them with what would be written.
///
/// # Errors
///
/// When a file cannot be read or written, or, on a check, when one is not as it would be written.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let root = root();
    let diagnostics = "docs/diagnostics.md";
    let written =
        fs::read_to_string(root.join(diagnostics)).with_context(|| format!("read {diagnostics}"))?;
    let schema = fairlane_config::schema();
    let keys_schema = fairlane_config::keys_schema();
    let files = [
        ("schemas/fairlane.schema.json", format!("{}\n", serde_json::to_string_pretty(&schema)?)),
        ("schemas/fairlane-keys.schema.json", format!("{}\n", serde_json::to_string_pretty(&keys_schema)?)),
        ("docs/configuration.md", reference::write(&schema)),
        (diagnostics, with_table(&written, CODES, &codes()).with_context(|| format!("write {diagnostics}"))?),
    ];
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

/// The head of the table of what `fairlane check` finds.
const CODES: &str = "| code | what it means | what to do |";

/// The rows of the table of what `fairlane check` finds.
fn codes() -> Vec<String> {
    let row = |kind: Kind| {
        let (means, advice) = kind.explanation();
        format!("| `{}` | {means} | {advice} |", kind.code())
    };
    Kind::ALL.map(row).into()
}

/// A document with other rows in the table of this head. All else in it is written by hand.
fn with_table(document: &str, head: &str, rows: &[String]) -> anyhow::Result<String> {
    let Some((before, table)) = document.split_once(&format!("{head}\n")) else {
        bail!("there is no table with the head `{head}`");
    };
    let after = table.find("\n\n").map_or("\n", |end| &table[end..]);
    let line = "---|".repeat(head.matches('|').count() - 1);
    Ok(format!("{before}{head}\n|{line}\n{}{after}", rows.join("\n")))
}

/// The folder of the workspace, which is above that of this package.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_files_are_up_to_date() {
        run(true).unwrap();
    }

    #[test]
    fn a_table_is_written_and_all_around_it_stays() {
        let rows = ["| x | y |".to_owned(), "| z | w |".to_owned()];
        let written =
            with_table("one\n\n| a | b |\n|---|---|\n| old | row |\n\nanother\n", "| a | b |", &rows);
        assert_eq!(written.unwrap(), "one\n\n| a | b |\n|---|---|\n| x | y |\n| z | w |\n\nanother\n");
        let written = with_table("| a | b |\n|---|---|\n| old | row |\n", "| a | b |", &rows[..1]);
        assert_eq!(written.unwrap(), "| a | b |\n|---|---|\n| x | y |\n");
        assert!(with_table("no table\n", "| a | b |", &rows).is_err());
    }
}
