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

/// Returns the sets of a file, or the messages about it.
fn sets(lines: &str) -> Result<PythonSets, Vec<String>> {
    let text = format!("schema = 1\n[a]\n{lines}\n");
    parse_python("p", &text)
        .map_err(|error| error.problems.into_iter().map(|one| one.message).collect())
}

#[test]
fn versions_of_python_and_platforms_are_those_of_wheels() {
    let python = |text: &str| {
        sets(&format!("python = '{text}'\nplatform = 'x86_64-manylinux_2_40'\nrelease = 'r'"))
    };
    for good in ["3.9", "3.13", "3.255"] {
        assert_eq!(python(good).unwrap().into_values().next().unwrap().python, good);
    }
    for bad in ["3", "3.", "3.013", "3.13.1", "2.7", "3.256", "3.+1", "v3.13"] {
        let told = format!("`{bad}` is not a version of Python that wheels are built for");
        assert_eq!(python(bad), Err(vec![told]));
    }
    let platform =
        |text: &str| sets(&format!("python = '3.13'\nplatform = '{text}'\nrelease = 'r'"));
    for good in ["x86_64-manylinux_2_40", "aarch64-musllinux_1_2"] {
        assert_eq!(platform(good).unwrap().into_values().next().unwrap().platform, good);
    }
    for bad in [
        "x86_64",
        "x86_64-linux",
        "x86_64-manylinux_2",
        "x86_64-manylinux_2_040",
        "x86_64-manylinux_2_40_1",
        "x86_64-manylinux_02_40",
        "x86_64-manylinux2014",
        "amd64-manylinux_2_40",
        "x86_64-macos_2_40",
    ] {
        let told = format!("`{bad}` is not a platform that wheels are built for");
        assert_eq!(platform(bad), Err(vec![told]));
    }
}

#[test]
fn a_set_has_something_to_install_and_files_have_a_source() {
    let head = "python = '3.13'\nplatform = 'x86_64-manylinux_2_40'\n";
    let told = |lines: &str| sets(&format!("{head}{lines}")).map(drop);
    for good in [
        "requirements = ['numpy']",
        "release = 'r'",
        "source = 's'\nfiles = ['f']",
        "source = 's'\nfiles = ['f']\nrequirements = ['numpy']\nrelease = 'r'",
    ] {
        assert_eq!(told(good), Ok(()), "{good}");
    }
    for (lines, key) in [
        ("", "requirements"),
        ("provided = ['torch']", "requirements"),
        ("source = 's'", "files"),
        ("source = 's'\nrequirements = ['numpy']", "files"),
        ("files = ['f']", "source"),
        ("files = ['f']\nrelease = 'r'", "source"),
    ] {
        assert_eq!(told(lines), Err(vec![format!("`{key}` is missing from `[a]`")]), "{lines}");
    }
}

#[test]
fn pins_of_a_set_exist_and_have_the_right_kind() {
    let told = |lines: &str| {
        let text = format!(
            "schema = 1\n[a]\npython = '3.13'\nplatform = 'x86_64-manylinux_2_40'\n{lines}\n"
        );
        let error = parse_python_with("p", &text, &pins("unresolved")).unwrap_err();
        (error.problems[0].message.clone(), error.problems[0].help.clone())
    };
    assert_eq!(
        told("source = 'vlm'\nfiles = ['f']"),
        (
            "`vlm` is not a pin of kind `source` and `archive`".to_owned(),
            "did you mean `vllm`?".to_owned()
        )
    );
    // A source is not a release.
    assert_eq!(told("release = 'vllm'").0, "`vllm` is not a pin of kind `release`");
}

