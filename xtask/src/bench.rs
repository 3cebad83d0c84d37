//! `cargo xtask bench`: the committed benchmarks, whichever there are.

use std::collections::BTreeSet;

use anyhow::bail;

use crate::{
    process,
    workspace::{Package, Workspace},
};

/// Runs all benchmarks, or those whose own name or crate is named. `--quick` is handed on to them.
///
/// # Errors
///
/// When an option or name is unknown, or a benchmark fails.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> anyhow::Result<()> {
    let (quick, names): (Vec<&str>, Vec<&str>) = options.iter().partition(|option| option.starts_with("--"));
    if let Some(unknown) = quick.iter().find(|option| **option != "--quick") {
        bail!("unknown option {unknown}: there is --quick");
    }
    let chosen = choose(&workspace.packages, &names)?;
    let mut bench = process::cargo(["bench", "--workspace"]);
    for name in chosen {
        bench.args(["--bench", name]);
    }
    if !quick.is_empty() {
        bench.args(["--", "--quick"]);
    }
    process::run(bench.current_dir(&workspace.root))
}

/// The benchmarks that the names ask for; without names, all of them.
fn choose<'a>(packages: &'a [Package], names: &[&str]) -> anyhow::Result<BTreeSet<&'a str>> {
    let all: Vec<(&str, &str)> = packages
        .iter()
        .flat_map(|package| package.targets("bench").map(|target| (folder(package), target.name.as_str())))
        .collect();
    for name in names {
        if !all.iter().any(|(folder, bench)| name == folder || name == bench) {
            let known: Vec<_> = all.iter().map(|(folder, bench)| format!("{bench} (of {folder})")).collect();
            bail!("no benchmark {name}: there are {}", known.join(", "));
        }
    }
    let wanted = |folder, bench| names.is_empty() || names.contains(&folder) || names.contains(&bench);
    Ok(all.into_iter().filter(|&(folder, bench)| wanted(folder, bench)).map(|(_, bench)| bench).collect())
}

fn folder(package: &Package) -> &str {
    package.folder().file_name().and_then(|name| name.to_str()).unwrap_or(&package.name)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::Target;

    fn package(folder: &str, benches: &[&str]) -> Package {
        let target = |name: &&str| Target {
            name: (*name).to_owned(),
            kind: vec!["bench".to_owned()],
            src_path: PathBuf::new(),
        };
        Package {
            name: format!("fairlane-{folder}"),
            manifest_path: PathBuf::from(format!("/crates/{folder}/Cargo.toml")),
            description: None,
            license: None,
            readme: None,
            publish: None,
            dependencies: Vec::new(),
            features: std::collections::BTreeMap::new(),
            targets: benches.iter().map(target).collect(),
        }
    }

    #[test]
    fn benchmarks_are_chosen_by_their_name_or_their_crate() {
        let packages = [package("limiter", &["limiter"]), package("gateway", &["stack", "held"])];
        let check = |names: &[&str], expected: &[&str]| {
            let chosen: Vec<_> = choose(&packages, names).unwrap().into_iter().collect();
            assert_eq!(chosen, expected, "{names:?}");
        };
        check(&[], &["held", "limiter", "stack"]);
        check(&["gateway"], &["held", "stack"]);
        check(&["stack"], &["stack"]);
        check(&["held", "limiter"], &["held", "limiter"]);
        let error = choose(&packages, &["stac"]).unwrap_err().to_string();
        assert!(error.contains("stack (of gateway)"), "{error}");
    }
}
