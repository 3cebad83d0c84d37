//! Rounds of the same load on both proxies by turns, and what is typical of them.

use std::time::Duration;

use crate::BoxError;
use crate::child::Child;
use crate::load::{Sample, load};
use crate::report;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds for each proxy.
    pub(crate) rounds: usize,
    /// Before each, on the same connections.
    pub(crate) warm_up: Duration,
    /// The length of each.
    pub(crate) round: Duration,
}

/// One round of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) bare: Sample,
    pub(crate) gateway: Sample,
}

/// The medians of all rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Typical {
    pub(crate) pair: Pair,
    /// CPU time per request of the gateway above the bare proxy's in the same round, in microseconds.
    pub(crate) added_us: f64,
    /// Throughput of the gateway per the bare proxy's in the same round.
    pub(crate) ratio: f64,
}

impl Pair {
    pub(crate) fn added_us(&self) -> f64 {
        self.gateway.cpu_us - self.bare.cpu_us
    }

    pub(crate) fn ratio(&self) -> f64 {
        self.gateway.per_second / self.bare.per_second
    }
}

/// Measures both, and prints each round.
pub(crate) async fn compare(
    bare: &Child,
    gateway: &Child,
    concurrency: usize,
    effort: Effort,
) -> Result<Typical, BoxError> {
    report::heading(concurrency);
    let mut pairs = Vec::with_capacity(effort.rounds);
    for round in 1..=effort.rounds {
        let pair = Pair {
            bare: load(bare, concurrency, effort.warm_up, effort.round).await?,
            gateway: load(gateway, concurrency, effort.warm_up, effort.round).await?,
        };
        report::line(&round.to_string(), &pair, pair.added_us(), pair.ratio());
        pairs.push(pair);
    }
    let typical = typical(&pairs);
    report::line("median", &typical.pair, typical.added_us, typical.ratio);
    Ok(typical)
}

fn typical(pairs: &[Pair]) -> Typical {
    let of = |get: fn(&Pair) -> f64| median(pairs.iter().map(get).collect());
    Typical {
        pair: Pair {
            bare: Sample {
                cpu_us: of(|pair| pair.bare.cpu_us),
                per_second: of(|pair| pair.bare.per_second),
                p50_us: of(|pair| pair.bare.p50_us),
                p99_us: of(|pair| pair.bare.p99_us),
            },
            gateway: Sample {
                cpu_us: of(|pair| pair.gateway.cpu_us),
                per_second: of(|pair| pair.gateway.per_second),
                p50_us: of(|pair| pair.gateway.p50_us),
                p99_us: of(|pair| pair.gateway.p99_us),
            },
        },
        added_us: of(Pair::added_us),
        ratio: of(Pair::ratio),
    }
}

/// The middle one, or the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.wrapping_sub(1)), at(middle)) }
}
