//! The project's own tasks: `cargo xtask help` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to its user")]

mod r#gen;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <task>

  gen [--check]   write the generated files (schemas/, docs/configuration.md), or only compare them
  help            show this
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["gen"] => r#gen::run(false),
        ["gen", "--check"] => r#gen::run(true),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
