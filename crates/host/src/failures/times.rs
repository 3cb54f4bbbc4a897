//! The times that lines of a log begin with.

/// How long after a failure its consequences come at most, in seconds.
const LONGEST: f64 = 600.0;
/// The number of digits after the point in the kernel's time.
const KERNEL_DIGITS: usize = 6;

/// Returns whether two lines have times of the same kind that are too far apart for one to be a
/// consequence of the other. A line without a time is not far from any other.
pub(super) fn are_far_apart(one: &str, two: &str) -> bool {
    let are_apart = |start: f64, end: f64| (start - end).abs() > LONGEST;
    match (kernel(one), kernel(two), clock(one), clock(two)) {
        (Some(start), Some(end), ..) => are_apart(start, end),
        (_, _, Some((day, start)), Some((other_day, end))) => {
            day == other_day && are_apart(start, end)
        }
        _ => false,
    }
}

/// Returns the seconds since the machine was started, as the kernel writes them: `[  12.345678]`.
fn kernel(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once('[')?;
    let (time, _) = rest.split_once(']')?;
    let (_, fraction) = time.split_once('.')?;
    let is_kernel = fraction.len() == KERNEL_DIGITS;
    is_kernel.then(|| time.trim_start().parse().ok()).flatten()
}

/// Returns what is before a time of day `12:34:56`, usually the date, and its seconds.
fn clock(line: &str) -> Option<(&str, f64)> {
    let at = line.as_bytes().windows(8).position(is_clock)?;
    let mut parts = line[at..at + 8].split(':').map(str::parse::<f64>);
    let mut next = || parts.next()?.ok();
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    Some((&line[..at], (hours * 60.0 + minutes) * 60.0 + seconds))
}

fn is_clock(bytes: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        2 | 5 => *byte == b':',
        _ => byte.is_ascii_digit(),
    };
    bytes.iter().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_kind_are_compared() {
        for (one, two, expected) in [
            ("[  100.000001] ring timeout", "[  700.000002] page fault", true),
            ("[  100.000001] ring timeout", "[  700.000001] page fault", false),
            ("[ 4900.000001] page fault", "[  100.000001] ring timeout", true),
            ("Nov 12 10:00:00 host kernel: one", "Nov 12 10:10:01 host kernel: two", true),
            ("Nov 12 10:00:00 host kernel: one", "Nov 12 10:10:00 host kernel: two", false),
            ("Nov 12 10:00:00 host kernel: one", "Nov 13 10:30:00 host kernel: two", false),
            ("2026-11-12T08:00:00 one", "2026-11-12T09:20:00 two", true),
            ("[  100.000001] ring timeout", "Nov 12 10:10:01 host kernel: two", false),
            ("[1/2610] Building", "[2610/2610] Linking", false),
            ("[12.5] one", "[1900.5] two", false),
            ("no time", "no time either", false),
            ("ä 10:00:00 one", "ä 10:30:00 two", true),
            ("", "", false),
        ] {
            assert_eq!(are_far_apart(one, two), expected, "{one} and {two}");
            assert_eq!(are_far_apart(two, one), expected, "{two} and {one}");
        }
    }
}
