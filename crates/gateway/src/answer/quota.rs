//! The header fields that tell how much of a limit is left.

use std::{fmt::Write as _, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::dimension::Dimension;

/// The tightest bucket that a request met, as of the decision: the one with the smallest remaining share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// Its dimension.
    pub dimension: Dimension,
    /// What it holds when full, in requests.
    pub limit: u64,
    /// What is left, in requests; a debt counts as nothing.
    pub remaining: u64,
    /// Until it is full again.
    pub reset: Duration,
    /// From empty to full.
    pub window: Duration,
}

impl QuotaStatus {
    /// The tighter of two: the one with the smaller share left, the first where they are equal.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        // a/b > c/d without a division.
        let ours = u128::from(self.remaining) * u128::from(other.limit);
        let theirs = u128::from(other.remaining) * u128::from(self.limit);
        if ours > theirs { other } else { self }
    }

    /// Writes the fields in OpenAI's form and in that of the IETF's draft on rate limit header fields.
    ///
    /// `retry_after`: for a refusal; its `t` must not be later than `Retry-After`.
    pub fn write(&self, headers: &mut HeaderMap, retry_after: Option<Duration>) {
        headers.insert(HeaderName::from_static("x-ratelimit-limit-requests"), self.limit.into());
        headers.insert(HeaderName::from_static("x-ratelimit-remaining-requests"), self.remaining.into());
        let mut text = String::with_capacity(32);
        write_go_duration(&mut text, self.reset);
        insert(headers, "x-ratelimit-reset-requests", &text);

        let name = self.dimension.policy_name();
        text.clear();
        // Writing to a string cannot fail.
        _ = write!(text, "\"{name}\";q={};w={}", self.limit, ceil_seconds(self.window).max(1));
        insert(headers, "ratelimit-policy", &text);
        text.clear();
        let reset = ceil_seconds(retry_after.map_or(self.reset, |wait| wait.min(self.reset)));
        _ = write!(text, "\"{name}\";r={};t={reset}", self.remaining);
        insert(headers, "ratelimit", &text);
    }
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

fn ceil_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// A duration as Go prints it, to the millisecond, rounded up: `12ms`, `1.5s`, `6m0s`, `23h59m59.5s`.
fn write_go_duration(text: &mut String, time: Duration) {
    let millis = time.as_nanos().div_ceil(1_000_000);
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    if seconds == 0 {
        _ = if millis == 0 { write!(text, "0s") } else { write!(text, "{millis}ms") };
        return;
    }
    if hours > 0 {
        _ = write!(text, "{hours}h");
    }
    if minutes > 0 {
        _ = write!(text, "{}m", minutes % 60);
    }
    _ = write!(text, "{}", seconds % 60);
    if millis > 0 {
        let digits = format!("{millis:03}");
        _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text.push('s');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_gos_form() {
        let shown = |millis: u64| {
            let mut text = String::new();
            write_go_duration(&mut text, Duration::from_millis(millis));
            text
        };
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(12), "12ms");
        assert_eq!(shown(1_500), "1.5s");
        assert_eq!(shown(2_000), "2s");
        assert_eq!(shown(360_000), "6m0s");
        assert_eq!(shown(86_399_050), "23h59m59.05s");
        let mut text = String::new();
        write_go_duration(&mut text, Duration::from_nanos(1));
        assert_eq!(text, "1ms", "rounded up: asking earlier would be too early");
    }

    #[test]
    fn the_tighter_bucket_has_the_smaller_share() {
        let status = |dimension, limit, remaining| QuotaStatus {
            dimension,
            limit,
            remaining,
            reset: Duration::from_secs(1),
            window: Duration::from_secs(60),
        };
        let user = status(Dimension::User, 10, 5);
        let model = status(Dimension::Model, 1_000, 400);
        assert_eq!(user.tighter(model), model);
        assert_eq!(model.tighter(user), model);
        let same = status(Dimension::Team, 20, 10);
        assert_eq!(user.tighter(same), user);
    }

    #[test]
    fn fields_are_written_in_both_forms() {
        let mut headers = HeaderMap::new();
        let status = QuotaStatus {
            dimension: Dimension::User,
            limit: 100,
            remaining: 12,
            reset: Duration::from_millis(52_800),
            window: Duration::from_secs(60),
        };
        status.write(&mut headers, None);
        assert_eq!(headers["x-ratelimit-limit-requests"], "100");
        assert_eq!(headers["x-ratelimit-remaining-requests"], "12");
        assert_eq!(headers["x-ratelimit-reset-requests"], "52.8s");
        assert_eq!(headers["ratelimit-policy"], "\"per-user\";q=100;w=60");
        assert_eq!(headers["ratelimit"], "\"per-user\";r=12;t=53");

        status.write(&mut headers, Some(Duration::from_millis(600)));
        assert_eq!(headers["ratelimit"], "\"per-user\";r=12;t=1", "not later than Retry-After");
    }
}
