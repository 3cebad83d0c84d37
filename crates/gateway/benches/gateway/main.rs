//! What the gateway costs beside a bare hyper proxy, in one run, with one backend and one load generator.
//!
//! `cargo bench -p fairlane-gateway --bench gateway` takes about three minutes, with `-- --quick` a quarter of a
//! minute. Both proxies forward the same requests to the same backend, by turns, so that both meet the same
//! neighbours; the gateway counts each request in every dimension it has and has fair queuing on, and nothing is
//! ever refused or held. Then both hold requests, for the memory of one.
//!
//! The program ends well whatever the figures are. It fails when it could not measure: when a process did not start,
//! or an answer was not the backend's.
#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

mod caller;
mod child;
mod config;
mod held;
mod load;
mod placing;
mod process;
mod report;
mod role;
mod rounds;

use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::child::Child;
use crate::role::Role;
use crate::rounds::{Effort, Typical};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Requests held at once for the memory of one.
const HELD: usize = 4_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match Role::of(&arguments) {
        Some(role) => role.run(),
        None => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, or stops at a signal. Either way no child is left.
fn measure(arguments: &[String]) -> Result<(), BoxError> {
    // `cargo test --benches` does not say `--bench`, and only wants to see that it works.
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let effort = if has("--quick") || !has("--bench") {
        Effort { rounds: 2, warm_up: Duration::from_millis(300), round: Duration::from_secs(1) }
    } else {
        Effort { rounds: 9, warm_up: Duration::from_millis(500), round: Duration::from_secs(2) }
    };
    // One thread: generating load is to cost little, and the proxies need the cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = compare(effort) => done,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            _ = terminate.recv() => Err("terminated".into()),
        }
    })
}

async fn compare(effort: Effort) -> Result<(), BoxError> {
    report::machine();
    let backend = Child::role(Role::Backend)?;
    let bare = Child::role(Role::BareProxy { backend: backend.address() })?;
    let gateway = Child::gateway(&config::forwarding(backend.address()))?;
    let alone = rounds::compare(&bare, &gateway, 1, effort).await?;
    let together = compare_together([&backend, &bare, &gateway], effort).await?;
    let crowded = rounds::compare(&bare, &gateway, 64, effort).await?;
    drop((bare, gateway));

    let bare = Child::role(Role::BareHolder)?;
    let gateway = Child::gateway(&config::holding(backend.address()))?;
    let memory = held::compare(&bare, &gateway, HELD).await?;
    report::machine();
    report::bars(&alone, &together, &crowded, &memory);
    Ok(())
}

/// One caller again, with caller, proxies and backend all on one core.
async fn compare_together(children: [&Child; 3], effort: Effort) -> Result<Typical, BoxError> {
    let [_, bare, gateway] = children;
    let all = placing::cores()?;
    let place = |cores: &[usize]| {
        let ids = children.map(Child::id).into_iter().chain([std::process::id()]);
        ids.into_iter().try_for_each(|process| placing::place(process, cores))
    };
    place(all.get(..1).unwrap_or_default())?;
    println!("\nwith everybody on one core");
    let together = rounds::compare(bare, gateway, 1, effort).await;
    place(&all)?;
    together
}
