//! Grants that come after their caller has given up, and those that nobody will ever know of.
//!
//! A request that was sent may be carried out whatever becomes of its caller. Its answer is waited for in the
//! background, for a while, and what it took is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::task::JoinHandle;

use super::connection::node::Sent;
use super::core::Core;
use super::failure::Failure;
use super::plan::{Line, Lines, Plan};
use super::script::{Request, Verdict};
use super::voice::Kind;
use crate::decision::PerCharge;

/// Answers waited for at once. Each takes about a kilobyte.
const MOST_AWAITED: usize = 1_024;

/// How long an answer is waited for.
const LATEST: Duration = Duration::from_secs(10);

/// Counts grants that nobody got.
#[derive(Debug, Default)]
pub(super) struct Late {
    awaited: AtomicUsize,
    returned: AtomicU64,
    lost: AtomicU64,
}

/// What became of a late answer.
enum Outcome {
    NothingTaken,
    GivenBack,
    Unknown,
}

impl Late {
    pub(super) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Relaxed)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits for the answer in the background, and gives back what it grants.
    #[cold]
    pub(super) fn adopt(core: &Arc<Core>, sent: Sent, request: &Request<'_>) {
        let lines: PerCharge<Line> = request.lines.iter().collect();
        let (asked, nonce, now) = (request.asked, request.nonce, request.now);
        let spawned = Self::spawn(core, |core| async move {
            let request = Request { lines: Lines::Lines(&lines), asked, nonce, now };
            give_back_if_granted(&core, sent, &request, &lines).await
        });
        drop(spawned);
    }

    /// Gives back in the background what was granted; `None` if that is nothing.
    pub(super) fn give_back(core: &Arc<Core>, lines: PerCharge<Line>) -> Option<JoinHandle<()>> {
        if lines.is_empty() {
            return None;
        }
        Self::spawn(core, |core| async move {
            if core.give_back(&lines).await { Outcome::NothingTaken } else { Outcome::Unknown }
        })
    }

    fn spawn<F>(core: &Arc<Core>, work: impl FnOnce(Arc<Core>) -> F) -> Option<JoinHandle<()>>
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let late = &core.late;
        if late.awaited.fetch_add(1, Ordering::Relaxed) >= MOST_AWAITED {
            late.awaited.fetch_sub(1, Ordering::Relaxed);
            late.lose(core);
            return None;
        }
        let (work, core) = (work(Arc::clone(core)), Arc::clone(core));
        let runtime = core.runtime.clone();
        Some(runtime.spawn(async move {
            let outcome = work.await;
            core.late.awaited.fetch_sub(1, Ordering::Relaxed);
            match outcome {
                Outcome::NothingTaken => {}
                Outcome::GivenBack => {
                    core.late.returned.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Unknown => core.late.lose(&core),
            }
        }))
    }

    /// Counts a call that may have been granted, and whose charges cannot be given back.
    pub(super) fn lose(&self, core: &Core) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        core.voice
            .say(Kind::LateGrant, format_args!("an answer of Redis was lost, which may have been a grant"));
    }
}

async fn give_back_if_granted(
    core: &Arc<Core>,
    sent: Sent,
    request: &Request<'_>,
    lines: &[Line],
) -> Outcome {
    match tokio::time::timeout(LATEST, sent).await {
        Ok(Ok(Value::ServerError(error))) => {
            if Failure::of_server(error).may_have_happened() {
                Outcome::Unknown
            } else {
                Outcome::NothingTaken
            }
        }
        Ok(Ok(value)) => match request.decode(value) {
            Ok(answer) if answer.verdict == Verdict::Granted => {
                if core.give_back(lines).await {
                    Outcome::GivenBack
                } else {
                    Outcome::Unknown
                }
            }
            Ok(_) => Outcome::NothingTaken,
            Err(_) => Outcome::Unknown,
        },
        Ok(Err(_)) | Err(_) => Outcome::Unknown,
    }
}

impl Core {
    /// Gives back what was taken. Whether that worked.
    pub(super) async fn give_back(self: &Arc<Self>, lines: &[Line]) -> bool {
        // Boxed, because a call gives back what it took, and giving back is a call.
        Box::pin(self.settle(&Plan::giving_back(lines))).await.error().is_none()
    }
}
