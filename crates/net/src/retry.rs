//! How long to wait before another attempt.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the wait after `tries` attempts: `first` after the first one, and three times as long
/// after each further one. Up to a tenth is added, so that many clients do not retry at the same
/// moment.
pub fn usual_wait(first: Duration, tries: u32) -> Duration {
    let wait = first * 3_u32.pow(tries.saturating_sub(1).min(8));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    wait + wait.mul_f64(f64::from(now.subsec_nanos() % 1000) / 10_000.0)
}

/// Returns the time in a `Retry-After` or similar header: a number of seconds, seconds since 1970,
/// or a date. `None` for other texts, and for times after the year 9999, which cannot be written as a
/// date.
pub fn retry_time(text: &str, now: SystemTime) -> Option<SystemTime> {
    // Numbers of at least this size are seconds since 1970. As a wait, this number would mean
    // 31 years.
    const LEAST_EPOCH: u64 = 1_000_000_000;
    /// The first second of the year 10000, counted from 1970.
    const END: Duration = Duration::from_secs(253_402_300_800);
    let text = text.trim();
    let time = match text.parse::<u64>() {
        Ok(seconds) if seconds >= LEAST_EPOCH => {
            UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
        }
        Ok(seconds) => now.checked_add(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok(),
    };
    time.filter(|time| *time < UNIX_EPOCH + END)
}
