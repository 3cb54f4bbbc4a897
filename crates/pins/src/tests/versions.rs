//! `versions.toml`: how pins are read, looked up and laid over the built-in ones.

use crate::{ManifestKind, PinKind, Pinned, Pins, has_built_in, parse_versions};
use names::PinName;

const HASH: &str = "2222222222222222222222222222222222222222222222222222222222222222";

fn whole() -> String {
    format!(
        r#"schema = 1
source-date-epoch = 1795132800
[source.code]
url = "https://h.example/a/b"
ref = "v1.2"
version = "1.2"
commit = "{commit}"
patches = "thing"
args = {{ A = "x" }}
checked = 2026-11-20
expires = 2027-01-01
evidence = "seen"
hold = "waits"
[archive.sdist]
project = "thing"
version = "1.3"
sha256 = "{HASH}"
subdirectory = "a/b"
patches = "other"
args = {{ B = "y" }}
[image.base]
repository = "docker.io/a/b"
tag = "t"
digest = "sha256:{HASH}"
kind = "manifest"
follow = true
rocm = "7.2"
gpus = ["gfx1151"]
discontinued = "no longer made"
[release.wheels]
index = "https://h.example/w/"
packages = {{ torch = "2.11.0+rocm7.14.0" }}
hold = "stays"
"#,
        commit = "1".repeat(40)
    )
}

