//! The project's own tasks: `cargo xtask help` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to its user")]

mod bench;
mod ci;
mod examples;
mod r#gen;
mod node;
mod process;
mod python;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const HELP: &str = "\
cargo xtask <task>

  gen [--check]            write what is generated (schemas/, docs/configuration.md, the codes of docs/diagnostics.md), or only compare it
  test                     set up what the tests need, then run them all, the documented and the runnable examples too
  bench [name] [--quick]   run the benchmarks: all, or those of that name or crate; --quick measures shorter
  tidy                     check the layout: layers, modules, sizes, lints, documents
  ci                       all that a change must pass: formatting, lints, documentation, gen --check, tidy, test
  help                     show this
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["gen"] => r#gen::run(false),
        ["gen", "--check"] => r#gen::run(true),
        ["test"] => Workspace::load().and_then(|workspace| test::run(&workspace)),
        ["bench", ref options @ ..] => {
            Workspace::load().and_then(|workspace| bench::run(&workspace, options))
        }
        ["tidy"] => Workspace::load().and_then(|workspace| tidy::run(&workspace)),
        ["ci"] => Workspace::load().and_then(|workspace| ci::run(&workspace)),
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
