//! The `fairlane` command.

mod cli;
mod connect;

use std::process::ExitCode;

/// A request makes dozens of short-lived allocations; the gateway's benchmark shows what they cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(cli::run(std::env::args_os()) as u8)
}
