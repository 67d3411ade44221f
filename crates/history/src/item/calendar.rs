//! Formats timestamps as dates.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

use crate::Timestamp;

/// The end of the year 9999, in milliseconds since 1970.
const LAST_MOMENT: i64 = 253_402_300_799_999;

impl Timestamp {
    /// Returns the time in UTC, with milliseconds: `2026-07-01T09:30:00.000Z`. Times outside the years 1970 to 9999
    /// are clamped.
    pub fn to_millis(self) -> String {
        format!("{:.3}Z", in_utc(self.0.clamp(0, LAST_MOMENT)))
    }

    /// Returns the time in UTC, to the second: `2026-07-01T09:30:00Z`.
    pub fn to_seconds(self) -> String {
        format!("{}Z", in_utc(self.0.clamp(0, LAST_MOMENT) / 1000 * 1000))
    }
}

fn in_utc(millis: i64) -> DateTime {
    // A civil time: `jiff::Timestamp` ends a day before the year 9999 does.
    date(1970, 1, 1).at(0, 0, 0, 0).saturating_add(SignedDuration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use crate::Timestamp;

    #[test]
    fn seconds_become_a_date() {
        let rfc3339 = |seconds: i64| Timestamp(seconds * 1000).to_seconds();
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(rfc3339(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn moments_stay_within_four_digits_of_a_year() {
        assert_eq!(Timestamp(1_709_251_199_042).to_millis(), "2024-02-29T23:59:59.042Z");
        assert_eq!(Timestamp(1_709_251_199_999).to_seconds(), "2024-02-29T23:59:59Z");
        assert_eq!(Timestamp(i64::MIN).to_millis(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(i64::MAX).to_millis(), "9999-12-31T23:59:59.999Z");
    }
}
