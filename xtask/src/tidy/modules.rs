//! No source file without a `mod` that includes it: a test in such a file never runs, and nobody is told.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::workspace::{Package, Workspace};

pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in &workspace.packages {
        let included = included(package)?;
        for path in super::sources(workspace, package)? {
            if !included.contains(&path) {
                problems.push(format!("{}: no module includes it", workspace.relative(&path)));
            }
        }
    }
    Ok(problems)
}

/// Every file that some target of the package compiles.
fn included(package: &Package) -> io::Result<BTreeSet<PathBuf>> {
    let mut included = BTreeSet::new();
    // Files yet to be read, each with the folder that its modules lie in.
    let mut open: Vec<(PathBuf, PathBuf)> = Vec::new();
    for target in &package.targets {
        open.push((target.src_path.clone(), parent(&target.src_path)));
    }
    while let Some((file, folder)) = open.pop() {
        if !included.insert(file.clone()) {
            continue;
        }
        for module in declared(&fs::read_to_string(&file)?) {
            open.extend(locate(&file, &folder, &module).into_iter().filter(|(path, _)| path.is_file()));
        }
    }
    Ok(included)
}

/// Where a module may lie, each with the folder of its own modules.
fn locate(file: &Path, folder: &Path, module: &Module) -> Vec<(PathBuf, PathBuf)> {
    let own = folder.join(&module.name);
    match &module.path {
        Some(path) => {
            let path = parent(file).join(path);
            vec![(path.clone(), parent(&path))]
        }
        None => vec![(folder.join(format!("{}.rs", module.name)), own.clone()), (own.join("mod.rs"), own)],
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// A module whose text is in another file.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: String,
    /// From a `path` attribute.
    path: Option<String>,
}

/// The modules that a formatted source file declares to lie elsewhere.
fn declared(source: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    let mut path = None;
    for line in source.lines().map(str::trim) {
        if let Some(attribute) = line.strip_prefix("#[path = \"") {
            path = attribute.split('"').next().map(str::to_owned);
        } else if !line.starts_with('#') && !line.starts_with("//") {
            let path = path.take();
            modules.extend(name(line).map(|name| Module { name: name.to_owned(), path }));
        }
    }
    modules
}

/// The name in a line like `pub(crate) mod name;`.
fn name(line: &str) -> Option<&str> {
    let (declaration, _) = line.split_once(';')?;
    let public = declaration.strip_prefix("pub").map(|rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(scope, |(_, rest)| rest),
        None => rest,
    });
    let name = public.unwrap_or(declaration).trim_start().strip_prefix("mod ")?.trim();
    Some(name.strip_prefix("r#").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_told_from_other_lines() {
        let source = "\
//! mod not;
use other::mod_name;
mod plain;
pub mod public; // with a reason
pub(crate) mod scoped;
pub(in crate::a) mod r#gen;
#[cfg(test)]
#[path = \"else/where.rs\"]
mod moved;
mod inline { fn f() {} }
// mod commented;
";
        let names: Vec<_> = declared(source).iter().map(|module| module.name.clone()).collect();
        assert_eq!(names, ["plain", "public", "scoped", "gen", "moved"]);
        assert_eq!(declared(source)[4].path.as_deref(), Some("else/where.rs"));
        assert_eq!(declared(source)[0].path, None);
    }

    #[test]
    fn a_module_lies_in_the_folder_of_its_parent() {
        let module = |path: Option<&str>| Module { name: "child".to_owned(), path: path.map(str::to_owned) };
        let located = |module| {
            let found = locate(Path::new("src/parent.rs"), Path::new("src/parent"), &module);
            found
                .into_iter()
                .map(|(path, folder)| (path.display().to_string(), folder.display().to_string()))
                .collect::<Vec<_>>()
        };
        let pair = |path: &str, folder: &str| (path.to_owned(), folder.to_owned());
        assert_eq!(
            located(module(None)),
            [
                pair("src/parent/child.rs", "src/parent/child"),
                pair("src/parent/child/mod.rs", "src/parent/child"),
            ]
        );
        assert_eq!(located(module(Some("other.rs"))), [pair("src/other.rs", "src")]);
    }
}
