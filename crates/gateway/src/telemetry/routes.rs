//! The metrics of one path.

use std::{sync::OnceLock, time::Duration};

use http::{Method, StatusCode};
use metrics::{Counter, Histogram, SharedString, counter, histogram};

/// What the label `method` may say.
const METHODS: [&str; 3] = ["GET", "POST", "other"];
const STATUSES: std::ops::Range<u16> = 100..1_000;

/// Counters by status, made when first met and never looked up by name again.
type Statuses = OnceLock<Box<[OnceLock<Counter>]>>;

pub(super) struct RouteMetrics {
    path: SharedString,
    seconds: Histogram,
    first_byte: Histogram,
    statuses: [Statuses; METHODS.len()],
}

impl RouteMetrics {
    pub(super) fn new(path: &str) -> Self {
        let path = SharedString::from(path.to_owned());
        Self {
            seconds: histogram!("http_request_duration_seconds", "route" => path.clone()),
            first_byte: histogram!("http_first_byte_seconds", "route" => path.clone()),
            path,
            statuses: [const { OnceLock::new() }; METHODS.len()],
        }
    }

    pub(super) fn answered(&self, method: &Method, status: StatusCode, after: Duration) {
        self.first_byte.record(after);
        let method = METHODS.iter().position(|name| method == name).unwrap_or(METHODS.len() - 1);
        let Some(statuses) = self.statuses.get(method) else { return };
        let statuses = statuses.get_or_init(|| STATUSES.map(|_| OnceLock::new()).collect());
        let index = usize::from(status.as_u16().saturating_sub(STATUSES.start));
        if let (Some(cell), Some(method)) = (statuses.get(index), METHODS.get(method)) {
            cell.get_or_init(|| self.counter(method, status)).increment(1);
        }
    }

    pub(super) fn ended(&self, after: Duration) {
        self.seconds.record(after);
    }

    fn counter(&self, method: &'static str, status: StatusCode) -> Counter {
        counter!(
            "http_requests_total",
            "method" => method,
            "route" => self.path.clone(),
            "status" => status.as_str().to_owned()
        )
    }
}
