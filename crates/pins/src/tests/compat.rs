//! The queries of the compatibility table, and how a project's rows replace built-in ones.

use std::collections::BTreeMap;

use crate::compat::{Compat, Kernel, Support};
use crate::{Known, Releases, parse_compat, parse_compat_over};
use names::GpuTarget;

const TABLE: &str = r#"schema = 1
[kernel.a-mainline]
gpus = ["gfx1151"]
since = "6.18.4"
checked = 2026-11-20
known = "vendor"
evidence = "e1"
[kernel.b-ubuntu]
gpus = ["gfx1151"]
distribution = "ubuntu-24.04"
flavour = "generic"
since = "6.17.0-19.19~24.04.2"
older = "unsupported"
checked = 2026-11-20
evidence = "e2"
[rocm.a-old]
gpus = ["gfx1151"]
releases = ["6.4", "7.1 to 7.2"]
builds = "amd"
fixed-kernel = "supported"
other-kernel = "unstable"
checked = 2026-11-20
evidence = "e3"
[rocm.b-other]
gpus = ["gfx1150"]
releases = ["7.0 or newer"]
builds = "amd"
fixed-kernel = "unstable"
other-kernel = "unsupported"
checked = 2026-11-20
evidence = "e4"
[coupling.a]
package = "torch"
releases = ["2.10", "2.11"]
with = { torchvision = "0.26" }
checked = 2026-11-20
evidence = "e5"
[bad.a-alone]
package = "torch"
releases = ["2.11"]
why = "w"
instead = "i"
checked = 2026-11-20
evidence = "e6"
[bad.b-with]
package = "torch"
releases = ["2.11 or older"]
with = { rocm = "7.1", triton = "3.0 or newer" }
why = "w"
instead = "i"
checked = 2026-11-20
evidence = "e7"
[index.a]
url = "https://a.b/c"
instead = "https://a.b/d"
checked = 2026-11-20
evidence = "e8"
[firmware.a]
gpus = ["gfx1151"]
bad = ["20251125"]
good = ["20260110 or newer"]
bad-mes = ["0x83"]
why = "w"
checked = 2026-11-20
evidence = "e9"
"#;

fn table() -> Compat {
    parse_compat("compat.toml", TABLE).unwrap_or_else(|error| panic!("{error}"))
}

fn gpu(text: &str) -> GpuTarget {
    text.parse().unwrap()
}

#[test]
fn a_release_of_rocm_has_the_status_of_its_gpu_and_kernel() {
    let table = table();
    let status = |target: &str, rocm: &str, is_fixed: bool| {
        let (row, support) = table.kernel_support(&gpu(target), rocm, is_fixed)?;
        Some((row.evidence.source.clone(), support))
    };
    let e3 = |support| Some(("e3".to_owned(), support));
    assert_eq!(status("gfx1151", "7.2.1", true), e3(Support::Supported));
    assert_eq!(status("gfx1151", "7.2.1", false), e3(Support::Unstable));
    assert_eq!(status("gfx1151", "6.4.2", true), e3(Support::Supported), "any of the ranges");
    assert_eq!(status("gfx1151", "7.3", true), None);
    assert_eq!(status("gfx1150", "7.3", false), Some(("e4".to_owned(), Support::Unsupported)));
    assert_eq!(status("gfx900", "7.2.1", true), None);
}

#[test]
fn a_release_is_newer_than_the_table_if_every_range_ends_before_it() {
    let newer = |target: &str, rocm: &str| table().is_newer_than_table(&gpu(target), rocm);
    assert!(newer("gfx1151", "7.3") && newer("gfx1151", "10.0"));
    assert!(!newer("gfx1151", "7.2.9") && !newer("gfx1151", "7.0"));
    assert!(!newer("gfx1150", "99.0"), "the range has no end");
    assert!(newer("gfx900", "1.0"), "there is no row");
}

