//! Where the configuration file is.

use std::path::{Path, PathBuf};

use crate::interpolate::Environment;

/// No configuration file was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no configuration file is given, and none is at {}", .searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
pub struct NotFound {
    /// Where one was looked for.
    pub searched: Vec<PathBuf>,
}

/// Finds the configuration file: the one given, that of `$FAIRLANE_CONFIG`, `./fairlane.yaml`,
/// `$XDG_CONFIG_HOME/fairlane/fairlane.yaml` (with `$HOME/.config` for an unset `$XDG_CONFIG_HOME`),
/// `/etc/fairlane/fairlane.yaml`.
///
/// The first two are returned whether or not they exist: who names a file wants that one.
///
/// # Errors
///
/// When no file is named and none of the usual ones exists.
pub fn discover(given: Option<&Path>, environment: &dyn Environment) -> Result<PathBuf, NotFound> {
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or_else(|| variable("FAIRLANE_CONFIG")) {
        return Ok(path);
    }
    let home = variable("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".config")));
    let searched: Vec<PathBuf> = [
        Some(PathBuf::from("./fairlane.yaml")),
        home.map(|home| home.join("fairlane/fairlane.yaml")),
        Some(PathBuf::from("/etc/fairlane/fairlane.yaml")),
    ]
    .into_iter()
    .flatten()
    .collect();
    match searched.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(NotFound { searched }),
    }
}
