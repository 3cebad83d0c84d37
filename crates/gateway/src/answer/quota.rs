//! The header fields that tell how much of a limit is left.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use fairlane_limiter::Quota;
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use crate::dimension::Dimension;

/// The tightest buckets that a request met, of each class, as of the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Of those that count requests.
    pub requests: Option<QuotaStatus>,
    /// Of those that count tokens. Boxed: most requests meet none.
    pub tokens: Option<Box<QuotaStatus>>,
}

/// The tightest bucket of its class that a request met, as of the decision: the one with the smallest remaining share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// Its dimension.
    pub dimension: Dimension,
    /// What it holds when full, in requests or tokens, and how fast it refills.
    pub quota: Quota,
    /// What is left, in requests or tokens; a debt counts as nothing.
    pub remaining: u64,
    /// Until it is full again.
    pub reset: Duration,
}

impl QuotaStatus {
    /// The tighter of two: the one with the smaller share left, the first where they are equal.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let share = |status: &Self| (status.remaining, status.quota.capacity());
        if is_smaller_share(share(&other), share(&self)) { other } else { self }
    }

    fn write_policy(&self, text: &mut Text, wording: &Wording) {
        text.quoted(self.dimension.policy_name(), wording.suffix);
        text.push(";q=");
        text.number(self.quota.capacity());
        text.push(";w=");
        text.number(ceil_seconds(fill_time(self.quota)).max(1));
        text.push(wording.unit);
    }

    fn write_status(&self, text: &mut Text, wording: &Wording, retry_after: Option<Duration>) {
        text.quoted(self.dimension.policy_name(), wording.suffix);
        text.push(";r=");
        text.number(self.remaining);
        text.push(";t=");
        text.number(ceil_seconds(retry_after.map_or(self.reset, |wait| wait.min(self.reset))));
    }
}

/// How the fields of a class read.
struct Wording {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
    /// Of the policy's name.
    suffix: &'static str,
    /// A parameter of the policy.
    unit: &'static str,
}

static REQUESTS: Wording = Wording {
    limit: HeaderName::from_static("x-ratelimit-limit-requests"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-requests"),
    reset: HeaderName::from_static("x-ratelimit-reset-requests"),
    suffix: "",
    // What the draft takes a quota to be in where nothing is said.
    unit: "",
};

static TOKENS: Wording = Wording {
    limit: HeaderName::from_static("x-ratelimit-limit-tokens"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-tokens"),
    reset: HeaderName::from_static("x-ratelimit-reset-tokens"),
    suffix: "-tokens",
    // The draft's own units are requests, bytes and concurrent requests.
    unit: ";fairlane-unit=tokens",
};

impl Quotas {
    /// The tighter of each class; these where they are equal.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        Self {
            requests: match (self.requests, other.requests) {
                (Some(these), Some(others)) => Some(these.tighter(others)),
                (these, others) => these.or(others),
            },
            tokens: match (self.tokens, other.tokens) {
                (Some(these), Some(others)) => Some(Box::new(these.tighter(*others))),
                (these, others) => these.or(others),
            },
        }
    }

    /// Writes the fields in OpenAI's form and in that of the IETF's draft on rate limit header fields.
    ///
    /// `retry_after`: for a refusal; no `t` is later than `Retry-After`.
    pub fn write(&self, headers: &mut HeaderMap, retry_after: Option<Duration>) {
        let requests = self.requests.as_ref().map(|status| (status, &REQUESTS));
        let tokens = self.tokens.as_deref().map(|status| (status, &TOKENS));
        let met = || requests.into_iter().chain(tokens);
        if requests.is_none() && tokens.is_none() {
            return;
        }
        // Nearly every answer has these: all of them are slices of one text.
        let mut text = Text(Vec::with_capacity(256));
        let mut fields: SmallVec<[(&HeaderName, Range<usize>); FIELDS]> = SmallVec::new();
        for (status, wording) in met() {
            fields.push((&wording.limit, text.piece(|text| text.number(status.quota.capacity()))));
            fields.push((&wording.remaining, text.piece(|text| text.number(status.remaining))));
            fields.push((&wording.reset, text.piece(|text| write_go_duration(text, status.reset))));
        }
        fields
            .push((&POLICY, text.list(met(), |text, (status, wording)| status.write_policy(text, wording))));
        let write = |text: &mut Text, (status, wording): (&QuotaStatus, _)| {
            status.write_status(text, wording, retry_after);
        };
        fields.push((&STATUS, text.list(met(), write)));

        let text = Bytes::from(text.0);
        // Grown once: a backend's answer has few fields, and leaves no room for these and the names that answers are given.
        headers.reserve(fields.len() + 2);
        for (name, piece) in fields {
            // Digits, letters and punctuation only.
            let value = HeaderValue::from_maybe_shared(text.slice(piece));
            headers.insert(name, value.unwrap_or(HeaderValue::from_static("")));
        }
    }
}

/// The fields of both classes.
const FIELDS: usize = 8;

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static STATUS: HeaderName = HeaderName::from_static("ratelimit");

impl From<Option<QuotaStatus>> for Quotas {
    fn from(requests: Option<QuotaStatus>) -> Self {
        Self { requests, tokens: None }
    }
}

/// Whether a bucket with `a.0` of `a.1` left has a smaller share left than `b`, without a division.
pub(crate) fn is_smaller_share(a: (u64, u64), b: (u64, u64)) -> bool {
    u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
}

