//! Callers that each send their next request when the last one is answered.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::BoxError;
use crate::caller::Caller;
use crate::child::Child;
use crate::process;

/// What one round came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// CPU time of the proxy per request, in microseconds.
    pub(crate) cpu_us: f64,
    /// Requests answered per second.
    pub(crate) per_second: f64,
    /// Times from a request to the end of its answer, in microseconds.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Loads a proxy with as many callers at once, on connections of their own, and measures after a warm-up.
pub(crate) async fn load(
    proxy: &Child,
    concurrency: usize,
    warm_up: Duration,
    length: Duration,
) -> Result<Sample, BoxError> {
    let mut callers = Vec::with_capacity(concurrency);
    for number in 0..concurrency {
        callers.push(Caller::connect(proxy.address(), number).await?);
    }
    let (callers, _) = drive(callers, now() + warm_up).await?;
    let (start, spent) = (now(), process::cpu_time(proxy.id())?);
    let (_callers, mut nanos) = drive(callers, start + length).await?;
    let seconds = (now() - start).as_secs_f64();
    let spent = process::cpu_time(proxy.id())?.saturating_sub(spent);

    nanos.sort_unstable();
    let requests = count(nanos.len());
    let at = |hundredth: usize| {
        nanos.get(nanos.len() * hundredth / 100).map_or(f64::NAN, |nanos| f64::from(*nanos) / 1e3)
    };
    Ok(Sample {
        cpu_us: spent.as_secs_f64() * 1e6 / requests,
        per_second: requests / seconds,
        p50_us: at(50),
        p99_us: at(99),
    })
}

/// Lets them call until then; returns them and the time that each call took, in nanoseconds.
async fn drive(callers: Vec<Caller>, until: Instant) -> Result<(Vec<Caller>, Vec<u32>), BoxError> {
    let mut calling = JoinSet::new();
    for mut caller in callers {
        calling.spawn(async move {
            let mut nanos = Vec::with_capacity(64 * 1024);
            let mut begun = now();
            while begun < until {
                caller.call().await?;
                let answered = now();
                nanos.push(u32::try_from((answered - begun).as_nanos()).unwrap_or(u32::MAX));
                begun = answered;
            }
            Ok::<_, BoxError>((caller, nanos))
        });
    }
    let mut done = (Vec::new(), Vec::new());
    while let Some(called) = calling.join_next().await {
        let (caller, nanos) = called??;
        done.0.push(caller);
        done.1.extend(nanos);
    }
    Ok(done)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::disallowed_methods, reason = "a benchmark runs in real time")]
fn now() -> Instant {
    Instant::now()
}
