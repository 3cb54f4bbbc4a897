//! Tests pin changes in a text: only the intended lines change, in every form of the file.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use pins::{ChangeError, Changed, NewValue, PinChange, Pinned, Pins, parse_versions};
use proptest::prelude::*;

const VERSIONS: &str = include_str!("../../../versions/versions.toml");
const COMMIT: &str = "1111111111111111111111111111111111111111";
const HASH: &str = "2222222222222222222222222222222222222222222222222222222222222222";
/// 2027-01-02T00:00:00Z.
const TIME: u64 = 1_798_848_000;

fn change(pin: &str, value: NewValue) -> PinChange {
    PinChange {
        pin: pin.parse().unwrap(),
        value,
        checked: "2027-01-02".to_owned(),
        evidence: Some("asked \\ \"here\"".to_owned()),
        time: TIME,
    }
}

fn source(git_ref: Option<&str>, version: Option<&str>) -> NewValue {
    NewValue::Source {
        git_ref: git_ref.map(str::to_owned),
        version: version.map(str::to_owned),
        commit: COMMIT.parse().unwrap(),
    }
}

fn image(tag: Option<&str>) -> NewValue {
    NewValue::Image {
        tag: tag.map(|tag| tag.parse().unwrap()),
        digest: format!("sha256:{HASH}").parse().unwrap(),
        kind: Some(pins::ManifestKind::Index),
    }
}

fn archive() -> NewValue {
    NewValue::Archive { version: "9.9.9".to_owned(), sha256: HASH.parse().unwrap() }
}

