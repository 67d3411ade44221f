//! The system clock, and time formats.

use contexture::SystemTime;
use contexture_session::Time;

/// Returns the current time in UTC, such as `2026-07-01T09:30:00Z`.
pub(crate) fn now() -> String {
    SystemTime.now().to_seconds()
}

/// Whether `text` has the form of RFC 3339: date, `T`, time to the second, and `Z` or an offset.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    // jiff also accepts a time without seconds.
    text.as_bytes().get(16) == Some(&b':') && text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_rfc3339;

    #[test]
    fn times_have_a_date_a_clock_and_a_zone() {
        for good in ["2026-07-01T09:30:00Z", "2026-07-01T09:30:00.123+02:00", "2026-07-01 09:30:00Z"] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in
            ["", "now", "2026-07-01", "2026-07-01T09:30Z", "2026-13-01T09:30:00Z", "2026-07-01T09:30:00", "é"]
        {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }
}