fn read(text: &str) -> Pins {
    parse_versions("versions.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn name(text: &str) -> PinName {
    text.parse().unwrap()
}

/// Returns the message and help of the only problem.
#[track_caller]
fn told(text: &str) -> (String, String) {
    let mut problems = parse_versions("versions.toml", text).unwrap_err().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems.remove(0);
    (problem.message, problem.help)
}

#[test]
fn every_key_of_a_pin_is_read() {
    let pins = read(&whole());
    assert_eq!((pins.source_date_epoch, pins.has_built_in), (1_795_132_800, true));
    let source = &pins.sources[&name("code")];
    assert_eq!(source.url, "https://h.example/a/b");
    assert_eq!((source.git_ref.as_deref(), source.version.as_deref()), (Some("v1.2"), Some("1.2")));
    assert_eq!(source.commit.resolved().unwrap().to_string(), "1".repeat(40));
    assert_eq!((source.patches.as_deref(), source.args["A"].as_str()), (Some("thing"), "x"));
    let facts = &source.facts;
    assert_eq!(
        (facts.checked.as_deref(), facts.expires.as_deref()),
        (Some("2026-11-20"), Some("2027-01-01"))
    );
    assert_eq!((facts.evidence.as_deref(), facts.hold.as_deref()), (Some("seen"), Some("waits")));
    let archive = &pins.archives[&name("sdist")];
    assert_eq!((archive.project.as_str(), archive.version.as_str()), ("thing", "1.3"));
    assert_eq!(archive.sha256.resolved().unwrap().to_string(), HASH);
    assert_eq!(
        (archive.subdirectory.as_deref(), archive.patches.as_deref()),
        (Some("a/b"), Some("other"))
    );
    assert_eq!(archive.args["B"], "y");
    let image = &pins.images[&name("base")];
    assert_eq!(
        (image.repository.to_string(), image.tag.as_ref().unwrap().as_str()),
        ("docker.io/a/b".to_owned(), "t")
    );
    assert_eq!(
        (image.kind, image.follow, image.rocm.as_deref()),
        (Some(ManifestKind::Manifest), true, Some("7.2"))
    );
    assert_eq!(
        (image.gpus[0].as_str(), image.discontinued.as_deref()),
        ("gfx1151", Some("no longer made"))
    );
    assert_eq!(image.digest.resolved().unwrap().to_string(), format!("sha256:{HASH}"));
    let release = &pins.releases[&name("wheels")];
    assert_eq!(
        (release.index.as_str(), release.packages["torch"].as_str()),
        ("https://h.example/w/", "2.11.0+rocm7.14.0")
    );
    assert_eq!(pins.images[&name("base")].facts, crate::Facts::default());
    assert_eq!(Pinned::<u8>::Unresolved.resolved(), None);
}

#[test]
fn pins_of_all_kinds_are_found_by_name() {
    let pins = read(&whole());
    let kinds: Vec<_> =
        pins.names().into_iter().map(|(name, kind)| (name.as_str(), kind.table())).collect();
    assert_eq!(
        kinds,
        [("base", "image"), ("code", "source"), ("sdist", "archive"), ("wheels", "release")]
    );
    assert_eq!(pins.hold(&name("code")), Some("waits"));
    assert_eq!((pins.hold(&name("wheels")), pins.hold(&name("base"))), (Some("stays"), None));
    assert!(pins.facts(&name("sdist")).is_some() && pins.facts(&name("gone")).is_none());
    assert_eq!(pins.nearest_name("codes").map(PinName::as_str), Some("code"));
    assert_eq!(pins.nearest_name("zzzzzz"), None);
    assert_eq!(PinKind::ALL.map(PinKind::table), ["archive", "image", "release", "source"]);
}

#[test]
fn a_pin_of_a_project_replaces_the_built_in_one_of_any_kind() {
    let own = format!(
        "schema = 1\nsource-date-epoch = 1800000000\nbuilt-in = true\n[archive.code]\nproject = \"a\"\nversion = \"1\"\nsha256 = \"{HASH}\"\n"
    );
    let both = read(&own).over(&read(&whole()));
    assert_eq!(both.source_date_epoch, 1_800_000_000, "the project's time counts");
    assert!(both.sources.is_empty(), "the archive of that name replaces the source");
    assert_eq!((both.archives.len(), both.images.len(), both.releases.len()), (2, 1, 1));
    let same = read(&whole()).over(&read(&own));
    assert!(!same.archives.contains_key(&name("code")) && same.sources.contains_key(&name("code")));
}

#[test]
fn the_time_of_all_images_is_in_seconds_from_2020_to_2106() {
    let epoch =
        |text: &str| parse_versions("f", &format!("schema = 1\nsource-date-epoch = {text}\n"));
    for good in [1_577_836_800_u64, 1 << 32] {
        assert_eq!(epoch(&good.to_string()).unwrap().source_date_epoch, good);
    }
    let help = |text: &str| {
        let problems = epoch(text).unwrap_err().problems;
        problems[0].help.clone()
    };
    let range = "it is the time of the newest pin change in seconds since 1970";
    for bad in ["1577836799", "4294967297", "0", "-1", "99991232"] {
        assert!(help(bad).starts_with(range), "{bad}: {}", help(bad));
    }
    assert_eq!(
        help("20261120"),
        "it looks like a date; `date -u -d 2026-11-20 +%s` prints the seconds"
    );
    assert_eq!(
        help("20260102"),
        "it looks like a date; `date -u -d 2026-01-02 +%s` prints the seconds"
    );
    assert_eq!(
        help("1795132800000"),
        "it looks like milliseconds; write `source-date-epoch = 1795132800`"
    );
    assert_eq!(help("\"1795132800\""), "write it without quotes: `source-date-epoch = 1795132800`");
    assert_eq!(help("2026-11-20"), "`date -u -d 2026-11-20 +%s` prints the seconds");
    assert_eq!(help("true"), "write seconds, for example `source-date-epoch = 1795132800`");
}

#[test]
fn built_in_files_are_defaults_unless_the_file_says_no() {
    for (text, expected) in [
        ("", true),
        ("built-in = true", true),
        ("built-in = false", false),
        ("built-in = false\nbroken = = 1", false),
        ("built-in = \"false\"", true),
        ("[a]\nbuilt-in = false", true),
    ] {
        assert_eq!(has_built_in(text), expected, "{text:?}");
    }
    let head = "schema = 1\nsource-date-epoch = 1795132800\n";
    assert!(!read(&format!("{head}built-in = false\n")).has_built_in);
    assert!(read(head).has_built_in);
}

#[test]
fn two_pins_of_different_kinds_have_different_names() {
    let text = whole().replace("[archive.sdist]", "[archive.code]");
    assert_eq!(
        told(&text),
        (
            "`code` is already the name of a pin, `[source.code]` on line 3".to_owned(),
            "pins of all kinds share one set of names; rename one, for example to `code-archive`"
                .to_owned()
        )
    );
}

#[test]
fn a_version_must_be_the_one_that_its_ref_names() {
    let text = whole().replace("version = \"1.2\"", "version = \"1.3\"");
    assert_eq!(
        told(&text),
        (
            "version `1.3` and ref `v1.2` are not the same release".to_owned(),
            "correct one of them, and check that `commit` belongs to it: `git ls-remote https://h.example/a/b v1.2 'v1.2^{}'` prints it".to_owned()
        )
    );
    assert!(parse_versions("f", &text.replace("ref = \"v1.2\"\n", "")).is_ok());
}

#[test]
fn an_image_without_a_tag_needs_a_digest_and_follows_nothing() {
    let bare = whole().replace("tag = \"t\"\n", "");
    assert_eq!(told(&bare).0, "`[image.base]` has `follow = true`, but no tag to follow");
    let still = bare.replace("follow = true", "follow = false");
    assert!(parse_versions("f", &still).is_ok(), "the digest identifies it");
    let unknown = still.replace(&format!("sha256:{HASH}"), "unresolved");
    assert_eq!(told(&unknown).0, "`[image.base]` has no tag, and its digest is `unresolved`");
    assert!(parse_versions("f", &whole().replace(&format!("sha256:{HASH}"), "unresolved")).is_ok());
}

#[test]
fn the_kind_of_a_digest_is_index_or_manifest() {
    let kind = |text: &str| whole().replace("kind = \"manifest\"", &format!("kind = \"{text}\""));
    assert_eq!(read(&kind("index")).images[&name("base")].kind, Some(ManifestKind::Index));
    assert_eq!(
        told(&kind("indx")),
        ("`indx` is not a kind of digest".to_owned(), "did you mean `index`?".to_owned())
    );
    assert_eq!(told(&kind("list")).1, "write `index`, the OCI name of a manifest list");
    assert!(
        told(&kind("platform"))
            .1
            .starts_with("write `index` if the digest identifies a list of platforms")
    );
}

#[test]
fn facts_of_a_pin_have_an_order_and_a_length() {
    let with =
        |lines: &str| whole().replace("[archive.sdist]\n", &format!("[archive.sdist]\n{lines}\n"));
    let evidence = |length: usize| with(&format!("evidence = \"{}\"", "e".repeat(length)));
    let hold = |length: usize| with(&format!("hold = \"{}\"", "h".repeat(length)));
    read(&with("checked = 2026-11-20\nexpires = 2026-11-20"));
    read(&with("expires = 2020-01-01"));
    read(&evidence(500));
    read(&hold(300));
    assert_eq!(
        told(&with("checked = 2026-11-20\nexpires = 2026-11-19")).0,
        "`expires` is `2026-11-19`, before `checked`, which is `2026-11-20`"
    );
    assert!(told(&evidence(501)).0.ends_with("is 501 characters long"));
    assert!(told(&hold(301)).0.ends_with("is 301 characters long"));
}

#[test]
fn packages_of_a_release_are_exact_and_have_one_spelling() {
    let packages =
        |text: &str| whole().replace("packages = { torch = \"2.11.0+rocm7.14.0\" }", text);
    let pins = read(&packages("packages = { torch = \"1\", torch-x = \"2\" }"));
    assert_eq!(pins.releases[&name("wheels")].packages.len(), 2);
    for (text, message) in [
        ("packages = {}", "`packages` of `[release.wheels]` is empty"),
        (
            "packages = [\"torch\"]",
            "`packages` is the array `[\"torch\"]`, but should be a table of names and versions",
        ),
        ("", "`packages` is missing from `[release.wheels]`"),
        ("packages = { a-b = \"1\", A_B = \"1\" }", "`a-b` is the same package as `A_B`"),
        ("packages = { \"a.b\" = \"1\", a_b = \"1\" }", "`a_b` is the same package as `a.b`"),
        ("packages = { a = \">=1\" }", "`>=1` is a range of versions"),
        ("packages = { \"a b\" = \"1\" }", "`a b` is not a package name"),
    ] {
        assert_eq!(told(&packages(text)).0, message, "{text}");
    }
}
