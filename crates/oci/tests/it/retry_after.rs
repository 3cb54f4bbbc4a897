//! The client waits as long as a registry requests, within limits.

use std::time::{Duration, Instant, SystemTime};

use oci::client::ErrorKind;
use testkit::{Answer, FaultProxy, shared_registry};

use crate::support::{Sample, client, words};

async fn ask(
    name: &str,
    value: &str,
    count: usize,
) -> (Result<(), String>, Option<ErrorKind>, Duration) {
    let sample = Sample::new("later");
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/manifests/").first(count).does(Answer::new(429).header(name, value));
    let begun = Instant::now();
    let outcome = client().manifest(&sample.tagged(&proxy.host())).await;
    let kind = outcome.as_ref().err().map(|error| error.kind());
    (outcome.map(drop).map_err(|error| words(&error)), kind, begun.elapsed())
}

#[tokio::test]
async fn zero_seconds_is_now() {
    // On a busy machine a request alone can take seconds, but with the usual wait each one does.
    for round in 1.. {
        let (outcome, _, took) = ask("Retry-After", "0", 2).await;
        outcome.unwrap();
        if took < Duration::from_millis(1900) {
            break;
        }
        assert!(round < 60, "{took:?}");
    }
}

#[tokio::test]
async fn one_second_is_waited() {
    let (outcome, _, took) = ask("Retry-After", "1", 1).await;
    outcome.unwrap();
    assert!(took >= Duration::from_millis(950), "{took:?}");
}

#[tokio::test]
async fn a_date_is_waited_for_and_a_past_one_is_now() {
    let date = |seconds| httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds));
    ask("Retry-After", &date(1), 1).await.0.unwrap();
    ask("Retry-After", "Fri, 01 Jan 2021 00:00:00 GMT", 2).await.0.unwrap();
}

#[tokio::test]
async fn a_day_is_too_long_and_named() {
    for (name, value) in [("Retry-After", "86400"), ("RateLimit-Reset", "86400")] {
        let (outcome, kind, took) = ask(name, value, 9).await;
        let message = outcome.unwrap_err();
        assert!(message.contains("(1 try)"), "{message}");
        assert!(message.contains("; the request can be retried after "), "{message}");
        assert!(message.contains(" GMT"), "{message}");
        let Some(ErrorKind::RateLimited { until: Some(until) }) = kind else {
            panic!("{kind:?}");
        };
        let wait = until.duration_since(SystemTime::now()).unwrap().as_secs();
        assert!((86_000..=86_400).contains(&wait), "{wait}");
        assert!(took < Duration::from_secs(300));
    }
}

#[tokio::test]
async fn docker_hub_names_the_time_since_1970() {
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 3600;
    let (_, kind, _) = ask("X-RateLimit-Reset", &at.to_string(), 9).await;
    let wanted = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
    assert_eq!(kind, Some(ErrorKind::RateLimited { until: Some(wanted) }));
}

#[tokio::test]
async fn a_limit_that_stays_ends_after_three_tries() {
    let (outcome, kind, _) = ask("X-Nothing", "0", 9).await;
    let message = outcome.unwrap_err();
    assert_eq!(kind, Some(ErrorKind::RateLimited { until: None }));
    assert!(message.contains("(3 tries, waited 0.0 s)"), "{message}");
}
