//! The memory of requests that are held.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::BoxError;
use crate::caller::Caller;
use crate::child::Child;
use crate::config::MODEL;
use crate::load::count;
use crate::process;

/// Files that a process has open besides the connections of those who are held.
const OTHER_FILES: usize = 200;
/// How often, and how many times, to ask whether all are held.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: usize = 500;

/// Bytes resident per held request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) requests: usize,
    pub(crate) bare: f64,
    pub(crate) gateway: f64,
}

/// Has both hold so many requests, one after the other.
pub(crate) async fn compare(bare: &Child, gateway: &Child, requests: usize) -> Result<Memory, BoxError> {
    let possible = process::open_files()?.saturating_sub(OTHER_FILES);
    if possible < requests {
        println!("\nonly {possible} requests are held: so many files may be open (`ulimit -n`)");
    }
    let requests = requests.min(possible);
    // Answered, it is the one request that the key had.
    call(gateway.address()).await?.call().await?;
    Ok(Memory { requests, bare: hold(bare, requests).await?, gateway: hold(gateway, requests).await? })
}

/// Bytes per request.
async fn hold(child: &Child, requests: usize) -> Result<f64, BoxError> {
    let (address, path) = child.status();
    let mut status = Caller::getting(address, path).await?;
    status.call().await?;
    let before = process::resident_bytes(child.id())?;
    let mut held = Vec::with_capacity(requests);
    for _ in 0..requests {
        let mut caller = call(child.address()).await?;
        caller.send().await?;
        held.push(caller);
    }
    // One may be admitted while the others come.
    let enough = requests - requests / 1_000;
    for _ in 0..LOOKS {
        let told: Value = serde_json::from_slice(status.call().await?)?;
        let now = told["held"].as_u64().and_then(|held| usize::try_from(held).ok()).unwrap_or(0);
        if now >= enough {
            let after = process::resident_bytes(child.id())?;
            return Ok(count(usize::try_from(after.saturating_sub(before))?) / count(now));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("of {requests} requests not all are held").into())
}

/// A caller with next to no body: bodies are not to count.
async fn call(to: SocketAddr) -> Result<Caller, BoxError> {
    Caller::with(to, 0, &format!(r#"{{"model":"{MODEL}","messages":[]}}"#)).await
}
