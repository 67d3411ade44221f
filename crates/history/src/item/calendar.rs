//! Formats timestamps as dates.

use crate::Timestamp;

/// The end of the year 9999, in milliseconds since 1970.
const LAST_MOMENT: u64 = 253_402_300_799_999;

impl Timestamp {
    /// Returns the time in UTC, with milliseconds: `2026-07-01T09:30:00.000Z`. Times outside the years 1970 to 9999
    /// are clamped.
    pub fn to_millis(self) -> String {
        let millis = within(self);
        let seconds = rfc3339(millis / 1000);
        format!("{}.{:03}Z", seconds.trim_end_matches('Z'), millis % 1000)
    }

    /// Returns the time in UTC, to the second: `2026-07-01T09:30:00Z`.
    pub fn to_seconds(self) -> String {
        rfc3339(within(self) / 1000)
    }
}

fn within(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or_default().min(LAST_MOMENT)
}

/// Formats a number of seconds since 1970.
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the year, month and day of a number of days since 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // A year that begins in March has its leap day at the end, so its months have fixed offsets. The count starts at
    // 0000-03-01, and 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;
    use crate::Timestamp;

    #[test]
    fn seconds_become_a_date() {
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
