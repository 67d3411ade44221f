//! Decides whether and when to retry.
//!
//! The input is an error and the provider's hint about waiting; the output is the wait, or `None` if a retry is
//! useless. The rules:
//!
//! 1. Rate limits, overload, lost connections and timeouts are retried, and so is any other answer with status
//!    408 or 500 and above, unless the error is about the request itself. Running out of credit is not a rate limit.
//!    The provider's `x-should-retry` takes precedence.
//! 2. The wait is what the provider requests (`retry-after-ms`, `retry-after` in seconds or as a date,
//!    Google's `retryDelay`); if it requests more than allowed, there is no retry.
//! 3. Otherwise it is `base` × 2ⁿ up to `longest`, reduced by a jitter of up to a half.
//!
//! No clock is read: a date is compared with the date header of the same answer.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::{ModelError, ModelErrorKind, Retries};

/// The provider's hint about retrying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    /// How long to wait, if the provider requests it.
    pub(crate) after: Option<Duration>,
    /// Whether to retry, if the provider states it.
    pub(crate) again: Option<bool>,
}

impl Hint {
    /// Reads the hint from the headers of an answer.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let again = match text(headers, "x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        Self { after: retry_after(headers), again }
    }
}

/// Returns how long to wait before retry number `retry` (from 0), or `None` if there should be none.
pub(crate) fn wait(
    retries: &Retries,
    retry: u32,
    call: u64,
    error: &ModelError,
    hint: Hint,
) -> Option<Duration> {
    if retry >= retries.max || !hint.again.unwrap_or_else(|| may_pass(error)) {
        return None;
    }
    match hint.after {
        Some(after) if after > retries.longest_asked => None,
        Some(after) if !after.is_zero() => Some(after),
        _ => Some(backoff(retries, retry, call)),
    }
}

/// Codes that providers send as a rate limit although the account has no credit, which waiting does not fix.
const NO_CREDIT: [&str; 3] = ["insufficient_quota", "billing_hard_limit_reached", "billing_error"];

fn lacks_credit(error: &ModelError) -> bool {
    // True rate limits never use these statuses; Anthropic reports missing credit with 400, OpenRouter and DeepSeek
    // with 402.
    let by_status = matches!(error.status(), Some(400 | 402 | 403));
    by_status || error.provider_code().is_some_and(|it| NO_CREDIT.contains(&it))
}

fn may_pass(error: &ModelError) -> bool {
    match error.kind() {
        ModelErrorKind::RateLimited => !lacks_credit(error),
        ModelErrorKind::Overloaded | ModelErrorKind::Disconnected | ModelErrorKind::TimedOut => true,
        ModelErrorKind::Invalid | ModelErrorKind::Malformed => {
            error.status().is_some_and(|it| it == 408 || it >= 500)
        }
        ModelErrorKind::KeyMissing
        | ModelErrorKind::Auth
        | ModelErrorKind::PromptTooLong
        | ModelErrorKind::Refused
        | ModelErrorKind::NotFound
        | ModelErrorKind::Address
        | ModelErrorKind::TooLarge => false,
    }
}

fn backoff(retries: &Retries, retry: u32, call: u64) -> Duration {
    let doubled = retries.base.saturating_mul(2_u32.saturating_pow(retry)).min(retries.longest);
    let random = mix(retries.seed ^ mix(call) ^ u64::from(retry));
    // The upper 53 bits are a number from 0 up to 1.
    let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
    Duration::try_from_secs_f64(doubled.as_secs_f64() * (1.0 - share / 2.0)).unwrap_or(doubled)
}