#[test]
fn requirements_name_packages_of_the_index() {
    let requirement = |text: &str| super::read::requirement(text).map_err(|wrong| wrong.message);
    let longest = format!("a>={}", "1".repeat(297));
    for good in ["a", "A.b_c-d", "a[x]>=1", "a (>=1)", "a==1", "a!=1", "a~=1", "a<2;x", &longest] {
        assert_eq!(requirement(good).as_deref(), Ok(good));
    }
    for bad in ["", "-r x", "_a", "a/b", "a+b", "a,b", "https://h.example/a.whl"] {
        assert!(requirement(bad).unwrap_err().ends_with("is not a requirement"), "{bad}");
    }
    for bad in ["a @ https://h.example/a.whl", "a@x", "a[x] @ y"] {
        let told = requirement(bad).unwrap_err();
        assert!(told.ends_with("is a file or a repository, not a package on the index"), "{told}");
    }
    assert!(requirement(&format!("{longest}1")).unwrap_err().ends_with("301 characters long"));
}

#[test]
fn an_archive_and_its_folder_decide_a_lock() {
    let inputs = |sha256: &str, more: &str| {
        let text = format!(
            "schema = 1\nsource-date-epoch = 1795132800\n[archive.vllm]\nproject = 'vllm'\nversion = '1'\nsha256 = '{sha256}'\n{more}"
        );
        let pins = parse_versions("v", &text).unwrap_or_else(|error| panic!("{error}"));
        set("").inputs(&pins)
    };
    let one = inputs(HASH, "").unwrap();
    assert_eq!(inputs(HASH, "patches = 'x'\n"), Some(one.clone()), "patches are applied later");
    assert_ne!(inputs(HASH, "subdirectory = 'python'\n").unwrap(), one);
    assert_ne!(inputs(&"0".repeat(64), "").unwrap(), one);
    assert_eq!(inputs("unresolved", ""), None);
    let text = "schema = 1\nsource-date-epoch = 1795132800\n";
    assert_eq!(set("").inputs(&parse_versions("v", text).unwrap()), None, "there is no such pin");
}

#[test]
fn continued_lines_comments_and_includes_of_requirement_files_are_read() {
    let wanted = |text: &str| Line::Requirement(text.to_owned());
    let include = |text: &str| Line::Include(text.to_owned());
    for (text, expected) in [
        ("a#b\n", None),
        ("a #b\n", Some(wanted("a"))),
        ("--requirement  x/y.txt\n", Some(include("x/y.txt"))),
        ("-r x #why\n", Some(include("x"))),
        ("  a  \n", Some(wanted("a"))),
        ("a>=1 \\\n #why\n", Some(wanted("a>=1"))),
    ] {
        let read = requirements("r.txt", text).ok().and_then(|mut all| all.pop());
        assert_eq!(read, expected, "{text:?}");
    }
    let error = requirements("r.txt", "a\nb \\\n ==1\n-x\n").unwrap_err();
    assert_eq!(error.to_string(), "line 4 of `r.txt` is `-x`, which is not supported");
    let toml = |text: &str| requirements("a/pyproject.toml", text).unwrap_err().to_string();
    assert_eq!(toml("= x"), "`a/pyproject.toml` is not valid TOML");
    let missing = "`a/pyproject.toml` has no `[build-system]` with `requires`";
    assert_eq!(toml("[build-system]\n"), missing);
    assert_eq!(toml("[build-system]\nrequires = 'a'\n"), missing);
    assert!(toml("[build-system]\nrequires = [1]\n").starts_with("line 1 of "));
}

#[test]
fn names_of_packages_have_one_spelling_and_locks_one_place() {
    for (name, spelled) in
        [("Typing_Extensions", "typing-extensions"), ("a.-_b", "a-b"), ("-a-", "a"), ("A", "a")]
    {
        assert_eq!(normalised(name), spelled);
    }
    assert_eq!(python_lock_path("a"), "versions/locks/pylock.a.toml");
    assert_eq!(requirements_lock_path("a"), "versions/locks/a.requirements.lock");
}

