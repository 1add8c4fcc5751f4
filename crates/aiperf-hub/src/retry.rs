//! When to ask again, and how long to wait before.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;

/// How often one thing is asked for.
pub(crate) const ATTEMPTS: u32 = 4;
/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// A hub that asks for a longer wait is told to the user instead.
const LONGEST: Duration = Duration::from_mins(1);

/// Statuses that may be another one the next time.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

/// How long to wait after attempt `number`, from 1; `asked` is what the server asked for. `None`: not again.
pub(crate) fn pause(number: u32, asked: Option<Duration>) -> Option<Duration> {
    let wait = asked.unwrap_or_else(|| FIRST * 2u32.saturating_pow(number.saturating_sub(1)));
    (number < ATTEMPTS && wait <= LONGEST).then_some(wait)
}

/// The wait that an answer asks for: `Retry-After` in seconds or as a date; else the `t` of the `RateLimit` header by which
/// the hub says when its window ends (draft-ietf-httpapi-ratelimit-headers).
pub(crate) fn asked(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let get = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(text) = get("retry-after") {
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        return Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO));
    }
    let fields = get("ratelimit")?.split(';').map(str::trim);
    let seconds = fields.filter_map(|field| field.strip_prefix("t=")).find_map(|text| text.parse().ok())?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let waits: Vec<Option<u64>> =
            (1..=4).map(|n| pause(n, None).map(|wait| wait.as_millis() as u64)).collect();
        assert_eq!(waits, [Some(500), Some(1000), Some(2000), None]);
        assert_eq!(pause(1, Some(Duration::ZERO)), Some(Duration::ZERO));
        assert_eq!(pause(3, Some(Duration::from_mins(1))), Some(Duration::from_mins(1)));
        assert_eq!(pause(4, Some(Duration::ZERO)), None);
        assert_eq!(pause(1, Some(Duration::from_secs(61))), None);
    }

    #[test]
    fn a_server_says_how_long_to_wait() {
        let now: Timestamp = "2024-05-01T12:00:00Z".parse().expect("a time");
        let asked = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, http::HeaderValue::from_static(value));
            asked(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(asked("retry-after", "7"), Some(7));
        assert_eq!(asked("retry-after", "Wed, 01 May 2024 12:00:30 GMT"), Some(30));
        assert_eq!(asked("retry-after", "Wed, 01 May 2024 11:00:00 GMT"), Some(0));
        assert_eq!(asked("retry-after", "soon"), None);
        assert_eq!(asked("ratelimit", "\"api\";r=0;t=55"), Some(55));
        assert_eq!(asked("ratelimit", "none"), None);
        assert_eq!(asked("server", "7"), None);
    }

    #[test]
    fn what_the_server_may_do_better_the_next_time_is_asked_again() {
        for code in 400..600 {
            let status = StatusCode::from_u16(code).expect("a status");
            assert_eq!(is_passing(status), [408, 429, 500, 502, 503, 504].contains(&code), "{code}");
        }
    }
}
