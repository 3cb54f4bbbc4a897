//! Today's date, which `SOURCE_DATE_EPOCH` can replace.

use failure::{Failure, Kind};
use jiff::Timestamp;

use crate::environment;

/// Returns the start of today in seconds since 1970, and today's date, both in UTC.
///
/// # Errors
/// `SOURCE_DATE_EPOCH` is not a time.
pub fn today() -> Result<(u64, String), Failure> {
    let now = moment()?;
    let seconds = now.as_second();
    let midnight = u64::try_from(seconds - seconds.rem_euclid(86_400)).unwrap_or(0);
    Ok((midnight, now.strftime("%Y-%m-%d").to_string()))
}

/// Returns the current time as `YYYY-MM-DDTHH:MM:SSZ`.
///
/// # Errors
/// `SOURCE_DATE_EPOCH` is not a time.
pub fn now() -> Result<String, Failure> {
    Ok(moment()?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn moment() -> Result<Timestamp, Failure> {
    let bad = |error: jiff::Error| {
        Failure::caused(Kind::Input, "SOURCE_DATE_EPOCH is out of range", &error)
    };
    match environment::source_date_epoch()? {
        Some(seconds) => {
            Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX)).map_err(bad)
        }
        None => Ok(Timestamp::now()),
    }
}
