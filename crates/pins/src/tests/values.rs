//! Single values: what is accepted at each limit, and what the advice is for the rest.

use super::{message, refused};
use crate::checks::{
    agrees, component, date, exact_version, git_ref, gpu_target, https_url, line, package_name,
    pin_name, project_file, repository, repository_url, rocm_release, spoof, subdirectory, tag,
    version,
};
use names::GpuTarget;

#[test]
fn a_line_is_counted_in_characters() {
    let three = line(3);
    assert_eq!(three("äöü").unwrap(), "äöü");
    assert_eq!(
        refused(three("äöüß")),
        ("`äöüß` is 4 characters long".to_owned(), "shorten it to 3 characters".to_owned())
    );
}

#[test]
fn urls_are_plain_https() {
    let label = "a".repeat(63);
    for good in [
        "https://a",
        "https://a.b-c.d/e_f.g",
        "https://a:1/b",
        "https://a:65535",
        "https://a/%20~+!$&'()*,;=:",
        "https://a/b/",
        &format!("https://{label}.b/"),
    ] {
        assert_eq!(https_url(good).unwrap(), good);
    }
    for (text, why, help) in [
        ("github.com/a/b", "is not a URL", "write the full URL, for example"),
        (
            "http://a/b?c",
            "does not start with `https://`",
            "only https is supported; write `https://a/b`",
        ),
        ("git@a.b:c/d.git", "is an ssh address", "write `https://a.b/c/d.git`"),
        ("https://a/b#c", "has a query or fragment", "write `https://a/b`"),
        ("https://a b/c", "has no valid host", "a host consists of letters"),
        ("https:///c", "has no valid host", "a host consists of letters"),
        ("https://a..b/c", "has no valid host", "a host consists of letters"),
        ("https://-a/c", "has no valid host", "a host consists of letters"),
        ("https://a-/c", "has no valid host", "a host consists of letters"),
        ("https://a_b/c", "has no valid host", "a host consists of letters"),
        ("https://a:0/c", "has no valid host", "a host consists of letters"),
        ("https://a:65536/c", "has no valid host", "a host consists of letters"),
        ("https://a:/c", "has no valid host", "a host consists of letters"),
        ("https://a:+1/c", "has no valid host", "a host consists of letters"),
        ("https://a/b c", "has a space in its path", "a URL has no spaces"),
        ("https://a/b\"c", "has `\"` in its path", "a URL has no spaces"),
        ("https://a/ä", "has `ä` in its path", "a URL has no spaces"),
        (
            "https://a/../b",
            "has `.`, `..` or an empty part in its path",
            "write the path without them",
        ),
        (
            "https://a/./b",
            "has `.`, `..` or an empty part in its path",
            "write the path without them",
        ),
        (
            "https://a/b//c",
            "has `.`, `..` or an empty part in its path",
            "write the path without them",
        ),
    ] {
        let (told, advice) = refused(https_url(text));
        assert!(told.ends_with(why), "{text}: {told}");
        assert!(advice.starts_with(help), "{text}: {advice}");
    }
    assert!(https_url(&format!("https://{label}a/")).is_err(), "a label has at most 63 characters");
}

#[test]
fn a_secret_in_a_url_is_neither_accepted_nor_repeated() {
    for text in ["https://me:hunter2@a.b/c", "https://me:hunter2@a.b/c?d#e", "http://hunter2@a.b/c"]
    {
        let (told, help) = refused(https_url(text));
        assert!(told.ends_with("has a user name or password"), "{told}");
        assert!(!told.contains("hunter2") && !help.contains("hunter2"), "{told} {help}");
        assert!(help.starts_with("write `https://a.b/c`, and replace the secret"), "{help}");
    }
}

#[test]
fn a_repository_is_below_its_host() {
    assert_eq!(repository_url("https://a/b").unwrap(), "https://a/b");
    for text in ["https://a", "https://a/"] {
        assert_eq!(
            message(repository_url(text)),
            format!("`{text}` contains a host, but no repository")
        );
    }
    assert!(message(repository_url("http://a/b")).ends_with("does not start with `https://`"));
}

#[test]
fn a_git_ref_is_a_tag_or_branch_and_nothing_else() {
    let longest = "a".repeat(201);
    for good in ["v1.0", "release/2.x", "a_b+c-d", "0", "a/b.c/d", &"a".repeat(41), &longest] {
        assert_eq!(git_ref(good).unwrap(), good);
    }
    for (text, why) in [
        (&*"a".repeat(40), "is a commit, not a tag or branch"),
        (&*"0".repeat(64), "is a commit, not a tag or branch"),
        ("main@{1}", "is a reflog entry, not a tag or branch"),
        ("a..b", "is a range of commits, not a tag or branch"),
        ("a b", "contains a space, which is not allowed in a tag or branch"),
        ("a~1", "contains `~`, which is not allowed in a tag or branch"),
        ("^a", "contains `^`, which is not allowed in a tag or branch"),
        ("-a", "is not a tag or branch"),
        (".a", "is not a tag or branch"),
        ("a/.b", "is not a tag or branch"),
        ("a.", "is not a tag or branch"),
        ("a.lock", "is not a tag or branch"),
        ("a.lock/b", "is not a tag or branch"),
        ("a//b", "is not a tag or branch"),
        ("/a", "is not a tag or branch"),
        ("a/", "is not a tag or branch"),
        ("", "is not a tag or branch"),
    ] {
        let told = message(git_ref(text));
        assert!(told.ends_with(why), "{text}: {told}");
    }
    assert!(git_ref(&format!("{longest}a")).is_err());
}

