//! Fuzzes records: every file is refused, or is a record that is written back unchanged.

use testkit::{Corpus, fuzz_some};

use super::{begun, full};
use crate::BuildRecord;

/// Bytes that have a meaning in records.
const WORDS: [&[u8]; 20] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"null",
    b"true",
    b"1",
    b"-1",
    b"1e99",
    b"\\u001b",
    b"sha256:",
    b"\"schema\": 3,",
    b"\"status\": \"gone\",",
    b"\"unknown\": 1,",
    b"\"running\"",
    b"\xff",
    b"\n",
];

#[test]
fn fuzzed_records_are_read_or_refused() {
    let inputs = [begun("2026-11-20T19:00:00Z"), full()].map(|one| one.to_text().into_bytes());
    let (mut good, mut runs) = (0, 0);
    fuzz_some(&Corpus { inputs: inputs.into(), words: &WORDS, seed: 0x5eed_0050 }, |bytes, _| {
        runs += 1;
        let text = String::from_utf8_lossy(&bytes);
        match BuildRecord::parse(&text) {
            Ok(record) => {
                good += 1;
                let written = record.to_text();
                assert_eq!(BuildRecord::parse(&written).expect(&written), record);
            }
            Err(error) => {
                let shown = error.to_string();
                assert!(shown.len() < 200 && !shown.contains(char::is_control), "{shown}");
            }
        }
    });
    assert!(good * 50 > runs, "only {good} of {runs} were accepted");
}
