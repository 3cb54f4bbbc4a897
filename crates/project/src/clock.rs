//! Today's date, which `SOURCE_DATE_EPOCH` can replace.

use failure::{Failure, Kind};
use jiff::Timestamp;

use crate::environment;

/// Returns the start of today in seconds since 1970, and today's date, both in UTC.
///
/// # Errors
/// `SOURCE_DATE_EPOCH` is not a time.
pub fn today() -> Result<(u64, String), Failure> {
    let bad = |error: jiff::Error| {
        Failure::caused(Kind::Input, "SOURCE_DATE_EPOCH is out of range", &error)
    };
    let now = match environment::source_date_epoch()? {
        Some(seconds) => {
            Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX)).map_err(bad)?
        }
        None => Timestamp::now(),
    };
    let seconds = now.as_second();
    let midnight = u64::try_from(seconds - seconds.rem_euclid(86_400)).unwrap_or(0);
    Ok((midnight, now.strftime("%Y-%m-%d").to_string()))
}
