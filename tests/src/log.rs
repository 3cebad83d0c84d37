//! What a process wrote, kept whole, and awaited.

use std::{
    io::{BufRead as _, BufReader, PipeReader},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::wait::within;

/// One output of a process, read as it comes.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    text: Mutex<String>,
    /// Lines so far; the sender is dropped at the output's end.
    lines: watch::Receiver<usize>,
}

impl Log {
    /// Reads in a thread of its own: a test that blocks must not make the process block.
    pub(crate) fn read(pipe: PipeReader) -> Self {
        let (told, lines) = watch::channel(0);
        let log = Self(Arc::new(Shared { text: Mutex::default(), lines }));
        let shared = Arc::clone(&log.0);
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let mut text = shared.text.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&String::from_utf8_lossy(&line));
                drop(text);
                line.clear();
                told.send_modify(|lines| *lines += 1);
            }
        });
        log
    }

    /// All that has been written so far.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line that holds `part`, and returns it; `None` at the end of the output.
    pub(crate) async fn find(&self, part: &str) -> Option<String> {
        let mut lines = self.0.lines.clone();
        loop {
            lines.mark_unchanged();
            if let Some(line) = self.text().lines().find(|line| line.contains(part)) {
                return Some(line.to_owned());
            }
            if lines.changed().await.is_err() {
                // The last line may have come between the look and the end.
                return self.text().lines().find(|line| line.contains(part)).map(str::to_owned);
            }
        }
    }

    /// Waits for a line that holds `part`, and returns it.
    pub async fn line(&self, part: &str) -> String {
        let found = within(&format!("the log to say `{part}`"), self.find(part)).await;
        found.unwrap_or_else(|| panic!("the log ended without `{part}`:\n{}", self.text()))
    }

    /// Waits for the output to end, and returns all of it.
    pub async fn whole(&self) -> String {
        let mut lines = self.0.lines.clone();
        within("the log to end", async { while lines.changed().await.is_ok() {} }).await;
        self.text()
    }
}