#[track_caller]
fn applied(text: &str, change: &PinChange) -> Changed {
    change.apply("f", text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the removed and the added lines.
fn difference(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("-{line}"));
    let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+{line}"));
    gone.chain(come).collect()
}

/// Returns the `source-date-epoch` of a file.
fn epoch_of(text: &str) -> u64 {
    parse_versions("versions.toml", text).unwrap().source_date_epoch
}

#[test]
fn a_bump_changes_its_own_lines_and_the_time() {
    let changed = applied(VERSIONS, &change("vllm", source(Some("v0.28.0"), Some("0.28.0"))));
    assert!(changed.is_new);
    assert_eq!(changed.pins.source_date_epoch, TIME);
    let evidence = VERSIONS.lines().find(|line| line.contains("a set that runs")).unwrap();
    assert_eq!(
        difference(VERSIONS, &changed.text),
        [
            format!("-source-date-epoch = {}", epoch_of(VERSIONS)),
            "-ref = \"v0.27.1\"".to_owned(),
            "-version = \"0.27.1\"".to_owned(),
            "-commit = \"6e448d0ea9bf3d88d898b65449ca6dc2aec170ac\"".to_owned(),
            format!("-{evidence}"),
            format!("+source-date-epoch = {TIME}"),
            "+ref = \"v0.28.0\"".to_owned(),
            "+version = \"0.28.0\"".to_owned(),
            format!("+commit = \"{COMMIT}\""),
            "+checked = 2027-01-02".to_owned(),
            "+evidence = \"asked \\\\ \\\"here\\\"\"".to_owned(),
        ]
    );
    assert_eq!(changed.text.lines().count(), VERSIONS.lines().count());
    // Applying the change again changes nothing.
    let again = applied(&changed.text, &change("vllm", source(Some("v0.28.0"), Some("0.28.0"))));
    assert_eq!((again.text, again.is_new), (changed.text, false));
}

#[test]
fn a_check_that_finds_the_same_changes_the_day_alone() {
    let pins = parse_versions("f", VERSIONS).unwrap();
    let pin = &pins.sources["vllm-legacy"];
    let mut change = change(
        "vllm-legacy",
        NewValue::Source {
            git_ref: pin.git_ref.clone(),
            version: pin.version.clone(),
            commit: pin.commit.resolved().unwrap().clone(),
        },
    );
    change.evidence = None;
    let changed = applied(VERSIONS, &change);
    assert!(!changed.is_new);
    assert_eq!(changed.pins.source_date_epoch, pins.source_date_epoch);
    assert_eq!(difference(VERSIONS, &changed.text), ["+checked = 2027-01-02"]);
}

#[test]
fn an_older_time_never_lowers_the_time_of_all_images() {
    let older = PinChange { time: 1, ..change("vllm", source(Some("v1"), None)) };
    assert_eq!(applied(VERSIONS, &older).pins.source_date_epoch, epoch_of(VERSIONS));
}

#[test]
fn keys_come_and_go_where_they_belong() {
    // There were no `ref` and `version` before: they are added after `url`.
    let named = applied(VERSIONS, &change("llama-cpp", source(Some("b9999"), Some("b9999"))));
    let at = named.text.find("[source.llama-cpp]").unwrap();
    let table: Vec<&str> = named.text[at..].lines().take(5).collect();
    assert_eq!(table[2], "ref = \"b9999\"");
    assert_eq!(table[3], "version = \"b9999\"");
    assert_eq!(table[4], format!("commit = \"{COMMIT}\""));
    // They are removed if only a commit is known.
    let bare = applied(&named.text, &change("llama-cpp", source(None, None)));
    assert_eq!(bare.text.lines().count() + 1, VERSIONS.lines().count());
}

#[test]
fn build_arguments_of_another_commit_or_archive_are_removed() {
    let other = applied(VERSIONS, &change("llama-cpp", source(Some("b9999"), Some("b9999"))));
    assert_eq!(other.removed, ["args"]);
    assert!(other.pins.sources["llama-cpp"].args.is_empty());
    let old = pins::parse_versions("versions.toml", VERSIONS).unwrap();
    let archive = &old.archives["llama-cpp-python"];
    let value = |version: &str, sha256| NewValue::Archive { version: version.to_owned(), sha256 };
    let same = value(&archive.version, archive.sha256.resolved().unwrap().clone());
    let same = applied(VERSIONS, &change("llama-cpp-python", same));
    assert!(same.removed.is_empty());
    assert_eq!(same.pins.archives["llama-cpp-python"].args, archive.args);
    let next = value("9.9.9", "0".repeat(64).parse().unwrap());
    let next = applied(VERSIONS, &change("llama-cpp-python", next));
    assert_eq!(next.removed, ["args"]);
    assert!(next.pins.archives["llama-cpp-python"].args.is_empty());
}

#[test]
fn what_was_said_of_another_image_is_removed() {
    let other = applied(VERSIONS, &change("ollama", image(Some("0.33.0-rocm"))));
    assert_eq!(other.removed, ["rocm", "gpus"]);
    let pin = &other.pins.images["ollama"];
    assert_eq!((pin.rocm.as_deref(), pin.gpus.len()), (None, 0));
    assert_eq!(pin.kind, Some(pins::ManifestKind::Index));
    let same = applied(VERSIONS, &change("ollama", image(Some("rocm"))));
    assert!(same.removed.is_empty() && same.is_new);
    assert!(same.pins.images["ollama"].rocm.is_some());
}

const INLINE: &str = "schema = 1\nsource-date-epoch = 1795132800 # when\n\
    source.a = { url = 'https://h.example/a', commit = 'unresolved' } # why\n\
    image.b = { repository='docker.io/a/b',tag='1', digest='unresolved', rocm='7.2.1' ,evidence = 'x'}\n\
    archive.c.project = 'c'\narchive.c.version   = \"1\"   # kept\narchive.c.sha256 = 'unresolved'";

#[test]
fn other_forms_of_tables_are_edited_too() {
    let text = applied(INLINE, &change("a", source(Some("v1"), None))).text;
    assert!(text.contains(&format!(
        "source.a = {{ url = 'https://h.example/a', ref = \"v1\", commit = \"{COMMIT}\", checked = 2027-01-02, evidence = \"asked \\\\ \\\"here\\\"\" }} # why\n"
    )), "{text}");
    let text = applied(&text, &change("a", source(None, None))).text;
    assert!(
        text.contains(&format!("{{ url = 'https://h.example/a', commit = \"{COMMIT}\"")),
        "{text}"
    );
    let text = applied(&text, &change("b", image(Some("2")))).text;
    assert!(text.contains("tag=\"2\", digest=") && !text.contains("7.2.1"), "{text}");
    let text = applied(&text, &change("c", archive())).text;
    assert!(text.contains("archive.c.version   = \"9.9.9\"   # kept\n"), "{text}");
    assert!(text.contains(&format!("archive.c.sha256 = \"{HASH}\"\narchive.c.checked")), "{text}");
}

#[test]
fn refusals_name_what_is_wrong() {
    let error = change("nothing", archive()).apply("f", VERSIONS).unwrap_err();
    assert_eq!(error.to_string(), "there is no pin `nothing`");
    let error = change("vllm", archive()).apply("f", VERSIONS).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pin `vllm` is of kind `source`, but the new value is for another kind"
    );
    let error = change("vllm", archive()).apply("f", "schema = 1\nx = 2\n").unwrap_err();
    assert!(matches!(error, ChangeError::Parse(_)));
    let release = change("rocm-wheels", archive()).apply("f", VERSIONS).unwrap_err();
    assert_eq!(
        release.to_string(),
        "pin `rocm-wheels` is of kind `release`, but the new value is for another kind"
    );
    // A change that the parser would refuse is never written: a version that does not match the
    // ref.
    let error = change("vllm", source(Some("v1.0.0"), Some("2.0.0"))).apply("f", VERSIONS);
    assert!(matches!(error, Err(ChangeError::Form(_))));
}

