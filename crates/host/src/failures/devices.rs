//! Logs that list several devices, and then say which one failed.
//!
//! ggml prints `Device 0: …, gfx1201` for each GPU, and `current device: 0` after an error.

use std::ops::Range;

/// Replaces the lines of all other devices by spaces if the log names the one that failed: advice for
/// them would be wrong. Returns whether there was one.
pub(super) fn keep_failed(log: &mut [u8]) -> bool {
    let failed =
        memchr::memmem::find(log, b"current device: ").and_then(|at| number(&log[at + 16..]));
    let Some(failed) = failed else { return false };
    let all: Vec<(u32, Range<usize>)> = memchr::memmem::find_iter(log, b"Device ")
        .filter_map(|at| Some((listed(log, at)?, at..end_of_line(log, at))))
        .collect();
    let is_listed = all.iter().any(|(device, _)| *device == failed);
    let others: Vec<Range<usize>> = all
        .into_iter()
        .filter(|(device, _)| is_listed && *device != failed)
        .map(|(_, line)| line)
        .collect();
    for line in &others {
        log[line.clone()].fill(b' ');
    }
    !others.is_empty()
}

/// Returns the number of the GPU that a list describes at `at`.
fn listed(log: &[u8], at: usize) -> Option<u32> {
    let line = &log[at + 7..end_of_line(log, at)];
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_gpu = line[digits..].starts_with(b": ") && memchr::memmem::find(line, b"gfx").is_some();
    number(line).filter(|_| is_gpu)
}

/// Returns the number that a text starts with.
fn number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

fn end_of_line(log: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &log[at..]).map_or(log.len(), |length| at + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_device_that_failed_stays() {
        let list = "  Device 0: A, gfx1201\n  Device 1: B, gfx1103\n";
        for (end, stays) in [
            ("  current device: 1, in function f", &["B"][..]),
            ("  current device: 0, in function f", &["A"]),
            ("  current device: 2, in function f", &["A", "B"]),
            ("  current device: x", &["A", "B"]),
            ("", &["A", "B"]),
        ] {
            let log = format!("{list}{end}");
            let mut kept = log.clone().into_bytes();
            assert_eq!(keep_failed(&mut kept), stays.len() == 1, "{end}");
            let kept = String::from_utf8(kept).unwrap();
            assert_eq!((kept.len(), kept.lines().count()), (log.len(), log.lines().count()));
            let found: Vec<&str> =
                ["A", "B"].into_iter().filter(|one| kept.contains(one)).collect();
            assert_eq!(found, stays, "{end}");
        }
        assert!(!keep_failed(&mut b"Device 0: USB\nDevice 1: PCI\ncurrent device: 1".to_vec()));
    }
}
