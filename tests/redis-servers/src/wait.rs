//! Waiting with a deadline, so that a test that hangs says for what.

use std::time::Duration;

/// How long a test waits for what must come. Far longer than anything takes, because machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at what cannot signal.
const PAUSE: Duration = Duration::from_millis(2);

/// Awaits `future`; panics with `what` when it takes longer than [`PATIENCE`].
pub async fn within<F: IntoFuture>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited {PATIENCE:?} in vain for {what}"),
    }
}

/// Looks until there is something to see.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    within(what, async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await
}

/// Lets time itself pass, where time is what is tested: a bucket that refills, a load that runs for a while.
///
/// Never to wait for something to happen.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
