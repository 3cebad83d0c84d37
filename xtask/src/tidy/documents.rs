//! Decisions are numbered without a gap, and links inside the house lead somewhere.

use std::{fs, path::Path};

use crate::workspace::Workspace;

pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let mut problems = numbering(&decisions(&workspace.root.join("docs/adr"))?);
    for path in super::files(&workspace.root, "md")? {
        let text = fs::read_to_string(&path)?;
        let folder = path.parent().unwrap_or(&workspace.root);
        for link in links(&text).filter(|link| !folder.join(link).exists()) {
            problems.push(format!("{}: nothing is at {link}", workspace.relative(&path)));
        }
    }
    Ok(problems)
}

fn decisions(folder: &Path) -> anyhow::Result<Vec<String>> {
    let files = super::files(folder, "md")?;
    Ok(files.iter().filter_map(|path| path.file_stem()?.to_str().map(str::to_owned)).collect())
}

/// What is wrong with the names of decisions, which are to be `NNNN-title` from 0001 on.
fn numbering(names: &[String]) -> Vec<String> {
    let wrong = |(place, name): (usize, &String)| {
        let prefix = format!("{:04}-", place + 1);
        let title = name.strip_prefix(&prefix).unwrap_or_default();
        title.is_empty().then(|| format!("docs/adr/{name}.md: its name is to begin with {prefix}"))
    };
    names.iter().enumerate().filter_map(wrong).collect()
}

/// The targets of links to files, outside code blocks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    let prose = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    prose.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        let (file, _) = target.split_once('#').unwrap_or((target, ""));
        (!file.is_empty() && !file.contains(':')).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_numbered_from_one_without_a_gap() {
        let check = |names: &[&str], wrong: usize| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(numbering(&names).len(), wrong, "{names:?}");
        };
        check(&["0001-first", "0002-second"], 0);
        check(&["0001-first", "0003-third"], 1);
        check(&["0001-first", "0001-other"], 1);
        check(&["0001-", "2-second"], 2);
    }

    #[test]
    fn links_to_files_are_found_in_prose() {
        let text = "\
See [this](docs/this.md), [a part](docs/that.md#part) and [below](#below),
or [elsewhere](scheme:address).
```text
[not](a-link)
```
[last](../last)
";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/this.md", "docs/that.md", "../last"]);
    }
}
