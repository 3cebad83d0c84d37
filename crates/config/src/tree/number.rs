//! Numbers, one form for one value: `10`, `10.0` and `1e1` are the same integer to the schema, so they are to us.

use serde_json::Number;

/// An integer, or the nearest float if it is beyond 64 bits; none if beyond that too.
pub(super) fn from_integer(value: Option<i128>, digits: &str) -> Option<Number> {
    match value {
        Some(value) => u64::try_from(value)
            .map(Number::from)
            .or_else(|_| i64::try_from(value).map(Number::from))
            .ok()
            .or_else(|| from_float(digits.parse().ok()?)),
        None => from_float(digits.parse().ok()?),
    }
}

/// A float as an integer where it is one; none if it is infinite or no number.
pub(super) fn from_float(value: f64) -> Option<Number> {
    /// Up to here every integer is a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number within the bounds, checked above"
        )]
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}