#[test]
fn versions_have_a_number_first_and_no_operator() {
    let longest = "1".repeat(100);
    for good in ["1", "0.10.2", "2.8.3.post1", "1!2.0+a-b_c", "b1234", &longest] {
        assert_eq!(version(good).unwrap(), good);
    }
    for (text, help) in [
        ("v1.0", "write `1.0`; the `v` belongs in `ref`"),
        ("V1", "write `1`; the `v` belongs in `ref`"),
        ("== 1", "write `1`; the `v` belongs in `ref`"),
    ] {
        assert_eq!(refused(version(text)), (format!("`{text}` is not a version"), help.to_owned()));
    }
    for text in ["", "b", "b12a", "main", "1 2", "1/2", ".1", &format!("{longest}1")] {
        assert!(version(text).is_err(), "{text}");
    }
    assert_eq!(exact_version("1.0").unwrap(), "1.0");
    for (text, told, help) in [
        (
            "==1.0",
            "`==1.0` has an operator",
            "only exact versions are accepted, without an operator; write `1.0`",
        ),
        (
            "== 1.0 ",
            "`== 1.0 ` has an operator",
            "only exact versions are accepted, without an operator; write `1.0`",
        ),
        (
            "==1.*",
            "`==1.*` is a range of versions",
            "a pin is one exact version, for example `2.11.0+rocm7.14.0`",
        ),
        (
            "==1,<2",
            "`==1,<2` is a range of versions",
            "a pin is one exact version, for example `2.11.0+rocm7.14.0`",
        ),
    ] {
        assert_eq!(refused(exact_version(text)), (told.to_owned(), help.to_owned()));
    }
    for text in [">=1", "<2", "~=1.0", "^1", "1.*", "=1", "1,2"] {
        assert!(message(exact_version(text)).ends_with("is a range of versions"), "{text}");
    }
    assert!(message(exact_version("v1")).ends_with("is not a version"));
}

#[test]
fn rocm_releases_are_two_or_three_numbers_with_an_optional_stamp() {
    for good in ["7.2", "7.2.1", "10.0.0", "7.14.0a20260608", "7.0.0rc1", "7.14b2", "999.0"] {
        assert_eq!(rocm_release(good).unwrap(), good);
    }
    for text in
        ["7", "7.2.1.0", "7.02", "7.", ".7", "7.2a", "7.2rc", "1000.0", "7.2a1b", "7.2-1", ""]
    {
        assert_eq!(message(rocm_release(text)), format!("`{text}` is not a ROCm release"));
    }
    assert_eq!(refused(rocm_release("rocm-7.2.1")).1, "write only the number: `7.2.1`");
    assert_eq!(refused(rocm_release("v7.2")).1, "write only the number: `7.2`");
    assert!(refused(rocm_release("v7")).1.starts_with("a ROCm release is two or three numbers"));
}

#[test]
fn a_ref_and_a_version_agree_if_they_name_the_same_release() {
    for (git_ref, version) in [
        ("v1.2", "1.2"),
        ("1.2", "1.2"),
        ("release/v1.2", "1.2"),
        ("main", "1.2"),
        ("main_perf", "1.2"),
        ("b100", "b100"),
        ("2.7.4-cktile", "2.7.4"),
        ("main", "b100"),
    ] {
        assert!(agrees(git_ref, version), "{git_ref} {version}");
    }
    for (git_ref, version) in [
        ("v1.2", "1.3"),
        ("v1.2.1", "1.2"),
        ("v1.2-rc1", "1.2"),
        ("v1.2-alpha", "1.2"),
        ("v1.2-beta2", "1.2"),
        ("v1.2-pre", "1.2"),
        ("v1.2-dev3", "1.2"),
        ("v1.2rc1", "1.2"),
        ("b100", "b101"),
        ("b100", "1.0"),
    ] {
        assert!(!agrees(git_ref, version), "{git_ref} {version}");
    }
}

#[test]
fn paths_stay_inside_the_project_or_archive() {
    let longest = "a".repeat(255);
    for good in ["a", "a/b.c", "..a/b..", "a b", ".a", &longest] {
        assert_eq!(project_file(good).unwrap(), good);
    }
    for (text, why) in [
        ("/a", "is an absolute path"),
        ("C:/a", "is an absolute path"),
        ("a\\b", "has a backslash"),
        ("../a", "is outside the project"),
        ("a/..", "is outside the project"),
        ("a//b", "has an empty part or a `.`"),
        ("./a", "has an empty part or a `.`"),
        ("a/", "has an empty part or a `.`"),
        ("", "has an empty part or a `.`"),
    ] {
        assert_eq!(message(project_file(text)), format!("`{text}` {why}"));
    }
    assert!(message(project_file(&format!("{longest}a"))).ends_with("is 256 characters long"));
    assert_eq!(
        refused(subdirectory("../a")),
        (
            "`../a` is outside the archive".to_owned(),
            "write a path inside the archive, without `..`, for example `vendor/llama.cpp`"
                .to_owned()
        )
    );
}

