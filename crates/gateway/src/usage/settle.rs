//! What a request settles to.

use http::StatusCode;

use super::Outcome;

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No backend saw it.
    Unsent,
    /// A backend saw it, and failed or ran out of time before it gave a status.
    Unanswered,
    /// A backend saw it and may have been at work on it: the caller left before there was a status, or the answer broke off
    /// between a status of success and its first byte.
    Abandoned,
    /// A backend answered.
    Answered {
        /// Its status.
        status: StatusCode,
        /// What was seen of the answer.
        outcome: Outcome,
    },
}

/// The tokens that a request is charged for in the end.
///
/// - Nothing where no backend can have worked for it: it was not sent, or got no status or one that is no success.
/// - What the backend told, and what was seen of the output since.
/// - Where the backend told nothing, the estimate of the prompt and what was seen of the output. A caller that leaves
///   before the usage comes does not get its prompt for nothing.
#[must_use]
pub fn spent(prompt_estimate: u64, ending: Ending) -> u64 {
    match ending {
        Ending::Unsent | Ending::Unanswered => 0,
        Ending::Abandoned => prompt_estimate,
        Ending::Answered { status, .. } if !status.is_success() => 0,
        Ending::Answered { outcome: Outcome { usage, observed_output, .. }, .. } => {
            usage.map_or(prompt_estimate, |usage| usage.total).saturating_add(observed_output)
        }
    }
}

/// By how much a bucket is moved when `spent` is known of what was `reserved`: positive gives back, negative takes more.
#[must_use]
pub fn correction(reserved: u64, spent: u64) -> i64 {
    let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    // Neither is negative, so that their difference fits.
    signed(reserved) - signed(spent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{Ended, Usage};

    fn answered(status: u16, total: Option<u64>, observed_output: u64) -> Ending {
        let usage = total.map(|total| Usage { prompt: 1, output: 1, total });
        let outcome = Outcome { usage, observed_output, ended: Ended::Dropped };
        Ending::Answered { status: StatusCode::from_u16(status).unwrap(), outcome }
    }

    #[test]
    fn what_cannot_have_been_worked_on_is_free() {
        assert_eq!(spent(100, Ending::Unsent), 0);
        assert_eq!(spent(100, Ending::Unanswered), 0);
        for status in [302, 400, 429, 500, 503] {
            assert_eq!(spent(100, answered(status, Some(30), 5)), 0, "{status}");
        }
    }

    #[test]
    fn the_backends_count_wins_over_the_estimate() {
        assert_eq!(spent(100, answered(200, Some(30), 0)), 30);
        assert_eq!(spent(1, answered(200, Some(300), 0)), 300);
        assert_eq!(spent(100, answered(200, Some(30), 5)), 35, "and what came after it is added");
    }

    #[test]
    fn without_a_count_the_prompt_and_what_was_seen_are_charged() {
        assert_eq!(spent(100, answered(200, None, 7)), 107);
        assert_eq!(spent(100, answered(200, None, 0)), 100);
        assert_eq!(spent(100, Ending::Abandoned), 100);
        assert_eq!(spent(u64::MAX, answered(200, None, 7)), u64::MAX);
    }

    #[test]
    fn a_correction_gives_back_or_takes_more() {
        assert_eq!(correction(100, 30), 70);
        assert_eq!(correction(30, 100), -70);
        assert_eq!(correction(u64::MAX, 0), i64::MAX);
        assert_eq!(correction(0, u64::MAX), -i64::MAX);
    }
}
