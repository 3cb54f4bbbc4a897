//! Tests that this project's data files parse, and that some facts about them are true.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use std::collections::BTreeMap;

use names::PinName;
use pins::compat::{Kernel, Support};
use pins::{
    Compat, Facts, Gpus, PackageLock, PinKind, Pinned, Pins, References, Tracks, When,
    parse_compat, parse_gpus, parse_package_lock, parse_tracks, parse_tracks_with, parse_versions,
};
use proptest::prelude::*;

const VERSIONS: &str = include_str!("../../../versions/versions.toml");
const GPUS: &str = include_str!("../../../versions/gpus.toml");
const DEBIAN_LOCK: &str = include_str!("../../../versions/locks/debian.toml");
const VULKAN_DEBIAN: &str = include_str!("../../../dockerfiles/vulkan/debian.Dockerfile");
const ROCM_LOCK: &str = include_str!("../../../versions/locks/rocm.toml");
const ROCM_DEBIAN: &str = include_str!("../../../dockerfiles/llama-rocm/debian.Dockerfile");
const TRACKS: &str = include_str!("../../../versions/tracks.toml");

const COMPAT: &str = include_str!("../../../versions/compat.toml");

fn compat() -> Compat {
    parse_compat("versions/compat.toml", COMPAT).unwrap_or_else(|error| panic!("{error}"))
}

fn versions() -> Pins {
    parse_versions("versions/versions.toml", VERSIONS).unwrap_or_else(|error| panic!("{error}"))
}

fn gpus() -> Gpus {
    parse_gpus("versions/gpus.toml", GPUS).unwrap_or_else(|error| panic!("{error}"))
}

