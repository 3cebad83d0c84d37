//! `cargo xtask test`: everything that the tests need, then all of them.

use crate::{examples, node, process, python, tools, workspace::Workspace};

/// What every build here selects. Features and dev-dependencies are the same in all of them, so nothing is built twice.
const ALL: [&str; 2] = ["--workspace", "--all-features"];

/// Sets up, builds, and runs the examples and all tests.
///
/// # Errors
///
/// When something that the tests need is missing, or anything fails.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    tools::ensure()?;
    let interpreter = python::prepare(workspace)?;
    let editor = node::prepare(workspace)?;

    // The gateway itself, which the end-to-end tests start. Asking for examples too brings in the dev-dependencies:
    // without them the features of shared dependencies would differ from those of the test build.
    let mut build =
        process::cargo(["build", "--bins", "--examples", "--message-format", "json-render-diagnostics"]);
    let built = process::read(build.args(ALL).current_dir(&workspace.root))?;
    process::run(process::cargo(["test", "--benches", "--no-run"]).args(ALL).current_dir(&workspace.root))?;
    examples::run(workspace, &built)?;
    process::run(
        process::cargo(["test", "--no-fail-fast"])
            .args(ALL)
            .current_dir(&workspace.root)
            .env("FAIRLANE_PYTHON", interpreter)
            .env("FAIRLANE_EDITOR_TOOLS", editor),
    )
}
