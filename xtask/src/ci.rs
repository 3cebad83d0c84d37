//! `cargo xtask ci`: all that a change must pass.

use std::process::Command;

use anyhow::bail;

use crate::{r#gen, process, test, tidy, workspace::Workspace};

type Step = (&'static str, fn(&Workspace) -> anyhow::Result<()>);

/// What is quick to fail comes first. The tests come last, so that what their runner says is what stands at the end.
const STEPS: &[Step] = &[
    ("format", format),
    ("gen --check", |_| r#gen::run(true)),
    ("tidy", tidy::run),
    ("deny", deny),
    ("clippy", clippy),
    ("features", features),
    ("documentation", documentation),
    ("test", test::run),
];

/// Runs every step, also after one has failed: whoever mends wants to see all of it.
///
/// # Errors
///
/// When any step failed.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for (name, step) in STEPS {
        eprintln!("\n=== {name}");
        if let Err(error) = step(workspace) {
            eprintln!("error: {error:#}");
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn format(workspace: &Workspace) -> anyhow::Result<()> {
    process::run(process::cargo(["fmt", "--all", "--check"]).current_dir(&workspace.root))
}

fn clippy(workspace: &Workspace) -> anyhow::Result<()> {
    let arguments = ["clippy", "--workspace", "--all-features", "--all-targets", "--", "-D", "warnings"];
    process::run(process::cargo(arguments).current_dir(&workspace.root))
}

/// Each crate that may be published, by itself, with none of its features and with each alone: others take one crate with
/// what they need, where nothing that the rest of the workspace turns on comes to its help.
fn features(workspace: &Workspace) -> anyhow::Result<()> {
    for package in workspace.packages.iter().filter(|package| package.is_published()) {
        let without = ["clippy", "--quiet", "--lib", "--no-default-features", "--package", &package.name];
        let alone = package.features.keys().filter(|feature| *feature != "default").map(Some);
        for feature in std::iter::once(None).chain(alone) {
            let mut check = process::cargo(without);
            if let Some(feature) = feature {
                check.args(["--features", feature]);
            }
            check.args(["--", "-D", "warnings"]);
            process::run(check.current_dir(&workspace.root))?;
        }
    }
    Ok(())
}

fn documentation(workspace: &Workspace) -> anyhow::Result<()> {
    let arguments = ["doc", "--workspace", "--all-features", "--no-deps"];
    process::run(process::cargo(arguments).current_dir(&workspace.root).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Licences, bans and sources of the dependencies, where cargo-deny is installed. Advisories are left to whoever has
/// a fresh copy of their database: fetching it would make this step depend on the network.
fn deny(workspace: &Workspace) -> anyhow::Result<()> {
    if !process::succeeds(process::cargo(["deny", "--version"]).current_dir(&workspace.root)) {
        eprintln!("cargo-deny is not installed: skipped");
        return Ok(());
    }
    let mut check: Command = process::cargo(["deny", "--workspace", "--all-features", "check"]);
    process::run(check.args(["bans", "licenses", "sources"]).current_dir(&workspace.root))
}
