//! Points in time, in one unit.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01 UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// From whole seconds since the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// Seconds since the epoch, as the REAL columns of the store hold them.
    pub fn as_seconds_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Milliseconds from `earlier` to this point; negative if this point is the earlier one.
    pub const fn millis_since(self, earlier: Self) -> i64 {
        (self.0 - earlier.0) / 1000
    }

    /// This point moved by `millis` milliseconds.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(1000)))
    }

    /// The civil date and time `offset_seconds` east of UTC. Points outside the calendar's range
    /// are shown as the epoch.
    pub fn civil(self, offset_seconds: i32) -> jiff::civil::DateTime {
        let offset =
            jiff::tz::Offset::from_seconds(offset_seconds).unwrap_or(jiff::tz::Offset::UTC);
        let instant =
            jiff::Timestamp::from_microsecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        offset.to_datetime(instant)
    }
}

/// RFC 3339 in UTC with second precision, such as `2026-11-30T09:56:00Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", self.civil(0).strftime("%Y-%m-%dT%H:%M:%S"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_in_utc_with_second_precision() {
        assert_eq!(Timestamp(1_796_032_560_999_999).to_string(), "2026-11-30T09:56:00Z");
        assert_eq!(Timestamp(i64::MAX).to_string(), "1970-01-01T00:00:00Z");
    }
}
