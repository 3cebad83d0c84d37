//! Durations written as text: `30s`, `200ms`, `1m30s`.

use std::{fmt::Write as _, time::Duration};

use serde::{Deserialize, Deserializer, Serializer};

use super::ValueError;

/// Hours, minutes, seconds, milliseconds, in this order, each optional and positive. The bounds on the digits
/// keep every accepted duration under ten years, so that adding one to a clock never overflows.
pub(crate) const PATTERN: &str =
    "^([1-9][0-9]{0,3}h)?([1-9][0-9]{0,5}m)?([1-9][0-9]{0,7}s)?([1-9][0-9]{0,10}ms)?$";

/// Milliseconds per unit and the digits allowed, in the order in which units must follow each other.
const UNITS: [(&str, u64, u32); 4] = [("h", 3_600_000, 4), ("m", 60_000, 6), ("s", 1000, 8), ("ms", 1, 11)];

/// Reads a positive duration such as `30s`, `200ms` or `1m30s`.
///
/// # Errors
///
/// When the text has another form, or a part is zero or too large.
pub fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    let problem = || {
        ValueError::new(
            "a duration is a positive whole number with a unit, such as 200ms, 30s, 5m, 1m30s or 2h",
        )
    };
    let mut rest = text;
    let mut millis = 0;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(problem)?;
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let index = UNITS.iter().position(|(name, ..)| *name == unit).ok_or_else(problem)?;
        let (_, factor, most_digits) = UNITS[index];
        if index < next_unit
            || number.is_empty()
            || number.starts_with('0')
            || number.len() > most_digits as usize
        {
            return Err(problem());
        }
        millis += number.parse::<u64>().map_err(|_| problem())? * factor;
        next_unit = index + 1;
        rest = tail;
    }
    if millis == 0 { Err(problem()) } else { Ok(Duration::from_millis(millis)) }
}

/// Writes a duration in the form that [`parse_duration`] reads, in whole milliseconds.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    // A plain number of seconds reads better than minutes and seconds: 90s, not 1m30s.
    let only_seconds = millis.is_multiple_of(1000) && !millis.is_multiple_of(60_000);
    let mut text = String::new();
    for (unit, factor, most_digits) in UNITS {
        let most = 10u64.pow(most_digits) - 1;
        if only_seconds && factor > 1000 && millis / 1000 < 100_000 {
            continue;
        }
        // What is beyond the digits of one unit is left to the next.
        let amount = (millis / factor).min(most);
        if amount > 0 {
            // Writing to a string cannot fail.
            let _ok = write!(text, "{amount}{unit}");
        }
        millis -= amount * factor;
    }
    text
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_duration(*duration))
}
