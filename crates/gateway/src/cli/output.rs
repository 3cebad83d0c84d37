//! What a command says, and where.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
};

use super::Exit;

/// Tells an error with its causes.
pub(super) fn fail(error: &dyn std::error::Error) -> Exit {
    say(format!("error: {}", with_causes(error)));
    Exit::Failed
}

/// An error and its causes in a line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

/// To standard output, where a closed pipe is the reader's choice.
pub(super) fn print(text: &str) -> Exit {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

/// To standard error; who has closed that does not want to know.
pub(super) fn say(text: impl fmt::Display) {
    _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether standard error takes colours: it is a terminal that knows them, and nobody asked for none.
pub(super) fn takes_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    io::stderr().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}
