//! Points in time, written as RFC 3339.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

use super::ValueError;

/// The shape of RFC 3339's `date-time`; whether the day exists is for the parser.
pub(crate) const PATTERN: &str =
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$";

/// Reads an RFC 3339 timestamp such as `2027-01-31T12:00:00Z`.
///
/// # Errors
///
/// When the text has another form, or names no real point in time.
pub fn parse_timestamp(text: &str) -> Result<SystemTime, ValueError> {
    text.parse::<Timestamp>().and_then(SystemTime::try_from).map_err(|_| {
        ValueError::new("a point in time is written as in RFC 3339, such as 2027-01-31T12:00:00Z")
    })
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SystemTime>, D::Error> {
    parse_timestamp(&String::deserialize(deserializer)?).map(Some).map_err(serde::de::Error::custom)
}

pub(crate) fn serialize<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    match time.map(Timestamp::try_from) {
        None => serializer.serialize_none(),
        Some(Ok(timestamp)) => serializer.collect_str(&timestamp),
        Some(Err(_)) => {
            Err(serde::ser::Error::custom("the time is outside the years that RFC 3339 can write"))
        }
    }
}