#[test]
fn a_wheel_has_a_plain_name_from_its_name_path_or_url() {
    let file = |place: &str| {
        let text = uv(&format!(
            "[[packages]]\nname = 'a'\nversion = '1'\nwheels = [{{ {place}, hashes = {{ sha256 = '{HASH}' }} }}]\n"
        ));
        let lock = PythonLock::parse(&text, Some(&set(""))).map_err(|error| error.to_string())?;
        Ok::<_, String>(lock.projects["a"].wheels[0].file.clone())
    };
    let ok = |name: &str| Ok(name.to_owned());
    assert_eq!(file("name = 'n-1.whl', url = 'https://h.example/u-1.whl'"), ok("n-1.whl"));
    assert_eq!(file("path = 'wheels/p-1.whl'"), ok("p-1.whl"));
    assert_eq!(file("url = 'https://h.example/x/u-1%2Brocm%2b7.whl?a=b#c'"), ok("u-1+rocm+7.whl"));
    let refused = Err("`a` has a wheel without a name or SHA-256".to_owned());
    for place in ["url = 'https://h.example/a-1.tar.gz'", "path = 'a b.whl'", "size = 1"] {
        assert_eq!(file(place), refused, "{place}");
    }
}

#[test]
fn a_lock_is_refused_with_the_part_that_is_wrong() {
    let parse = |text: &str, set: Option<&PythonSet>| {
        PythonLock::parse(text, set).map(drop).map_err(|error| error.to_string())
    };
    let refused = |told: &str| Err(told.to_owned());
    let own = "[tool.build-pipeline]\nschema = 1\npython = '3.13'\nplatform = 'p'\n";
    assert_eq!(parse(&uv(own), None), Ok(()));
    assert_eq!(parse("= x", None), refused("it is not valid TOML"));
    assert_eq!(parse("a = 1", None), refused("`lock-version` is not `1.0`"));
    assert_eq!(parse(&uv(""), None), refused("`python` is missing"));
    assert_eq!(parse(&uv(&own.replace("platform", "x")), None), refused("`platform` is missing"));
    for (schema, told) in [
        ("0", "its schema is `0`, which does not exist"),
        ("2", "it was written by a newer build-pipeline"),
        ("'1'", "its schema is `\"1\"`, which does not exist"),
    ] {
        let text = uv(&own.replace("schema = 1", &format!("schema = {schema}")));
        assert_eq!(parse(&text, None), refused(told));
    }
    assert_eq!(
        parse(&uv(&format!("{own}inputs = 'x'\n")), None),
        refused("`inputs` is not a digest")
    );
    let wheel = format!("wheels = [{{ name = 'a-1.whl', hashes = {{ sha256 = '{HASH}' }} }}]");
    let package = |name: &str| format!("[[packages]]\nname = '{name}'\nversion = '1'\n{wheel}\n");
    let twice = uv(&(package("a-b") + &package("A_B")));
    assert_eq!(parse(&twice, Some(&set(""))), refused("`a-b` is listed twice"));
}

#[test]
fn a_lock_names_the_index_of_its_release_and_sorts_its_hashes() {
    let hash = |digit: &str| digit.repeat(64);
    let wheel = |name: &str, digit: &str| {
        format!("{{ name = '{name}', hashes = {{ sha256 = '{}' }} }}", hash(digit))
    };
    let text = uv(&format!(
        "[[packages]]\nname = 'a'\nversion = '1'\nwheels = [{}, {}]\n",
        wheel("b-1.whl", "1"),
        wheel("a-1.whl", "2")
    ));
    let mut lock = PythonLock::parse(&text, Some(&set(""))).unwrap();
    lock.index = Some("https://h.example/w/".to_owned());
    let written = lock.to_pylock();
    assert!(
        written
            .ends_with("platform = \"x86_64-manylinux_2_40\"\nindex = \"https://h.example/w/\"\n"),
        "{written}"
    );
    assert_eq!(PythonLock::parse(&written, None).unwrap(), lock);
    let (a, b) = (written.find("a-1.whl").unwrap(), written.find("b-1.whl").unwrap());
    assert!(a < b, "wheels are sorted by name");
    assert!(lock.to_requirements().ends_with(&format!(
        "a==1 \\\n    --hash=sha256:{} \\\n    --hash=sha256:{}\n",
        hash("1"),
        hash("2")
    )));
}
