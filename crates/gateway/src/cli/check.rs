//! `fairlane check`.

use std::path::Path;

use fairlane_config::{Overrides, Severity, Validated};

use super::{
    Exit,
    load::{Form, find, load, tell},
    output::{fail, print, say},
};
use crate::connect::{self, Found};

/// Tells everything that is wrong with a configuration, and tries its store if that is asked for.
pub(super) fn check(given: Option<&Path>, overrides: Overrides, form: Form, connect: bool) -> Exit {
    let config = match find(given).and_then(|path| load(&path, overrides)) {
        Ok(inspected) => inspected.into_config(),
        Err(refusal) => {
            refusal.tell(form);
            return Exit::Configuration;
        }
    };
    tell(config.warnings(), form);
    if form != Form::Json {
        let (file, warnings) = (config.file().display(), config.warnings().count(Severity::Warning));
        let plural = if warnings == 1 { "" } else { "s" };
        let told = print(&format!("{file}: good ({warnings} warning{plural})\n"));
        if told != Exit::Done {
            return told;
        }
    }
    if connect { try_store(&config, form) } else { Exit::Done }
}

/// Connects to the store of the limits. That it does not answer says nothing against the configuration.
fn try_store(config: &Validated, form: Form) -> Exit {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let Found { report, warnings, problems } = runtime.block_on(connect::connect(config));
    // Standard output has one JSON object and nothing else.
    let exit = match form {
        Form::Json => {
            say(report.trim_end());
            Exit::Done
        }
        _ => print(&report),
    };
    warnings.iter().for_each(|warning| say(format!("warning: {warning}")));
    problems.iter().for_each(|problem| say(format!("error: {problem}")));
    if problems.is_empty() { exit } else { Exit::Failed }
}
