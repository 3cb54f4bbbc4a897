//! Numbers, sizes and durations in words.

/// Returns a number with a noun: `1 pin`, `2 pins`, `2 patches`, `2 entries`.
pub fn counted<N: std::fmt::Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(start) => format!("{count} {start}ies"),
        None if noun.ends_with("ch") => format!("{count} {noun}es"),
        None => format!("{count} {noun}s"),
    }
}

/// Formats a duration for display.
pub fn seconds(milliseconds: u64) -> String {
    match milliseconds {
        0..10_000 => format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000),
        _ => format!("{} s", milliseconds / 1000),
    }
}

/// Returns a size in decimal units, as registries and disks use them.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, wanted) in
            [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (7_500_000_000, "7.5 GB")]
        {
            assert_eq!(size(bytes), wanted);
        }
    }
}
