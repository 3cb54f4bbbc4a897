//! Tests sets, requirement files of other projects, and locks as uv writes them.

use super::*;
use crate::{parse_versions, python::requirements::RequirementLine as Line};

const HASH: &str = "672af6f0a56117b9e84b8caacbfe437afba9f366cef8e524dcc5f3f03edd954e";

fn pins(commit: &str) -> Pins {
    let text = format!(
        "schema = 1\nsource-date-epoch = 1795132800\n[source.vllm]\nurl = 'https://h.example/vllm'\ncommit = '{commit}'\n"
    );
    parse_versions("v", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn set(more: &str) -> PythonSet {
    let text = format!(
        "schema = 1\n[a]\npython = '3.13'\nplatform = 'x86_64-manylinux_2_40'\nsource = 'vllm'\nfiles = ['pyproject.toml']\n{more}"
    );
    let sets = parse_python("p", &text).unwrap_or_else(|error| panic!("{error}"));
    sets.into_values().next().unwrap()
}

#[test]
fn whatever_decides_a_lock_is_in_the_digest_of_its_inputs() {
    let (one, other) = ("1".repeat(40), "2".repeat(40));
    let digest = set("").inputs(&pins(&one)).unwrap();
    assert_eq!(set("").inputs(&pins(&one)).unwrap(), digest);
    assert_ne!(set("").inputs(&pins(&other)).unwrap(), digest);
    for more in ["requirements = ['numpy']", "provided = ['torch']"] {
        assert_ne!(set(more).inputs(&pins(&one)).unwrap(), digest, "{more}");
    }
    // The order of unordered lists and the spelling of names do not matter.
    let spelled = |text| set(text).inputs(&pins(&one)).unwrap();
    assert_eq!(spelled("provided = ['b_c', 'a']"), spelled("provided = ['a', 'B-C']"));
    assert_eq!(set("").inputs(&pins("unresolved")), None);
}

#[test]
fn the_packages_and_the_index_of_a_release_decide_a_lock_too() {
    let set =
        "schema = 1\n[a]\npython = '3.13'\nplatform = 'x86_64-manylinux_2_40'\nrelease = 'rocm'\n";
    let set = parse_python("p", set).unwrap().into_values().next().unwrap();
    let inputs = |index: &str, version: &str| {
        let text = format!(
            "schema = 1\nsource-date-epoch = 1795132800\n[release.rocm]\nindex = '{index}'\npackages = {{ torch = '{version}' }}\n"
        );
        set.inputs(&parse_versions("v", &text).unwrap_or_else(|error| panic!("{error}")))
    };
    let one = inputs("https://h.example/whl/", "2.11.0+rocm7.14.0").unwrap();
    assert_ne!(inputs("https://h.example/whl/", "2.12.0+rocm7.14.0"), Some(one.clone()));
    assert_ne!(inputs("https://i.example/whl/", "2.11.0+rocm7.14.0"), Some(one));
    assert_eq!(set.inputs(&pins(&"1".repeat(40))), None);
}

#[test]
fn requirement_files_are_read_and_options_are_refused() {
    let text = "# comment\nnumpy>=2 # why\n\n-r ../common.txt\nfastapi[standard] >= 0.1; python_version > '3.11'\ntorch \\\n  == 2.8\n";
    let read = requirements("requirements/rocm.txt", text).unwrap();
    let wanted = |text: &str| Line::Requirement(text.to_owned());
    assert_eq!(
        read,
        [
            wanted("numpy>=2"),
            Line::Include("../common.txt".to_owned()),
            wanted("fastapi[standard] >= 0.1; python_version > '3.11'"),
            wanted("torch   == 2.8"),
        ]
    );
    for line in [
        "--extra-index-url https://h.example/cu129",
        "-i https://h.example",
        "git+https://h.example/x",
        "x @ https://h.example/x.whl",
        "./local",
        "local/x.whl",
    ] {
        let error = requirements("r.txt", &format!("numpy\n{line}\n")).unwrap_err();
        assert!(error.to_string().starts_with("line 2 of `r.txt` is `"), "{error}");
    }
    let build = "[build-system]\nrequires = ['cmake>=3.26', 'torch == 2.8.0']\n";
    let read = requirements("pyproject.toml", build).unwrap();
    assert_eq!(read, [wanted("cmake>=3.26"), wanted("torch == 2.8.0")]);
    assert!(requirements("pyproject.toml", "[project]\n").is_err());
    assert!(requirements("pyproject.toml", "no toml").is_err());
}

fn uv(packages: &str) -> String {
    format!("lock-version = \"1.0\"\ncreated-by = \"uv\"\n{packages}")
}

#[test]
fn a_lock_of_uv_becomes_ours_and_is_read_again() {
    let text = uv(&format!(
        "[[packages]]\nname = 'Typing_Extensions'\nversion = '4.15.0'\nwheels = [{{ url = 'https://h.example/a/b/typing_extensions-4.15.0-py3-none-any.whl', size = 44, hashes = {{ sha256 = '{HASH}' }} }}]\n"
    ));
    let mut lock = PythonLock::parse(&text, Some(&set(""))).unwrap();
    lock.inputs = set("").inputs(&pins(&"1".repeat(40)));
    let written = lock.to_pylock();
    assert!(!written.contains("h.example"), "{written}");
    assert_eq!(PythonLock::parse(&written, None).unwrap(), lock);
    assert!(
        lock.to_requirements()
            .ends_with(&format!("typing-extensions==4.15.0 \\\n    --hash=sha256:{HASH}\n"))
    );
    assert_eq!(lock.for_cuda().count(), 0);
}

#[test]
fn what_is_no_wheel_with_a_hash_is_refused() {
    for (packages, why) in [
        ("[[packages]]\nversion = '1'\n".to_owned(), "a package has no name"),
        ("[[packages]]\nname = 'a'\nversion = '1'\n".to_owned(), "`a` has no wheel"),
        (
            "[[packages]]\nname = 'a'\nversion = '1'\nwheels = [{ url = 'https://h.example/a-1.whl' }]\n".to_owned(),
            "`a` has a wheel without a name or SHA-256",
        ),
        (
            format!("[[packages]]\nname = 'a'\nversion = '1\"'\nwheels = [{{ url = 'https://h.example/a-1.whl', hashes = {{ sha256 = '{HASH}' }} }}]\n"),
            "`a` has an invalid name or version",
        ),
    ] {
        let error = PythonLock::parse(&uv(&packages), Some(&set(""))).unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    assert!(PythonLock::parse("lock-version = '2.0'", None).is_err());
    let newer = uv("[tool.build-pipeline]\nschema = 2\n");
    let error = PythonLock::parse(&newer, None).unwrap_err();
    assert_eq!(error.to_string(), "it was written by a newer build-pipeline");
}

#[test]
fn builds_for_cuda_are_known() {
    let package = |name: &str, version: &str| {
        format!(
            "[[packages]]\nname = '{name}'\nversion = '{version}'\nwheels = [{{ url = 'https://h.example/{name}-{version}-py3-none-any.whl', hashes = {{ sha256 = '{HASH}' }} }}]\n"
        )
    };
    let all = [
        ("torch", "2.8.0"),
        ("triton", "3.4.0"),
        ("nvidia-cublas-cu12", "12.8"),
        ("vllm", "0.11.0+cu129"),
        ("numpy", "2.4.0"),
        ("torchmetrics", "1.0"),
        ("cuda-toolkit", "13"),
    ]
    .map(|(name, version)| package(name, version));
    let lock = PythonLock::parse(&uv(&all.concat()), Some(&set(""))).unwrap();
    let found: Vec<&str> = lock.for_cuda().map(|(name, _)| name).collect();
    assert_eq!(found, ["cuda-toolkit", "nvidia-cublas-cu12", "torch", "triton", "vllm"]);
}
