//! Waiting with a deadline, so that a test that hangs says for what.

use std::time::Duration;

pub use fairlane_redis_servers::wait::{PATIENCE, pass, within};

/// Between two looks at what cannot signal.
const PAUSE: Duration = Duration::from_millis(3);

/// Looks until there is something to see. Only for what has no event, such as a page of the admin plane.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
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