#[test]
fn ranges_without_an_end_do_not_end_before_a_release() {
    let ends = |range: &str, release: &str| range.parse::<Releases>().unwrap().end_before(release);
    assert!(ends("7.1 to 7.2", "7.3") && ends("7.2", "7.3") && ends("7.2 or older", "7.3"));
    assert!(!ends("7.1 to 7.2", "7.2.9") && !ends("7.1 to 7.2", "7.0"));
    assert!(!ends("7.2 or newer", "99.0") && !ends("7.2", "main"));
    // Stages are in order: dev, alpha, beta, candidate, the release, post.
    let stages = ["1.0.dev1", "1.0a1", "1.0b1", "1.0rc1", "1.0", "1.0.post1"];
    for (index, pair) in stages.windows(2).enumerate() {
        if stages[index] != "1.0" {
            assert!(ends(pair[0], pair[1]) && !ends(pair[1], pair[0]), "{pair:?}");
        }
    }
    assert!(ends("1.0alpha1", "1.0a2") && ends("1.0beta1", "1.0b2"));
    // A text of more than 100 bytes is not a release.
    let long = |length: usize| "1".repeat(length - 2) + ".x";
    assert!(long(100).parse::<Releases>().is_err());
    let zeros = |length: usize| format!("1.{}", "0".repeat(length - 2));
    assert!(zeros(100).parse::<Releases>().is_ok() && zeros(101).parse::<Releases>().is_err());
}

#[test]
fn a_kernel_is_fixed_by_its_number_or_by_its_distribution() {
    let table = table();
    let ubuntu = Some("ubuntu-24.04");
    let row = |release: &str, build: Option<&str>, distribution: Option<&str>| {
        let kernel = Kernel { release, build, distribution };
        let fixed = table.fixed_kernel(&gpu("gfx1151"), &kernel);
        let refused = table.refused_kernel(&gpu("gfx1151"), &kernel);
        (fixed.map(|row| row.evidence.source.clone()), refused.map(|(_, support)| support))
    };
    let e = |name: &str| Some(name.to_owned());
    let refused = Some(Support::Unsupported);
    assert_eq!(row("6.18.4-arch1-1", None, None), (e("e1"), None));
    assert_eq!(row("6.18.3-arch1-1", None, None), (None, None));
    assert_eq!(row("6.17.0-19-generic", Some("19~24.04.2"), ubuntu), (e("e2"), None));
    assert_eq!(row("6.17.0-19-generic", Some("19~24.04.1"), ubuntu), (None, refused));
    assert_eq!(row("6.17.0-20-generic", None, ubuntu), (e("e2"), None));
    assert_eq!(row("6.14.0-37-generic", None, ubuntu), (None, refused));
    // Another flavour, another distribution, and a mainline build are not judged by the row.
    assert_eq!(row("6.17.0-19-oem", Some("19~24.04.2"), ubuntu), (None, None));
    assert_eq!(row("6.17.0-20-generic", None, Some("debian-13")), (None, None));
    assert_eq!(row("6.17.0-20-generic", None, None), (None, None));
    assert_eq!(row("6.17.13-061713-generic", None, ubuntu), (None, None));
    let kernel = Kernel { release: "6.18.4", build: None, distribution: None };
    assert!(table.fixed_kernel(&gpu("gfx1150"), &kernel).is_none(), "the row is for another GPU");
    let old = Kernel { release: "6.14.0-37-generic", build: None, distribution: ubuntu };
    assert!(table.refused_kernel(&gpu("gfx1150"), &old).is_none());
}

