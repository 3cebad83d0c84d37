//! What cargo says about this workspace.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::process;

/// The workspace: its folder, where it builds to, and its packages.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One package of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) readme: Option<PathBuf>,
    /// The registries it may be published to: none given means any, an empty list none.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    /// Each with what it turns on.
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) targets: Vec<Target>,
}

/// What a package depends on, whether to run, to build or to test.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Where it lies, if it is a package of this workspace.
    pub(crate) path: Option<PathBuf>,
    /// `dev` or `build`; none given means to run.
    pub(crate) kind: Option<String>,
}

/// Something that a package builds.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    ///
    /// When cargo cannot be asked, or its answer not be read.
    pub(crate) fn load() -> anyhow::Result<Self> {
        // Cargo sets the variable for what it runs; the folder known when this was built may have moved since.
        let here = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let mut metadata = process::cargo(["metadata", "--no-deps", "--format-version", "1"]);
        Self::ask(metadata.current_dir(here)).context("ask cargo about the workspace")
    }

    fn ask(metadata: &mut Command) -> anyhow::Result<Self> {
        let output = metadata.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("cargo metadata: {}", output.status);
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// A path as a reader would write it: from the root of the workspace.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

impl Dependency {
    /// Whether only tests, examples and benches see it.
    pub(crate) fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Package {
    /// The folder of the package.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Whether it is meant for a registry, and so for strangers.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// The targets of one kind, such as `bench`.
    pub(crate) fn targets(&self, kind: &str) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(move |target| target.kind.iter().any(|own| own == kind))
    }
}