/// Returns a change for every pin of a file that can be changed.
fn all_changes(pins: &Pins) -> Vec<PinChange> {
    let mut all = Vec::new();
    for name in pins.sources.keys() {
        all.push(change(name.as_str(), source(Some("v9.9.9"), Some("9.9.9"))));
        all.push(change(name.as_str(), source(None, None)));
    }
    for name in pins.archives.keys() {
        all.push(change(name.as_str(), archive()));
    }
    for name in pins.images.keys() {
        all.push(change(name.as_str(), image(Some("9.9.9"))));
    }
    all
}

#[test]
fn every_pin_can_be_changed_and_other_pins_stay_byte_for_byte() {
    let windows = format!("\u{feff}{}", VERSIONS.replace('\n', "\r\n"));
    let unended = VERSIONS.trim_end();
    let pins = parse_versions("f", VERSIONS).unwrap();
    for text in [VERSIONS, &windows, unended] {
        for change in all_changes(&pins) {
            let changed = applied(text, &change);
            assert_eq!(changed.text.starts_with('\u{feff}'), text.starts_with('\u{feff}'));
            let ends =
                |text: &str| (text.contains("\r\n"), text.replace("\r\n", "").contains('\n'));
            assert_eq!(ends(&changed.text), ends(text), "{}", change.pin);
            let comments = |text: &str| {
                text.lines().filter(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(comments(&changed.text), comments(text), "{}", change.pin);
            // This includes tables of other pins, and the blank lines between them.
            let tables = |text: &str| -> Vec<String> {
                let name = format!("{}]", change.pin);
                let head =
                    |table: &&str| !table.split(['\r', '\n']).next().unwrap().ends_with(&name);
                text.split("\n[").skip(1).filter(head).map(str::to_owned).collect()
            };
            assert_eq!(tables(&changed.text), tables(text), "{}", change.pin);
            assert_eq!(applied(&changed.text, &change).text, changed.text, "{}", change.pin);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Inserts comments, spaces and blank lines anywhere; they survive, and the parsed result is
    /// right.
    #[test]
    fn noise_survives(
        noise in proptest::collection::vec((any::<prop::sample::Index>(), "(#[ -~é]{0,12}|[ \t]{0,3})"), 0..12),
        tails in proptest::collection::vec((any::<prop::sample::Index>(), "[ \t]{0,3}#[ -~é]{0,12}"), 0..12),
        which in any::<prop::sample::Index>(),
        is_windows in any::<bool>(),
    ) {
        let mut lines: Vec<String> = VERSIONS.lines().map(str::to_owned).collect();
        for (at, tail) in &tails {
            let at = at.index(lines.len());
            lines[at].push_str(tail);
        }
        for (at, line) in &noise {
            lines.insert(at.index(lines.len()), line.clone());
        }
        let text = lines.join(if is_windows { "\r\n" } else { "\n" });
        let pins = parse_versions("f", &text).unwrap();
        let changes = all_changes(&pins);
        let change = &changes[which.index(changes.len())];
        let changed = applied(&text, change);
        for (_, line) in &noise {
            prop_assert!(changed.text.contains(line.as_str()));
        }
        let read = parse_versions("f", &changed.text).unwrap();
        if let NewValue::Source { .. } = change.value {
            prop_assert_eq!(&read.sources[&change.pin].commit, &Pinned::Resolved(COMMIT.parse().unwrap()));
        }
    }

    /// A damaged file is refused or edited, but never causes a panic.
    #[test]
    fn damaged_files_are_answered(at in any::<prop::sample::Index>(), with in "[\\[\\]{}=\"'.,#\n\r é-]{0,4}") {
        let mut at = at.index(VERSIONS.len());
        while !VERSIONS.is_char_boundary(at) {
            at -= 1;
        }
        let text = format!("{}{with}{}", &VERSIONS[..at], &VERSIONS[at..]);
        drop(change("vllm", source(Some("v9"), None)).apply("f", &text));
        drop(change("ollama", image(None)).apply("f", &text));
    }
}
