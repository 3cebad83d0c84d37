//! The header fields that tell how much of a limit is left.

use std::time::Duration;

use bytes::BytesMut;
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
        if is_smaller_share((other.remaining, other.limit), (self.remaining, self.limit)) {
            other
        } else {
            self
        }
    }

    /// Writes the fields in OpenAI's form and in that of the IETF's draft on rate limit header fields.
    ///
    /// `retry_after`: for a refusal; its `t` must not be later than `Retry-After`.
    pub fn write(&self, headers: &mut HeaderMap, retry_after: Option<Duration>) {
        const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
        const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
        const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
        const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
        const STATUS: HeaderName = HeaderName::from_static("ratelimit");
        let name = self.dimension.policy_name();
        // Every answer has these five: one buffer is cut into all of them.
        let mut text = Pieces::default();
        headers.insert(LIMIT, text.piece(|text| text.number(self.limit)));
        headers.insert(REMAINING, text.piece(|text| text.number(self.remaining)));
        headers.insert(RESET, text.piece(|text| write_go_duration(text, self.reset)));
        let policy = text.piece(|text| {
            text.quoted(name);
            text.push(";q=");
            text.number(self.limit);
            text.push(";w=");
            text.number(ceil_seconds(self.window).max(1));
        });
        headers.insert(POLICY, policy);
        let reset = ceil_seconds(retry_after.map_or(self.reset, |wait| wait.min(self.reset)));
        let status = text.piece(|text| {
            text.quoted(name);
            text.push(";r=");
            text.number(self.remaining);
            text.push(";t=");
            text.number(reset);
        });
        headers.insert(STATUS, status);
    }
}

/// Whether a bucket with `a.0` of `a.1` left has a smaller share left than `b`, without a division.
pub(crate) fn is_smaller_share(a: (u64, u64), b: (u64, u64)) -> bool {
    u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
}

/// Header values written one after the other into one allocation.
struct Pieces(BytesMut);

impl Default for Pieces {
    fn default() -> Self {
        Self(BytesMut::with_capacity(128))
    }
}

impl Pieces {
    fn piece(&mut self, write: impl FnOnce(&mut Self)) -> HeaderValue {
        write(self);
        // Digits, letters and punctuation only.
        HeaderValue::from_maybe_shared(self.0.split().freeze()).unwrap_or(HeaderValue::from_static(""))
    }

    fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn quoted(&mut self, name: &str) {
        self.push("\"");
        self.push(name);
        self.push("\"");
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.push(itoa::Buffer::new().format(number));
    }
}

fn ceil_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// A duration as Go prints it, to the millisecond, rounded up: `12ms`, `1.5s`, `6m0s`, `23h59m59.5s`.
fn write_go_duration(text: &mut Pieces, time: Duration) {
    let millis = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    if seconds == 0 && millis > 0 {
        text.number(millis);
        text.push("ms");
        return;
    }
    if hours > 0 {
        text.number(hours);
        text.push("h");
    }
    if minutes > 0 {
        text.number(minutes % 60);
        text.push("m");
    }
    text.number(seconds % 60);
    if millis > 0 {
        let digits = [b'.', tenth(millis, 100), tenth(millis, 10), tenth(millis, 1)];
        let end = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
        text.0.extend_from_slice(&digits[..=end]);
    }
    text.push("s");
}

/// One decimal digit of a number below 1,000.
fn tenth(number: u64, place: u64) -> u8 {
    b'0' + u8::try_from(number / place % 10).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_gos_form() {
        let shown = |millis: u64| {
            let mut text = Pieces::default();
            text.piece(|text| write_go_duration(text, Duration::from_millis(millis)))
        };
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(12), "12ms");
        assert_eq!(shown(1_500), "1.5s");
        assert_eq!(shown(2_000), "2s");
        assert_eq!(shown(360_000), "6m0s");
        assert_eq!(shown(86_399_050), "23h59m59.05s");
        let nearly = Pieces::default().piece(|text| write_go_duration(text, Duration::from_nanos(1)));
        assert_eq!(nearly, "1ms", "rounded up: asking earlier would be too early");
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
