//! Retries calls to an engine if the reason for their failure may be temporary.

use std::time::{Duration, Instant};

use crate::error::EngineError;

/// The number of attempts for an operation that may fail temporarily.
const TRIES: u32 = 4;

/// The first pause between two attempts. Each further pause is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(200);

/// How long failures are retried. Without this limit, an engine that hangs until a timeout would
/// hang again on every attempt.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a call, and retries it if the failure may be temporary.
///
/// # Errors
/// Fails if the engine gives a definitive answer ([`EngineError::is_definitive`]), or if the last
/// attempt fails.
pub async fn retried<T>(
    mut call: impl AsyncFnMut() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let start = Instant::now();
    let mut retries = Retries::default();
    loop {
        match call().await {
            Err(error) if !error.is_definitive() && start.elapsed() < PATIENCE => {
                if !retries.pause(&error).await {
                    return Err(error);
                }
            }
            end => return end,
        }
    }
}

/// The retries of one operation.
#[derive(Debug)]
pub struct Retries {
    left: u32,
    pause: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { left: TRIES - 1, pause: PAUSE }
    }
}

impl Retries {
    /// Returns whether to repeat an operation because the engine removed a part of its cache during
    /// it ([`EngineError::CacheGone`]). If so, waits first. How long the operation took does not
    /// matter.
    pub async fn follow(&mut self, error: &EngineError) -> bool {
        matches!(error, EngineError::CacheGone { .. }) && self.pause(error).await
    }

    /// Waits before the next attempt. Returns `false` if there is none.
    async fn pause(&mut self, error: &EngineError) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tracing::info!(%error, pause = ?self.pause, "retrying a call to an engine");
        tokio::time::sleep(self.pause).await;
        self.pause *= 2;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_that_may_pass_is_tried_again_and_an_answer_is_not() {
        let lost = || EngineError::Lost { action: String::new(), reason: "reset".to_owned() };
        let mut calls = 0;
        let third = retried(async || {
            calls += 1;
            if calls < 3 { Err(lost()) } else { Ok(calls) }
        });
        assert_eq!(third.await.unwrap(), 3);
        let mut calls = 0;
        let never = retried(async || {
            calls += 1;
            Err::<(), _>(lost())
        });
        assert!(matches!(never.await, Err(EngineError::Lost { .. })));
        assert_eq!(calls, TRIES);
        let mut calls = 0;
        let answer = retried(async || {
            calls += 1;
            Err::<(), _>(EngineError::Unavailable { what: "BuildKit", detail: String::new() })
        });
        assert!(answer.await.is_err());
        assert_eq!(calls, 1);
    }

    #[tokio::test]
    async fn only_a_lost_cache_is_followed_by_another_attempt() {
        let mut retries = Retries::default();
        let lost = EngineError::Lost { action: String::new(), reason: String::new() };
        assert!(!retries.follow(&lost).await);
        let gone = EngineError::CacheGone { detail: String::new() };
        for _ in 1..TRIES {
            assert!(retries.follow(&gone).await);
        }
        assert!(!retries.follow(&gone).await);
    }
}
