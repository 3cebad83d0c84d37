//! `fairlane explain`.

use fairlane_gateway::explain;

use super::{
    Exit,
    output::{print, say},
};

/// Prints what a name means and what to do; without a name, what names there are.
pub(super) fn explain(name: Option<&str>) -> Exit {
    let Some(name) = name else {
        let groups =
            explain::names().into_iter().map(|(what, names)| format!("{what}:\n  {}\n", names.join("\n  ")));
        return print(&groups.collect::<Vec<_>>().join("\n"));
    };
    let found = explain::explain(name);
    if found.is_empty() {
        say("error: no error code, reason, metric, problem or key has this name");
        match explain::closest(name) {
            Some(close) => say(format!("  help: did you mean `{close}`?")),
            None => say("  help: `fairlane explain` lists them all"),
        }
        return Exit::Usage;
    }
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    print(&format!("{}\n", found.join("\n\n")))
}