#[test]
fn a_release_is_bad_alone_or_with_all_of_the_others() {
    let table = table();
    let bad = |package: &str, release: &str, others: &[(&str, &str)]| {
        let own = |(name, release): &(&str, &str)| ((*name).to_owned(), (*release).to_owned());
        let others: BTreeMap<String, String> = others.iter().map(own).collect();
        table.bad(package, release, &others).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(bad("torch", "2.11.0", &[]), ["a-alone"]);
    let both = [("rocm", "7.1.1"), ("triton", "3.5")];
    assert_eq!(bad("torch", "2.11.0", &both), ["a-alone", "b-with"]);
    assert_eq!(bad("torch", "2.10.0", &both), ["b-with"]);
    assert_eq!(bad("torch", "2.10.0", &both[..1]), Vec::<String>::new(), "one of them is absent");
    assert_eq!(bad("torch", "2.10.0", &[("rocm", "7.2"), ("triton", "3.5")]), Vec::<String>::new());
    assert_eq!(bad("vllm", "2.11.0", &both), Vec::<String>::new());
    assert_eq!(bad("torch", "2.12.0", &both), Vec::<String>::new());
}

#[test]
fn couplings_and_indexes_are_found_by_name_and_prefix() {
    let table = table();
    let row = table.coupling("torch", "2.10.1").unwrap();
    assert_eq!((row.with.len(), row.with["torchvision"].to_string()), (1, "0.26".to_owned()));
    assert!(table.coupling("torch", "2.11").is_some() && table.coupling("torch", "2.12").is_none());
    assert!(table.coupling("torchvision", "0.26").is_none());
    for (url, is_moved) in [
        ("https://a.b/c", true),
        ("https://a.b/c/simple", true),
        ("https://a.b/d", false),
        ("http://a.b/c", false),
        ("x https://a.b/c", false),
    ] {
        assert_eq!(table.moved_index(url).is_some(), is_moved, "{url}");
    }
    let firmware = &table.firmware["a"];
    assert_eq!((firmware.bad_mes.as_slice(), firmware.good.len()), (&[0x83][..], 1));
}

#[test]
fn evidence_says_how_a_fact_is_known() {
    let table = table();
    let said = |name: &str| table.kernels[name].evidence.to_string();
    assert_eq!(said("a-mainline"), "e1 (the vendor confirms it)");
    assert_eq!(said("b-ubuntu"), "e2");
    assert_eq!(table.kernels["a-mainline"].evidence.checked, "2026-11-20");
    assert_eq!(Known::Maintainer.to_string(), "a maintainer confirmed it");
    assert_eq!(Known::Reports(3).to_string(), "3 independent reports");
    assert_eq!(Known::OneSource.to_string(), "one source");
    assert!(Known::Vendor < Known::Maintainer && Known::Reports(9) < Known::OneSource);
}

#[test]
fn rows_of_a_project_replace_add_and_remove() {
    let own = "schema = 1\nremove = [\"bad.a-alone\", \"kernel.b-ubuntu\"]\n\
        [index.a]\nurl = \"https://own/c\"\ninstead = \"https://own/d\"\nchecked = 2026-11-20\nevidence = \"own\"\n\
        [bad.mine]\npackage = \"torch\"\nreleases = [\"2.11\"]\nwhy = \"w\"\ninstead = \"i\"\nchecked = 2026-11-20\nevidence = \"own\"\n";
    let all = parse_compat_over("own.toml", own, table()).unwrap();
    let bad: Vec<&str> = all.bad.keys().map(String::as_str).collect();
    assert_eq!(bad, ["b-with", "mine"]);
    let kernels: Vec<&str> = all.kernels.keys().map(String::as_str).collect();
    assert_eq!(kernels, ["a-mainline"]);
    assert_eq!(all.indexes["a"].url, "https://own/c");
    assert_eq!((all.rocm.len(), all.couplings.len(), all.firmware.len()), (2, 1, 1));
    // Every table has rows that can be removed.
    for (row, left) in [
        ("kernel.a-mainline", 1),
        ("rocm.a-old", 1),
        ("firmware.a", 0),
        ("coupling.a", 0),
        ("bad.a-alone", 1),
        ("index.a", 0),
    ] {
        let text = format!("schema = 1\nremove = [\"{row}\"]\n");
        let all = parse_compat_over("own.toml", &text, table()).unwrap();
        let sizes = [
            ("kernel", all.kernels.len()),
            ("rocm", all.rocm.len()),
            ("firmware", all.firmware.len()),
            ("coupling", all.couplings.len()),
            ("bad", all.bad.len()),
            ("index", all.indexes.len()),
        ];
        let kind = row.split('.').next().unwrap();
        assert!(sizes.contains(&(kind, left)), "{row}: {sizes:?}");
    }
}

#[test]
fn a_row_that_does_not_exist_cannot_be_removed() {
    let told = |row: &str, lower: Compat| {
        let text = format!("schema = 1\nremove = [\"{row}\"]\n");
        let error = parse_compat_over("own.toml", &text, lower).unwrap_err();
        (error.problems[0].message.clone(), error.problems[0].help.clone())
    };
    assert_eq!(
        told("bad.a-alnoe", table()),
        (
            "build-pipeline has no row `bad.a-alnoe`".to_owned(),
            "did you mean `bad.a-alone`?".to_owned()
        )
    );
    assert_eq!(
        told("something", table()).1,
        "write TABLE.NAME; the tables are `bad`, `coupling`, `firmware`, `index`, `kernel` and `rocm`"
    );
    assert_eq!(
        told("bad.a", Compat::default()).1,
        "delete the line: no other file has rows that it could remove"
    );
}
