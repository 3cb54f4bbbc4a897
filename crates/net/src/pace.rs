//! Measures the speed of a transfer.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::error::{Error, ErrorKind};

/// The speed of a transfer. Only time spent waiting for the server counts, not the time that the
/// consumer takes.
#[derive(Debug)]
pub struct Pace {
    idle: Duration,
    least_speed: u64,
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// Starts a measurement. A transfer counts as hung if no byte arrives for `idle`, or if its
    /// speed, measured over a period of `idle`, is less than `least_speed` bytes per second.
    pub fn new(idle: Duration, least_speed: u64) -> Self {
        Self { idle, least_speed, waited: Duration::ZERO, bytes: 0 }
    }

    /// Waits for the next bytes.
    ///
    /// # Errors
    /// Fails if they do not arrive in time.
    pub async fn wait<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Error> {
        let started = Instant::now();
        let result = timeout(self.idle, next).await.map_err(|_| {
            let detail = format!("the transfer stalled for {:.1} s", self.idle.as_secs_f32());
            Error::new(ErrorKind::Timeout, detail)
        });
        self.waited += started.elapsed();
        result
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// Fails if the transfer is too slow.
    pub fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes as u64;
        if self.waited < self.idle {
            return Ok(());
        }
        let least = u128::from(self.least_speed) * self.idle.as_millis();
        if u128::from(self.bytes) * 1000 < least {
            let speed = self.least_speed;
            let detail = format!("the transfer was slower than {speed} bytes per second");
            return Err(Error::new(ErrorKind::Timeout, detail));
        }
        self.waited = Duration::ZERO;
        self.bytes = 0;
        Ok(())
    }
}