/// SplitMix64: maps each input to a different number, evenly distributed.
fn mix(input: u64) -> u64 {
    let z = input.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the wait that Google requests in the body: `{"error": {"details": [{"retryDelay": "34.5s"}]}}`.
pub(crate) fn delay(body: &Value) -> Option<Duration> {
    let details = body.get("error")?.get("details")?.as_array()?;
    let text = details.iter().find_map(|it| it.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(number(text.strip_suffix('s')?)?).ok()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    if let Some(ms) = text(headers, "retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let text = text(headers, "retry-after")?;
    if let Some(seconds) = number(text) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let (then, now) = (unix_seconds(text)?, unix_seconds(self::text(headers, "date")?)?);
    Some(Duration::from_secs(u64::try_from(then - now).unwrap_or(0)))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0)
}

/// Parses an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn unix_seconds(date: &str) -> Option<i64> {
    date.ends_with(" GMT")
        .then(|| rfc2822::DateTimeParser::new().parse_timestamp(date).ok())?
        .map(|it| it.as_second())
}

#[cfg(test)]
mod tests {
    use super::{Hint, unix_seconds, wait};
    use crate::{ModelError, ModelErrorKind, Retries};
    use reqwest::header::{HeaderMap, HeaderName};
    use std::time::Duration;

    /// Returns the seconds to wait after an error with these headers; `-` if there is no retry.
    fn waited(kind: ModelErrorKind, status: u16, headers: &[(&str, &str)]) -> String {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        let error = ModelError::new(kind, "no").with_status(status);
        let waited = wait(&Retries::default(), 0, 0, &error, Hint::read(&headers));
        waited.map_or("-".to_owned(), |it| it.as_secs_f64().to_string())
    }

    #[test]
    fn the_provider_says_when() {
        let limited = |headers: &[_]| waited(ModelErrorKind::RateLimited, 429, headers);
        assert_eq!(limited(&[("retry-after", "7")]), "7");
        assert_eq!(limited(&[("retry-after", "1.5")]), "1.5");
        assert_eq!(limited(&[("retry-after-ms", "250"), ("retry-after", "7")]), "0.25");
        assert_eq!(limited(&[("retry-after", "61")]), "-");
        let date = ("date", "Wed, 31 Dec 2025 23:59:50 GMT");
        assert_eq!(limited(&[date, ("retry-after", "Thu, 01 Jan 2026 00:00:10 GMT")]), "20");
        assert_eq!(limited(&[date, ("retry-after", "Fri, 02 Jan 2026 00:00:10 GMT")]), "-");
    }

    #[test]
    fn google_says_when_in_the_body() {
        let delay = |text: &str| {
            let details = serde_json::json!([{"@type": "Help"}, {"@type": "RetryInfo", "retryDelay": text}]);
            super::delay(&serde_json::json!({"error": {"code": 429, "details": details}}))
        };
        assert_eq!(delay("34.5s"), Some(Duration::from_millis(34_500)));
        assert_eq!(delay("soon"), None);
        assert_eq!(super::delay(&serde_json::json!({"error": "busy"})), None);
    }

    #[test]
    fn nonsense_about_waiting_is_as_good_as_nothing() {
        let usual = waited(ModelErrorKind::RateLimited, 429, &[]);
        for text in ["soon", "-1", "NaN", "1e400", "0", "", "Thu, 01 Jan 2026 00:00:10 GMT"] {
            assert_eq!(waited(ModelErrorKind::RateLimited, 429, &[("retry-after", text)]), usual, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_request_is_not_tried_again() {
        use ModelErrorKind::{Auth, Invalid, Overloaded, PromptTooLong};
        assert_eq!(waited(Invalid, 400, &[]), "-");
        assert_eq!(waited(Auth, 401, &[]), "-");
        assert_eq!(waited(PromptTooLong, 500, &[]), "-");
        assert_ne!(waited(Invalid, 501, &[]), "-");
        assert_ne!(waited(Overloaded, 529, &[]), "-");
        assert_eq!(waited(Overloaded, 529, &[("x-should-retry", "false")]), "-");
        assert_ne!(waited(Invalid, 409, &[("x-should-retry", "true")]), "-");
    }

    #[test]
    fn waiting_brings_no_credit() {
        let limited = |status| waited(ModelErrorKind::RateLimited, status, &[]);
        assert_ne!(limited(429), "-");
        assert_eq!([400, 402, 403].map(limited), ["-", "-", "-"]);
    }

    #[test]
    fn waits_double_up_to_the_longest_and_differ_by_call() {
        let retries = Retries { max: 40, ..Retries::default() };
        let error = ModelError::new(ModelErrorKind::Overloaded, "no");
        let seconds = |retry, call| {
            wait(&retries, retry, call, &error, Hint::default()).unwrap_or(Duration::ZERO).as_secs_f64()
        };
        for (retry, full) in [(0, 0.5), (1, 1.0), (5, 16.0), (6, 30.0), (39, 30.0)] {
            for call in 0..20 {
                assert!((full / 2.0..=full).contains(&seconds(retry, call)));
            }
        }
        assert_ne!(seconds(0, 0), seconds(0, 1));
        assert_eq!(seconds(0, 1), seconds(0, 1));
        assert_eq!(seconds(40, 0), 0.0);
    }

    #[test]
    fn no_wait_is_too_long_to_be_reckoned_with() {
        let [base, longest, longest_asked] = [Duration::MAX; 3];
        let retries = Retries { max: u32::MAX, base, longest, longest_asked, seed: 0 };
        let error = ModelError::new(ModelErrorKind::Overloaded, "no");
        for call in 0..100 {
            assert!(wait(&retries, u32::MAX - 1, call, &error, Hint::default()).is_some());
        }
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(unix_seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(unix_seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(unix_seconds("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(unix_seconds("Sunday, 06-Nov-94 08:49:37 GMT"), None);
    }
}
