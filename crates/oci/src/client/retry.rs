//! Retries: their number, the waits between them, and the waits that servers request.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use net::{retry_time, usual_wait};
use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::endpoint::Endpoint;
use super::error::{Again, ErrorKind, Failure, Place};
use super::secrets::Secrets;

/// The number of attempts, and the waits between them.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    /// How many attempts without progress end the operation, at least one.
    pub tries: u32,
    /// The wait after the first attempt. Each further wait is three times as long.
    pub first_wait: Duration,
    /// The longest wait that a server may request. If it requests more, the error contains the
    /// time.
    pub max_retry_after: Duration,
}

impl Default for Retries {
    /// 3 attempts, with waits of 1 s and 3 s, as in go-containerregistry.
    fn default() -> Self {
        Self {
            tries: 3,
            first_wait: Duration::from_secs(1),
            max_retry_after: Duration::from_secs(10),
        }
    }
}

/// An attempt that delivers at least this many bytes does not count: the operation is making
/// progress.
const PROGRESS: u64 = 1 << 20;
/// The largest number of attempts, whether they make progress or not.
const MOST_TRIES: u32 = 1000;

/// The attempts of one operation at one location.
#[derive(Debug)]
pub(super) struct Budget {
    retries: Retries,
    host: String,
    mirror: Option<String>,
    tries: u32,
    /// The attempts since the last progress.
    in_vain: u32,
    has_delivered: bool,
    waited: Duration,
    secrets: Arc<Secrets>,
}

impl Budget {
    pub(super) fn new(retries: Retries, place: &Endpoint, secrets: Arc<Secrets>) -> Self {
        let mirror = place.is_mirror.then(|| format!("{}/{}", place.host, place.path));
        let host = place.host.clone();
        Self {
            retries,
            host,
            mirror,
            tries: 0,
            in_vain: 0,
            has_delivered: false,
            waited: Duration::ZERO,
            secrets,
        }
    }

    /// Records how many bytes an attempt delivered before it failed.
    pub(super) fn delivered(&mut self, bytes: u64) {
        if bytes >= PROGRESS {
            self.in_vain = 0;
            self.has_delivered = true;
        }
    }

    /// Records a failed attempt. Waits if another attempt follows; otherwise returns how the
    /// location failed.
    pub(super) async fn spend(&mut self, failure: Failure) -> Result<Duration, Place> {
        self.tries += 1;
        self.in_vain += 1;
        let failure = failure.scrubbed(&self.secrets);
        let wait = match failure.again {
            _ if self.in_vain >= self.retries.tries || self.tries >= MOST_TRIES => None,
            Again::No => None,
            Again::Yes => Some(usual_wait(self.retries.first_wait, self.in_vain)),
            Again::NotBefore(time) => {
                // Even if a server requests no wait at all, the number of attempts is limited.
                let wait = time.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
                (wait <= self.retries.max_retry_after).then_some(wait)
            }
        };
        let Some(wait) = wait else { return Err(self.end(failure)) };
        tracing::info!(
            host = self.host,
            tries = self.tries,
            wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            reason = failure.detail,
            "retrying a registry request"
        );
        tokio::time::sleep(wait).await;
        self.waited += wait;
        Ok(wait)
    }

    /// Returns how the location failed, when no further attempt follows.
    fn end(&self, mut failure: Failure) -> Place {
        if let Again::NotBefore(time) = failure.again {
            let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            if time > SystemTime::now() {
                let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
                failure.detail =
                    format!("{}; the request can be retried after {date}", failure.detail);
            }
            if let ErrorKind::RateLimited { until } = &mut failure.kind {
                *until = Some(time);
            }
        }
        let (mirror, has_delivered) = (self.mirror.clone(), self.has_delivered);
        Place { mirror, has_delivered, ..Place::new(&self.host, self.tries, self.waited, failure) }
    }
}

/// Returns when a server accepts requests again: from `Retry-After`, or the reset time of a rate
/// limit. Docker Hub sends `x-retry-after` and `x-ratelimit-reset` as seconds since 1970.
pub(super) fn not_before(headers: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    const RESETS: [&str; 4] =
        ["x-retry-after", "ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset"];
    let names = std::iter::once(RETRY_AFTER.as_str()).chain(RESETS);
    names.filter_map(|name| headers.get(name)?.to_str().ok()).find_map(|text| retry_time(text, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_before_reads_every_form_in_use() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let in_secs = |n| Some(now + Duration::from_secs(n));
        for (name, value, wanted) in [
            ("retry-after", "0", in_secs(0)),
            ("retry-after", " 86400 ", in_secs(86400)),
            ("retry-after", "Fri, 15 Jan 2027 08:00:07 GMT", in_secs(7)),
            ("retry-after", "soon", None),
            ("retry-after", "-1", None),
            ("x-retry-after", "1800000060", in_secs(60)),
            ("ratelimit-reset", "30", in_secs(30)),
            ("x-ratelimit-reset", "1800003600", in_secs(3600)),
            ("retry-after", "18446744073709551615", None),
            ("retry-after", "999999999999", None),
        ] {
            let headers: HeaderMap =
                [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            assert_eq!(not_before(&headers, now), wanted, "{name}: {value}");
        }
    }

    #[tokio::test]
    async fn attempts_with_progress_do_not_count_up_to_a_limit() {
        let retries = Retries { first_wait: Duration::ZERO, ..Retries::default() };
        let new = || Budget::new(retries, &Endpoint::new("h/x", false, false), Arc::default());
        for (bytes, tries) in [(PROGRESS, MOST_TRIES), (PROGRESS - 1, 3), (0, 3)] {
            let mut budget = new();
            let end = loop {
                budget.delivered(bytes);
                if let Err(end) = budget.spend(Failure::passing(ErrorKind::Unreachable, "x")).await
                {
                    break end;
                }
            };
            assert_eq!((end.tries, end.has_delivered), (tries, bytes >= PROGRESS), "{bytes}");
        }
    }

    #[tokio::test]
    async fn waits_grow_threefold_and_end_with_the_budget() {
        let retries = Retries { first_wait: Duration::from_millis(2), ..Retries::default() };
        let mut budget = Budget::new(retries, &Endpoint::new("h/x", false, false), Arc::default());
        let fail = || Failure::passing(ErrorKind::Registry, "x");
        let one = budget.spend(fail()).await.unwrap();
        let two = budget.spend(fail()).await.unwrap();
        assert!((2..3).contains(&one.as_millis()) && (6..8).contains(&two.as_millis()));
        let end = budget.spend(fail()).await.unwrap_err();
        assert_eq!((end.tries, end.waited), (3, one + two));
    }
}
