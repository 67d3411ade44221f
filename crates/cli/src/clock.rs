//! The system clock, and time formats.

use contexture::SystemTime;
use contexture_session::Time;

/// Returns the current time in UTC, such as `2026-07-01T09:30:00Z`.
pub(crate) fn now() -> String {
    SystemTime.now().to_seconds()
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

/// Whether `text` is a list of numbers, each with the given number of digits and within its bounds.
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