/// From empty to full.
fn fill_time(quota: Quota) -> Duration {
    const NANOS_PER_DAY: u128 = 86_400 * 1_000_000_000;
    let nanos = u128::from(quota.capacity()) * NANOS_PER_DAY / u128::from(quota.refill_per_day());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Header values written one after the other.
struct Text(Vec<u8>);

impl Text {
    /// Where in the text it stands.
    fn piece(&mut self, write: impl FnOnce(&mut Self)) -> Range<usize> {
        let start = self.0.len();
        write(self);
        start..self.0.len()
    }

    /// A list of several.
    fn list<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> Range<usize> {
        self.piece(|text| {
            for (at, item) in items.enumerate() {
                if at > 0 {
                    text.push(", ");
                }
                write(text, item);
            }
        })
    }

    #[inline(always)]
    fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn quoted(&mut self, name: &str, suffix: &str) {
        self.push("\"");
        self.push(name);
        self.push(suffix);
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
fn write_go_duration(text: &mut Text, time: Duration) {
    let rest = u64::from(time.subsec_nanos().div_ceil(1_000_000));
    let millis = time.as_secs().saturating_mul(1_000).saturating_add(rest);
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

    fn written_go(time: Duration) -> String {
        let mut text = Text(Vec::new());
        write_go_duration(&mut text, time);
        String::from_utf8(text.0).unwrap()
    }

    #[test]
    fn durations_take_gos_form() {
        let shown = |millis: u64| written_go(Duration::from_millis(millis));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(12), "12ms");
        assert_eq!(shown(1_500), "1.5s");
        assert_eq!(shown(2_000), "2s");
        assert_eq!(shown(360_000), "6m0s");
        assert_eq!(shown(86_399_050), "23h59m59.05s");
        assert_eq!(
            written_go(Duration::from_nanos(1)),
            "1ms",
            "rounded up: asking earlier would be too early"
        );
    }

    #[test]
    fn the_tighter_bucket_has_the_smaller_share() {
        let status = |dimension, limit, remaining| QuotaStatus {
            dimension,
            quota: Quota::per_minute(limit).unwrap(),
            remaining,
            reset: Duration::from_secs(1),
        };
        let user = status(Dimension::User, 10, 5);
        let model = status(Dimension::Model, 1_000, 400);
        assert_eq!(user.tighter(model), model);
        assert_eq!(model.tighter(user), model);
        let same = status(Dimension::Team, 20, 10);
        assert_eq!(user.tighter(same), user);
    }

    fn per_user() -> QuotaStatus {
        QuotaStatus {
            dimension: Dimension::User,
            quota: Quota::per_minute(100).unwrap(),
            remaining: 12,
            reset: Duration::from_millis(52_800),
        }
    }

    fn tokens_per_team() -> QuotaStatus {
        QuotaStatus {
            dimension: Dimension::Team,
            quota: Quota::per_hour(90_000).unwrap(),
            remaining: 500,
            reset: Duration::from_secs(3_000),
        }
    }

    fn written(quotas: &Quotas, retry_after: Option<Duration>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        quotas.write(&mut headers, retry_after);
        headers
    }

    #[test]
    fn fields_are_written_in_both_forms() {
        let quotas = Quotas::from(Some(per_user()));
        let headers = written(&quotas, None);
        assert_eq!(headers["x-ratelimit-limit-requests"], "100");
        assert_eq!(headers["x-ratelimit-remaining-requests"], "12");
        assert_eq!(headers["x-ratelimit-reset-requests"], "52.8s");
        assert_eq!(headers["ratelimit-policy"], "\"per-user\";q=100;w=60");
        assert_eq!(headers["ratelimit"], "\"per-user\";r=12;t=53");
        assert_eq!(headers.len(), 5);

        let headers = written(&quotas, Some(Duration::from_millis(600)));
        assert_eq!(headers["ratelimit"], "\"per-user\";r=12;t=1", "not later than Retry-After");
        assert!(written(&Quotas::default(), None).is_empty());
    }

    #[test]
    fn requests_and_tokens_are_told_apart() {
        let tokens = Some(Box::new(tokens_per_team()));
        let headers = written(&Quotas { requests: Some(per_user()), tokens: tokens.clone() }, None);
        assert_eq!(headers["x-ratelimit-limit-requests"], "100");
        assert_eq!(headers["x-ratelimit-limit-tokens"], "90000");
        assert_eq!(headers["x-ratelimit-remaining-tokens"], "500");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "50m0s");
        assert_eq!(
            headers["ratelimit-policy"],
            "\"per-user\";q=100;w=60, \"per-team-tokens\";q=90000;w=3600;fairlane-unit=tokens"
        );
        assert_eq!(headers["ratelimit"], "\"per-user\";r=12;t=53, \"per-team-tokens\";r=500;t=3000");

        let headers = written(&Quotas { requests: None, tokens }, Some(Duration::from_secs(9)));
        assert_eq!(headers["ratelimit"], "\"per-team-tokens\";r=500;t=9");
        assert_eq!(headers.len(), 5);
    }

    #[test]
    fn each_class_has_its_own_tightest() {
        let with_tokens = |tokens| Quotas { requests: None, tokens: Some(Box::new(tokens)) };
        let requests = Quotas::from(Some(per_user()));
        let both = requests.clone().tighter(with_tokens(tokens_per_team()));
        assert_eq!((both.requests, both.tokens.as_deref()), (requests.requests, Some(&tokens_per_team())));
        let less = QuotaStatus { remaining: 1, ..tokens_per_team() };
        assert_eq!(with_tokens(tokens_per_team()).tighter(with_tokens(less)), with_tokens(less));
        assert_eq!(with_tokens(less).tighter(with_tokens(tokens_per_team())), with_tokens(less));
    }
}