#[test]
fn names_of_components_and_packages_have_a_largest_length() {
    for good in ["a", "0a", "a.b_c-", &"a".repeat(64)] {
        assert_eq!(component(good).unwrap(), good);
    }
    for bad in ["", "A", "-a", ".a", "a b", "a/b", "ä", &"a".repeat(65)] {
        assert_eq!(message(component(bad)), format!("`{bad}` is not the name of a component"));
    }
    for good in ["a", "A.b_c-d", "0", &"a".repeat(100)] {
        assert_eq!(package_name(good).unwrap(), good);
    }
    for bad in ["", "-a", "a-", "_a", "a.", "a b", "ä"] {
        assert_eq!(message(package_name(bad)), format!("`{bad}` is not a package name"));
    }
    assert!(package_name(&"a".repeat(101)).is_err());
    assert_eq!(
        refused(package_name("torch[rocm]")).1,
        "extras are not part of the name; write `torch`"
    );
}

#[test]
fn the_parts_of_an_image_have_keys_of_their_own() {
    assert_eq!(repository("docker.io/a/b").unwrap().to_string(), "docker.io/a/b");
    assert_eq!(repository("a.b:5000/c").unwrap().to_string(), "a.b:5000/c");
    assert_eq!(
        refused(repository("docker.io/a/b:1")),
        (
            "`docker.io/a/b:1` has a tag".to_owned(),
            "write `repository = \"docker.io/a/b\"` and `tag = \"1\"`".to_owned()
        )
    );
    assert_eq!(
        refused(repository("docker.io/a/b@sha256:00")),
        (
            "`docker.io/a/b@sha256:00` has a digest".to_owned(),
            "write `repository = \"docker.io/a/b\"` and `digest = \"sha256:00\"`".to_owned()
        )
    );
    assert!(repository("b").is_err() && repository("").is_err());
    assert_eq!(tag("7.2_a-b").unwrap().to_string(), "7.2_a-b");
    assert!(tag("a b").is_err() && tag(":a").is_err());
}

#[test]
fn a_gpu_or_pin_that_is_nearly_right_is_answered_with_the_right_one() {
    assert_eq!(gpu_target("gfx1151").unwrap().as_str(), "gfx1151");
    for (text, help) in [
        ("GFX1151", "write `gfx1151`"),
        ("gfx 1151", "write `gfx1151`"),
        ("1151", "write `gfx1151`"),
        ("11.5.1", "write `gfx1151`"),
        ("90a", "write `gfx90a`"),
    ] {
        assert_eq!(refused(gpu_target(text)).1, help, "{text}");
    }
    assert!(!refused(gpu_target("rdna3")).1.starts_with("write `"));
    assert_eq!(pin_name("a-b").unwrap().as_str(), "a-b");
    for text in ["A_b", "a.b", "a b"] {
        assert!(refused(pin_name(text)).1.starts_with("write `a-b`; "), "{text}");
    }
    assert!(!refused(pin_name("1")).1.starts_with("write `"));
}

#[test]
fn a_spoof_is_the_version_of_another_gpu() {
    let gpu: GpuTarget = "gfx1151".parse().unwrap();
    assert_eq!(spoof("11.0.0", Some(&gpu)).unwrap().to_string(), "11.0.0");
    assert_eq!(message(spoof("11.5.1", Some(&gpu))), "`11.5.1` is the GPU's own version");
    assert!(spoof("11.5.1", None).is_ok(), "an unknown GPU has no version");
    assert_eq!(refused(spoof("gfx1100", Some(&gpu))).1, "write `11.0.0`");
    let own = refused(spoof("gfx1151", Some(&gpu))).1;
    assert!(own.starts_with("write three numbers"), "{own}");
    assert!(spoof("11", Some(&gpu)).is_err());
}

#[test]
fn only_dates_that_exist_are_dates() {
    for good in [
        "2026-11-20",
        "2024-02-29",
        "2000-02-29",
        "2400-02-29",
        "2026-04-30",
        "2026-12-31",
        "2026-01-01",
    ] {
        assert_eq!(date(good).unwrap(), good);
    }
    for bad in [
        "2026-02-29",
        "2100-02-29",
        "2500-02-29",
        "2026-04-31",
        "2026-06-31",
        "2026-09-31",
        "2026-11-31",
        "2026-12-32",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "2026-1-01",
        "26-01-01",
        "2026-01-01T",
        "+026-01-01",
        "2026/01/01",
        "2026-01",
        "2026-01-01-",
        "",
    ] {
        assert_eq!(message(date(bad)), format!("`{bad}` is not a valid date"));
    }
}
