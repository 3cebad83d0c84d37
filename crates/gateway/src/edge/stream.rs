//! The tasks of HTTP/2 streams.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::task::TaskTracker;

use crate::uptake::Uptake;

/// Runs the tasks of HTTP/2 streams where they can be waited for, and ends those whose client does not take its answer.
#[derive(Clone, Debug)]
pub(super) struct StreamTasks {
    tasks: TaskTracker,
    /// The longest time between two pieces that the client takes.
    progress: Duration,
}

impl StreamTasks {
    pub(super) const fn new(tasks: TaskTracker, progress: Duration) -> Self {
        Self { tasks, progress }
    }
}

impl<F> Executor<F> for StreamTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.tasks.spawn(StreamTask { stream, uptake: Uptake::new(), progress: self.progress, timer: None });
    }
}

pin_project! {
    /// One stream. Its end before that of its answer resets it.
    struct StreamTask<F> {
        #[pin]
        stream: F,
        uptake: Uptake,
        progress: Duration,
        // Made for a client that does not take what there is, and moved only when it ends or must come sooner.
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.uptake.watch(|| this.stream.poll(context)).is_ready() {
            return Poll::Ready(());
        }
        let Some(due) = this.uptake.due(Some(*this.progress)) else { return Poll::Pending };
        ready!(poll_at(this.timer, due, context));
        tracing::debug!("a client did not take its answer in time, its stream was reset");
        Poll::Ready(())
    }
}

/// Ready once `due` has come.
fn poll_at(timer: &mut Option<Pin<Box<Sleep>>>, due: Instant, context: &mut Context<'_>) -> Poll<()> {
    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
    if due < timer.deadline() {
        timer.as_mut().reset(due);
    }
    loop {
        ready!(timer.as_mut().poll(context));
        if due <= timer.deadline() {
            return Poll::Ready(());
        }
        timer.as_mut().reset(due);
    }
}
