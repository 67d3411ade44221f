//! The system's clock, and times as people write them.

use std::time::SystemTime;

use contexture_history::Timestamp;

/// The end of the year 9999, in milliseconds after 1970.
const LAST_MOMENT: u64 = 253_402_300_799_999;

/// Returns the current time in UTC, such as `2026-07-01T09:30:00Z`.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs())
}

/// Returns a moment of a log in UTC, with milliseconds. What is outside of the years 1970 to 9999 becomes the nearest inside.
pub(crate) fn moment(at: Timestamp) -> String {
    let millis = u64::try_from(at.0).unwrap_or_default().min(LAST_MOMENT);
    let seconds = rfc3339(millis / 1000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), millis % 1000)
}

/// Returns a moment of a log in UTC, to the second.
pub(crate) fn second(at: Timestamp) -> String {
    rfc3339(u64::try_from(at.0).unwrap_or_default().min(LAST_MOMENT) / 1000)
}

/// Returns the time so many seconds after 1970.
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns year, month and day so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // A year that begins in March has its leap day at the end, so months have fixed places in it. The count starts at
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

/// Whether `text` has the form of RFC 3339: date, `T`, time, and `Z` or an offset.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let zone = time.find(['Z', 'z', '+', '-']).map(|at| time.split_at(at));
    let Some((clock, zone)) = zone else { return false };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let zone_fits = match zone {
        "Z" | "z" => true,
        offset => fits(&offset[1..], ':', &[(2, 0, 23), (2, 0, 59)]),
    };
    fits(date, '-', &[(4, 0, 9999), (2, 1, 12), (2, 1, 31)])
        && fits(clock, ':', &[(2, 0, 23), (2, 0, 59), (2, 0, 60)])
        && !fraction.is_empty()
        && fraction.bytes().all(|it| it.is_ascii_digit())
        && zone_fits
}

/// Whether `text` is a list of numbers, each with so many digits and within its bounds.
fn fits(text: &str, separator: char, fields: &[(usize, u32, u32)]) -> bool {
    let numbers: Vec<&str> = text.split(separator).collect();
    let fit = |(text, (digits, low, high)): (&&str, &(usize, u32, u32))| {
        text.len() == *digits
            && text.bytes().all(|it| it.is_ascii_digit())
            && text.parse().is_ok_and(|it: u32| (*low..=*high).contains(&it))
    };
    numbers.len() == fields.len() && numbers.iter().zip(fields).all(fit)
}

#[cfg(test)]
mod tests {
    use contexture_history::Timestamp;

    use super::{is_rfc3339, moment, rfc3339, second};

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(rfc3339(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn moments_stay_within_four_digits_of_a_year() {
        assert_eq!(moment(Timestamp(1_709_251_199_042)), "2024-02-29T23:59:59.042Z");
        assert_eq!(second(Timestamp(1_709_251_199_999)), "2024-02-29T23:59:59Z");
        assert_eq!(moment(Timestamp(i64::MIN)), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(Timestamp(i64::MAX)), "9999-12-31T23:59:59.999Z");
    }

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