fn tracks() -> Tracks {
    parse_tracks_with(
        "versions/tracks.toml",
        TRACKS,
        References { pins: Some(&versions()), tracks: None },
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

fn name(text: &str) -> PinName {
    text.parse().unwrap()
}

fn all_facts(pins: &Pins) -> Vec<(&PinName, &Facts)> {
    let sources = pins.sources.iter().map(|(name, pin)| (name, &pin.facts));
    let archives = pins.archives.iter().map(|(name, pin)| (name, &pin.facts));
    let images = pins.images.iter().map(|(name, pin)| (name, &pin.facts));
    let releases = pins.releases.iter().map(|(name, pin)| (name, &pin.facts));
    sources.chain(archives).chain(images).chain(releases).collect()
}

#[test]
fn the_time_of_all_images_is_the_day_of_the_newest_pin_change() {
    assert_eq!(versions().source_date_epoch, 1_795_305_600);
}

#[test]
fn every_pin_says_when_it_was_checked_and_where_it_was_read() {
    let pins = versions();
    assert_eq!(all_facts(&pins).len(), pins.names().len());
    for (name, facts) in all_facts(&pins) {
        let checked = facts.checked.as_deref();
        assert!(
            matches!(checked, Some("2026-11-20" | "2026-11-21" | "2026-11-22" | "2026-11-24")),
            "{name}: {checked:?}"
        );
        assert!(facts.evidence.is_some(), "{name}");
    }
}

#[test]
fn the_legacy_set_is_the_one_of_the_first_specification() {
    let pins = versions();
    for (pin, commit) in [
        ("vllm-legacy", "01efc7ef781391e744ed08c3292817a773d654e6"),
        ("pytorch-legacy", "ba56102387ef21a3b04b357e5b183d48f0afefc7"),
        ("flash-attention-legacy", "c7db746334dedb430fa435c6934ceb5d90305133"),
    ] {
        let commit = Pinned::Resolved(commit.parse().unwrap());
        assert_eq!(pins.sources[&name(pin)].commit, commit, "{pin}");
    }
    let ollama = &pins.images[&name("ollama-legacy")];
    assert_eq!(ollama.digest.resolved().unwrap().short(), "sha256:74a0929e1e08");
}

#[test]
fn the_images_of_the_tracks_are_what_they_should_be() {
    let pins = versions();
    let official = &pins.images[&name("vllm-openai-rocm")];
    assert_eq!(official.repository.to_string(), "docker.io/vllm/vllm-openai-rocm");
    assert_eq!(
        official.digest.resolved().unwrap().as_str(),
        "sha256:bb44b39aea26798cce43030a98bf48efd0322ca7147367db86e38b96bd80f0e7"
    );
    let nightly = &pins.images[&name("vllm-dev-nightly")];
    assert!(nightly.follow && nightly.discontinued.is_some() && nightly.tag.is_some());
    let locked = &pins.images[&name("vllm-dev-locked")];
    assert!(locked.discontinued.is_some() && locked.tag.is_none());
    assert_eq!(
        locked.digest.resolved().unwrap().as_str(),
        "sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889"
    );
    assert!(pins.images.contains_key(&name("vllm-dev-navi-legacy")));
}

#[test]
fn wheels_that_belong_together_carry_one_stamp() {
    let pins = versions();
    let wheels = &pins.releases[&name("rocm-wheels")];
    for package in ["torch", "torchvision", "torchaudio", "amd-torch-device-gfx1151"] {
        assert!(wheels.packages[package].ends_with("+rocm7.14.0"), "{package}");
    }
}

#[test]
fn no_package_index_for_rust_python_debian_or_javascript_is_named() {
    for text in [VERSIONS, GPUS, TRACKS, COMPAT] {
        for host in ["crates.io", "pypi", "pythonhosted", "debian.org", "npmjs"] {
            assert!(!text.to_lowercase().contains(host), "{host}");
        }
    }
}

#[test]
fn strix_halo_is_native_since_7_2_0_and_can_be_spoofed() {
    let gpus = gpus().gpus;
    let strix_halo = &gpus["gfx1151"];
    assert_eq!(strix_halo.native_since.as_deref(), Some("7.2.0"));
    assert_eq!(strix_halo.spoof.unwrap().to_string(), "11.0.0");
    assert_eq!(gpus["gfx1031"].spoof.unwrap().to_string(), "10.3.0");
    assert_eq!(gpus.len(), 28);
}

#[test]
fn every_gpu_has_the_environment_it_needs_and_no_other() {
    let gpus = gpus();
    let text = |gpu: &str, rocm: Option<&str>, asked: &[When]| {
        let gpu = gpu.parse().unwrap();
        let settings = gpus.environment(&gpu, rocm, asked, gpus.wanted_override(&gpu, rocm));
        let lines = settings.iter().map(|one| format!("{}={}", one.name, one.value));
        lines.collect::<Vec<_>>().join(" ")
    };
    let all = |asked: &[When]| {
        let lines =
            gpus.gpus.keys().map(|gpu| format!("{gpu}: {}", text(gpu.as_str(), None, asked)));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("environment_build", all(&[When::Build]));
    insta::assert_snapshot!("environment_run", all(&[When::Run]));
    insta::assert_snapshot!("environment_debug", all(&[When::Debug]));
    // The overrides of each release are in `gpus_by_rocm.rs`. Nobody gets the override for Strix
    // Halo without asking for it (`env --spoof`).
    for (gpu, wanted) in
        [("gfx1151", None), ("gfx1031", Some("10.3.0")), ("gfx1100", None), ("gfx9999", None)]
    {
        let found = gpus.wanted_override(&gpu.parse().unwrap(), None);
        assert_eq!(found.map(|version| version.to_string()).as_deref(), wanted, "{gpu}");
    }
    assert!(
        text("gfx1151", Some("10.1.0a20260806"), &[When::Run]).contains("IN_THREAD_TRANSPOSE=0")
    );
    assert!(!text("gfx1151", Some("7.14.0"), &[When::Run]).contains("IN_THREAD_TRANSPOSE"));
    // Only rows for debugging set variables that an image must not set.
    for (name, variable) in &gpus.variables {
        let is_debug = variable.when == [When::Debug];
        let is_refused = pins::refused_variable(name, &variable.value).is_some();
        assert!(is_debug || !is_refused, "{name}");
    }
    // With an override, the runtime loads only code for the GPU that it names, so code for it is
    // built.
    let both = [When::Build, When::Run];
    let built = text("gfx1031", Some("7.2.1"), &both);
    assert!(built.contains("PYTORCH_ROCM_ARCH=gfx1030"), "{built}");
    assert!(text("gfx1031", Some("10.0"), &both).contains("PYTORCH_ROCM_ARCH=gfx1031"));
}

#[test]
fn amds_table_of_kernels_is_read_as_amd_wrote_it() {
    let compat = compat();
    let gpu = "gfx1151".parse().unwrap();
    for (rocm, fixed, other) in [
        ("7.14.1", Some(Support::Supported), Some(Support::Unstable)),
        ("7.11.0", Some(Support::Supported), Some(Support::Unstable)),
        ("7.2.1", Some(Support::Supported), Some(Support::Unstable)),
        ("7.2.4", Some(Support::Supported), Some(Support::Unstable)),
        ("7.2.0", Some(Support::Supported), Some(Support::Unsupported)),
        ("7.1.1", Some(Support::Unsupported), Some(Support::Unstable)),
        ("7.9.0", Some(Support::Unsupported), Some(Support::Unstable)),
        ("7.10.0", Some(Support::Unsupported), Some(Support::Unstable)),
        ("6.4.4", Some(Support::Unsupported), Some(Support::Unstable)),
        // AMD's table does not cover these.
        ("6.3.4", None, None),
        ("7.0.2", None, None),
        ("7.2.5", None, None),
        ("10.0.0", None, None),
    ] {
        let word = |is_fixed| compat.kernel_support(&gpu, rocm, is_fixed).map(|(_, word)| word);
        assert_eq!((word(true), word(false)), (fixed, other), "{rocm}");
    }
    assert_eq!(compat.kernel_support(&"gfx1100".parse().unwrap(), "7.1.1", true), None);
}

#[test]
fn kernels_with_the_fixes_are_told_from_those_without() {
    let compat = compat();
    let gpu = "gfx1151".parse().unwrap();
    for (release, build, distribution, is_fixed) in [
        ("6.18.4-200.fc43.x86_64", None, Some("fedora-43"), true),
        ("6.18.3-200.fc43.x86_64", None, Some("fedora-43"), false),
        ("6.17.0-19-generic", Some("19~24.04.2"), Some("ubuntu-24.04"), true),
        ("6.17.0-19-generic", Some("19~24.04.1"), Some("ubuntu-24.04"), false),
        ("6.17.0-14-generic", Some("14~24.04.1"), Some("ubuntu-24.04"), false),
        ("6.17.0-19-generic", None, Some("debian-13"), false),
        ("6.14.0-1018-oem", Some("18~24.04.1"), Some("ubuntu-24.04"), true),
        ("6.14.0-1017-oem", Some("17"), Some("ubuntu-24.04"), false),
        ("6.14.0-37-generic", Some("37~24.04.1"), Some("ubuntu-24.04"), false),
        ("6.17.0-8-generic", Some("8"), Some("ubuntu-26.04"), true),
        ("6.12.57+deb13-amd64", None, Some("debian-13"), false),
        ("6.18.7-061807-generic", Some("202601230834"), Some("ubuntu-25.10"), true),
    ] {
        let kernel = Kernel { release, build, distribution };
        assert_eq!(compat.fixed_kernel(&gpu, &kernel).is_some(), is_fixed, "{kernel:?}");
        // AMD refuses older kernels of these two flavours with every ROCm release.
        let is_refused = compat.refused_kernel(&gpu, &kernel).is_some();
        assert_eq!(is_refused, !is_fixed && distribution == Some("ubuntu-24.04"), "{kernel:?}");
    }
    // Mainline kernels contain none of Ubuntu's fixes, and Ubuntu's row does not cover them.
    let kernel = Kernel {
        release: "6.17.13-061713-generic",
        build: Some("202512180949"),
        distribution: Some("ubuntu-24.04"),
    };
    assert!(compat.fixed_kernel(&gpu, &kernel).is_none());
    assert!(compat.refused_kernel(&gpu, &kernel).is_none());
}

/// HIP_FOUND is missing from PyTorch 2.13 on; Docker 25.0.1 and 24.0.8 are affected.
#[test]
fn known_bad_releases_are_found_and_good_ones_are_not() {
    let compat = compat();
    let with = |torch: &str| BTreeMap::from([("torch".to_owned(), torch.to_owned())]);
    let (company, newer) = (with("2.11.0+rocm7.14.0"), with("2.13.0+rocm10.0.0"));
    let alone = BTreeMap::new();
    for (package, release, others, rows) in [
        ("rocm", "7.14.0a20260610", &alone, &["therock-init-dma"][..]),
        ("rocm", "7.14.0a20260608", &alone, &[]),
        ("rocm", "7.14.0", &alone, &[]),
        // vLLM 0.20 works with its upstream PyTorch, 2.11; PyTorch drops HIP_FOUND in 2.13.
        ("vllm", "0.20.0", &company, &[]),
        ("vllm", "0.21.0", &newer, &["vllm-hip-found"]),
        ("vllm", "0.22.1", &newer, &["vllm-hip-found"]),
        ("vllm", "0.23.0", &newer, &[]),
        ("docker", "25.0.1", &alone, &["docker-copy", "docker-leaky-vessels"]),
        ("docker", "24.0.8", &alone, &["docker-copy", "docker-leaky-vessels"]),
        ("docker", "24.0.9", &alone, &["docker-copy"]),
        ("docker", "29.7.0", &alone, &["docker-copy"]),
        ("docker", "29.7.1", &alone, &[]),
        ("podman", "5.8.3", &alone, &["podman-host-variables"]),
        ("podman", "6.1.1", &alone, &["podman-load", "podman-signatures"]),
        ("podman", "6.2.0", &alone, &[]),
        ("linux", "7.0.11", &alone, &[]),
        ("linux", "7.0.12", &alone, &["linux-slow-copies"]),
        ("linux", "7.0.13", &alone, &[]),
        ("linux", "7.1.0", &alone, &["linux-slow-copies"]),
        ("linux", "7.1.1", &alone, &[]),
        ("linux-ubuntu", "7.0.0.14", &alone, &[]),
        ("linux-ubuntu", "7.0.0.28", &alone, &["linux-ubuntu-slow-copies"]),
        ("linux-ubuntu", "7.0.0.30", &alone, &[]),
        ("vllm", "0.10.2", &alone, &[]),
        ("vllm", "0.27.1", &company, &[]),
        ("vllm", "v0.10.3", &alone, &["vllm-tag-that-never-was"]),
    ] {
        let found: Vec<&str> = compat.bad(package, release, others).map(|(name, _)| name).collect();
        assert_eq!(found, rows, "{package} {release}");
    }
    let wheels = &versions().releases[&name("rocm-wheels")];
    let row = compat.coupling("torch", &wheels.packages["torch"]).unwrap();
    for (package, releases) in &row.with {
        assert!(releases.contains(&wheels.packages[package]), "{package}");
    }
    assert!(compat.moved_index("https://rocm.nightlies.amd.com/v2/gfx1151/").is_some());
    assert!(compat.moved_index("https://repo.amd.com/rocm/whl-multi-arch/").is_none());
}

#[test]
fn tracks_are_based_on_images_that_exist() {
    let tracks = tracks();
    assert_eq!(tracks.gpu.as_str(), "gfx1151");
    assert!(gpus().gpus.contains_key(&tracks.gpu));
    let images = versions().images;
    let in_order = tracks.in_order();
    let bases = in_order.iter().filter_map(|(name, track)| Some((name, track.base_pin()?)));
    let missing: Vec<_> = bases.clone().filter(|(_, pin)| !images.contains_key(*pin)).collect();
    assert_eq!(missing, [], "these bases are not image pins");
    assert!(bases.count() >= 5);
    for track in ["official", "nightly-spoof", "locked-spoof"] {
        assert_eq!(tracks.tracks[track].image.env["VLLM_ROCM_USE_AITER"], "0");
    }
}

#[test]
fn a_mistyped_pin_name_is_answered_with_the_nearest() {
    let pins = versions();
    assert_eq!(pins.nearest_name("vlmm-legacy").unwrap().as_str(), "vllm-legacy");
    assert_eq!(pins.nearest_name("pytroch").unwrap().as_str(), "pytorch");
    assert_eq!(pins.nearest_name("something-else-entirely"), None);
    assert_eq!(pins.names()[&name("rocm-wheels")], PinKind::Release);
}

#[test]
fn byte_order_marks_and_windows_line_ends_are_accepted() {
    let windows = format!("\u{feff}{}", VERSIONS.replace('\n', "\r\n"));
    assert_eq!(parse_versions("f", &windows), Ok(versions()));
    let windows = format!("\u{feff}{}", GPUS.replace('\n', "\r\n"));
    assert_eq!(parse_gpus("f", &windows), Ok(gpus()));
    let windows = format!("\u{feff}{}", COMPAT.replace('\n', "\r\n"));
    assert_eq!(parse_compat("f", &windows), Ok(compat()));
    let windows = format!("\u{feff}{}", TRACKS.replace('\n', "\r\n"));
    assert_eq!(parse_tracks("f", &windows), Ok(tracks()));
}

#[test]
fn a_file_of_a_hundred_thousand_mistakes_is_answered() {
    let lines: Vec<_> = (0..40_000).map(|number| format!("source.a{number}.x = 1\n")).collect();
    let text = format!("schema = 1\n{}", lines.concat());
    for parse in [check_versions, check_gpus, check_tracks] {
        parse(&text);
    }
    let error = parse_versions("f", &text).unwrap_err();
    assert!(error.problems.len() <= 500);
    let one_line = format!("schema = 1\ngpu = \"gfx1151\"\nofficial.env = {{ {} }}", {
        let entries = (0..60_000).map(|number| format!("OLLAMA_{number}=1"));
        entries.collect::<Vec<_>>().join(",")
    });
    check_tracks(&one_line);
}

/// Checks the rules for every error: positions are in the file and in order, and no text is empty.
fn check_answer<T>(text: &str, answer: Result<T, pins::ParseError>) {
    let Err(error) = answer else { return };
    assert!(!error.problems.is_empty());
    let mut last = 0;
    for problem in &error.problems {
        assert!(text.get(problem.span.clone()).is_some(), "{problem:?}");
        assert!(problem.span.start >= last && problem.line >= 1 && problem.column >= 1);
        assert!(!problem.message.is_empty() && !problem.help.is_empty());
        assert!(!format!("{}{}", problem.message, problem.help).contains(char::is_control));
        last = problem.span.start;
    }
}

fn check_versions(text: &str) {
    check_answer(text, parse_versions("f", text));
}

fn check_gpus(text: &str) {
    check_answer(text, parse_gpus("f", text));
}

fn check_compat(text: &str) {
    check_answer(text, parse_compat("f", text));
}

fn check_tracks(text: &str) {
    check_answer(text, parse_tracks("f", text));
}

/// Deletes or inserts some characters of `text`.
fn edited(text: &str, edits: &[(usize, Option<String>)]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for (at, insert) in edits {
        let at = at % characters.len().max(1);
        match insert {
            Some(insert) => drop(characters.splice(at..at, insert.chars())),
            None if !characters.is_empty() => drop(characters.remove(at)),
            None => {}
        }
    }
    characters.into_iter().collect()
}

fn edits() -> impl Strategy<Value = Vec<(usize, Option<String>)>> {
    let insert = proptest::option::of(prop_oneof![
        "[\\[\\]{}=\"'.,#\\\\\n\r\t \u{feff}\u{1b}é0-9a-f-]{1,3}",
        "\\PC{1,3}",
    ]);
    proptest::collection::vec((any::<usize>(), insert), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        check_versions(&text);
        check_gpus(&text);
        check_tracks(&text);
    }

    #[test]
    fn any_pieces_of_toml_are_answered(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("schema = 1\n"), Just("[source.a]\n"), Just("[image.a]\n"), Just("[official]\n"),
                Just("[gfx1151]\n"), Just("commit = "), Just("digest = "), Just("url = "), Just("env."),
                Just("a = "), Just("\""), Just("{"), Just("}"), Just("["), Just("]"), Just(","),
                Just("1"), Just("2026-11-20"), Just("\n"), Just("é"), Just("="), Just("."), Just("true"),
                Just("spoof = "), Just("\"https://a@b:c/d\""), Just("\"gfx1031\""), Just("\"…\""), Just("\"\"\""),
                Just("checked = "), Just("gpus = "), Just("packages."), Just("index = "), Just("ref = "),
                Just("\\u0000"), Just("#"), Just("'"), Just("gpu = "), Just("base = "), Just("title = "),
            ],
            0..40,
        )
    ) {
        let text = pieces.concat();
        check_versions(&text);
        check_gpus(&text);
        check_tracks(&text);
    }

    #[test]
    fn any_string_as_a_value_is_answered(value in "[ -~…é\u{202e}]{0,80}", key in 0..14_usize) {
        let key = ["url", "ref", "version", "commit", "repository", "tag", "digest", "kind", "rocm",
            "project", "sha256", "subdirectory", "index", "evidence"][key];
        let value = value.replace(['\\', '"'], "");
        for kind in PinKind::ALL {
            let text = format!("schema = 1\nsource-date-epoch = 1795132800\n[{}.a]\n{key} = \"{value}\"\n", kind.table());
            check_versions(&text);
        }
        check_gpus(&format!("schema = 1\n[gfx1151]\nspoof = \"{value}\"\n"));
        check_tracks(&format!("schema = 1\ngpu = \"{value}\"\n[official]\nbase = \"{value}\"\nenv.\"{value}\" = \"{value}\""));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_real_files_are_answered(edits in edits()) {
        check_versions(&edited(VERSIONS, &edits));
        check_gpus(&edited(GPUS, &edits));
        check_tracks(&edited(TRACKS, &edits));
        check_compat(&edited(COMPAT, &edits));
    }
}

fn lock(text: &str) -> PackageLock {
    parse_package_lock("lock.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_locks_of_debian_packages_are_as_they_would_be_written() {
    for text in [DEBIAN_LOCK, ROCM_LOCK] {
        assert_eq!(lock(text).to_toml(), text);
    }
}

#[test]
fn a_dockerfile_of_debian_installs_what_its_lock_wants_and_nothing_else() {
    for (dockerfile, text, sets) in [
        (VULKAN_DEBIAN, DEBIAN_LOCK, ["vulkan-runtime", "vulkan-build"]),
        (ROCM_DEBIAN, ROCM_LOCK, ["rocm-runtime", "rocm-build"]),
    ] {
        let lock = lock(text);
        let installed: Vec<Vec<&str>> = dockerfile
            .split("--no-install-recommends \\\n")
            .skip(1)
            .map(|list| {
                list.lines().take_while(|line| line.starts_with("        ")).collect::<Vec<_>>()
            })
            .map(|lines| {
                lines.into_iter().flat_map(str::split_whitespace).filter(|w| *w != "\\").collect()
            })
            .collect();
        let wanted = sets.map(|set| -> Vec<&str> {
            lock.sets[&name(set)].wanted.iter().map(String::as_str).collect()
        });
        assert_eq!(installed, wanted);
    }
}

#[test]
fn the_lock_of_rocm_takes_it_from_experimental_and_the_rest_from_sid() {
    let lock = lock(ROCM_LOCK);
    assert_eq!(lock.indexes.keys().collect::<Vec<_>>(), ["experimental", "sid"]);
    let version = |name: &str| {
        let all = lock.sets.values().flat_map(|set| &set.packages);
        let mut found = all.filter(|package| package.name == name);
        found.next().map(|package| package.version.as_str()).unwrap()
    };
    for rocm in ["hipcc", "libamdhip64-7", "libhipblaslt1", "librocblas5", "librocsolver0"] {
        assert!(version(rocm).starts_with("7.2."), "{rocm} {}", version(rocm));
    }
    // These come from `experimental`, which has newer versions than sid.
    assert!(version("libc6").starts_with("2.43-") && version("cmake").starts_with("4.3."));
}

#[test]
fn the_advice_for_a_moved_index_does_not_lead_to_another_index_that_moved() {
    let compat = compat();
    for (name, row) in &compat.indexes {
        let next = row.instead.split([' ', ',']).filter(|word| word.starts_with("https://"));
        for url in next {
            assert!(compat.moved_index(url).is_none(), "{name}: {url} has moved too");
        }
    }
}
