//! Callers that go on while servers change places, and the books that are kept of them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fairlane_limiter::{BucketKey, RedisStore};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::support::{self, Taken, bucket, fresh, take};

/// Callers at once.
const CALLERS: usize = 4;

/// What a server may have acknowledged and lost when it dies: what it had not yet sent to its replica.
const LAG: Duration = Duration::from_secs(1);

/// Callers that take from buckets with room for a single unit: from new ones, and again from those that were granted.
///
/// A second grant of one bucket is an over-admission, and only a server that has lost the first can make it.
#[derive(Debug)]
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    callers: JoinSet<()>,
    books: Arc<Mutex<Books>>,
}

/// What was granted, and when.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Answers of either kind, each with the time when it came.
    answers: Vec<Instant>,
    /// Buckets that were granted a second time, with the time when they first were.
    doubles: Vec<Instant>,
    pub(crate) grants: u64,
    pub(crate) errors: u64,
    pub(crate) slowest: Duration,
}

impl Load {
    pub(crate) fn start(store: &RedisStore) -> Self {
        let (stop, stopped) = watch::channel(false);
        let books = Arc::new(Mutex::new(Books::default()));
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (store, stopped, books) = (store.clone(), stopped.clone(), Arc::clone(&books));
            callers.spawn(async move {
                let mut granted: Vec<(BucketKey, Instant)> = Vec::new();
                let mut round = 0;
                while !*stopped.borrow() {
                    let key = fresh();
                    let new = take(&store, bucket(key, 1, 1)).await;
                    if new.is_granted() {
                        granted.push((key, Instant::now()));
                    }
                    books.lock().unwrap().note(&new, None);
                    if !granted.is_empty() {
                        // From the latest, which are the likeliest to be lost, back to the oldest, and again.
                        let (key, first) = granted[granted.len() - 1 - round % granted.len()];
                        let again = take(&store, bucket(key, 1, 1)).await;
                        books.lock().unwrap().note(&again, Some(first));
                    }
                    round += 1;
                    support::breathe().await;
                }
                for (key, first) in granted {
                    let again = take(&store, bucket(key, 1, 1)).await;
                    books.lock().unwrap().note(&again, Some(first));
                }
            });
        }
        Self { stop, callers, books }
    }

    /// Waits until so many more grants were made.
    pub(crate) async fn goes_on(&self, grants: u64) {
        let target = self.books.lock().unwrap().grants + grants;
        fairlane_redis_servers::wait::until("grants under load", || async {
            (self.books.lock().unwrap().grants >= target).then_some(())
        })
        .await;
    }

    /// Ends it, after one more try on every bucket that was ever granted.
    pub(crate) async fn finish(mut self) -> Books {
        self.stop.send_replace(true);
        while let Some(caller) = self.callers.join_next().await {
            caller.unwrap();
        }
        std::mem::take(&mut self.books.lock().unwrap())
    }
}

impl Books {
    fn note(&mut self, taken: &Taken, first: Option<Instant>) {
        taken.assert_in_time("under load");
        self.slowest = self.slowest.max(taken.took);
        match &taken.result {
            Ok(_) => self.answers.push(Instant::now()),
            Err(_) => self.errors += 1,
        }
        if taken.is_granted() {
            self.grants += 1;
            self.doubles.extend(first);
        }
    }

    /// The longest time without an answer.
    pub(crate) fn longest_gap(&self) -> Duration {
        let mut answers = self.answers.clone();
        answers.sort_unstable();
        answers.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// Shows that nothing was granted twice but what a server that broke at this time may have lost. Returns how many
    /// there were.
    pub(crate) fn doubles(&self, broke: Option<Instant>) -> usize {
        for first in &self.doubles {
            let Some(broke) = broke else { panic!("granted twice, and no server broke") };
            let early = broke.saturating_duration_since(*first);
            let late = first.saturating_duration_since(broke);
            assert!(early < LAG, "granted again though {early:?} had passed before the server broke");
            assert!(late < LAG, "granted again though first granted {late:?} after the server broke");
        }
        self.doubles.len()
    }
}
