//! Points in time as people write them in a question.

use hermes_core::Timestamp;

/// When something is as text for a request's `after` and `before`: a date, a date and time (UTC, or
/// with its offset), or an age such as `12h`, `3d`, `2w` before `now`.
pub fn parse_when(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim();
    if let Some(age) = age(text) {
        return Some(now.plus_millis(-age));
    }
    let at = text.parse::<jiff::Timestamp>().or_else(|_| {
        // Without an offset.
        let at = text.parse::<jiff::civil::DateTime>()?;
        jiff::tz::TimeZone::UTC.to_timestamp(at)
    });
    Some(Timestamp(at.ok()?.as_microsecond()))
}

/// An age in milliseconds.
fn age(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 24 * 7,
        _ => return None,
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse::<i64>().ok()?.checked_mul(hours * 3_600_000))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_read_as_people_write_them() {
        let now = Timestamp::from_seconds(1_000_000);
        let check = |text: &str, expected: Option<i64>| {
            assert_eq!(parse_when(text, now), expected.map(Timestamp::from_seconds), "{text}");
        };
        check("2h", Some(1_000_000 - 7200));
        check("3d", Some(1_000_000 - 3 * 86_400));
        check("1w", Some(1_000_000 - 7 * 86_400));
        check("1970-01-02", Some(86_400));
        check("2024-02-29", Some(1_709_164_800));
        for same in [
            "2026-11-30T09:56:00Z",
            "2026-11-30 09:56",
            "2026-11-30T09:56:00",
            "2026-11-30T11:56+02:00",
            "2026-11-30T04:26:00-05:30",
        ] {
            check(same, Some(1_796_032_560));
        }
        for wrong in [
            "",
            "yesterday",
            "3",
            "h",
            "é",
            "-3d",
            "+3d",
            "99999999999999999w",
            "2026-13-01",
            "2026-00-10",
            "2026-02-29",
            "2026-11-31",
            "2026-11-30X",
            "2026-11-30T",
            "2026-11-30T25:00",
            "2026-11-30T09:60",
            "2026-11-30T09:56:00 noon",
        ] {
            check(wrong, None);
        }
    }
}
