//! Fuzzes short input from users and servers: refs, paths, URLs, `.gitmodules`.

use testkit::{Corpus, fuzz, runs};

use crate::git::gitmodules;
use crate::{GitRef, Mirror, SourceUrl, TreePath};

/// Byte sequences that are significant in these inputs.
const WORDS: [&[u8]; 24] = [
    b"..",
    b"/",
    b"./",
    b"../",
    b"\0",
    b"\n",
    b" ",
    b"-",
    b"@{",
    b".lock",
    b".git",
    b"~",
    b"^{}",
    b"%2e",
    b"://",
    b"user:secret@",
    b"[::1]",
    b"=file:///",
    b"\xff",
    b"\x80",
    b"\xc3\xbc",
    b"\"",
    b"\\",
    b"\x1b[",
];

fn inputs(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn fuzzed_refs_are_harmless() {
    let inputs = inputs(&["v0.11.0", "refs/tags/v1.2.3-rc1", "feature/x+y_z", "HEAD", "main_perf"]);
    let mut good = 0;
    fuzz(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0002 }, |bytes, _| {
        let text = String::from_utf8_lossy(&bytes);
        let Ok(name) = text.parse::<GitRef>() else { return };
        good += 1;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._/+-".contains(&b);
        assert!(name.as_str().bytes().all(is_plain) && !text.starts_with('-'), "{text}");
        assert!(!text.contains("..") && !text.contains("//") && !text.ends_with(".lock"), "{text}");
    });
    assert!(good > runs() / 10, "only {good} got through");
}

#[test]
fn fuzzed_paths_stay_inside() {
    let inputs = inputs(&["a/b/c.py", ".github/workflows/a.yml", "csrc/rocm/attention.cu", "ü b"]);
    let mut good = 0;
    fuzz(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0004 }, |bytes, _| {
        let Ok(path) = TreePath::from_bytes(&bytes) else { return };
        good += 1;
        for part in path.as_str().split('/') {
            assert!(!matches!(part, "" | "." | ".."), "{path}");
            assert!(!part.eq_ignore_ascii_case(".git"), "{path}");
        }
        assert!(!path.as_str().contains('\0'), "{path}");
    });
    assert!(good > runs() / 10, "only {good} got through");
}

#[test]
fn fuzzed_urls_and_mirrors_reach_nothing_new() {
    let inputs = inputs(&[
        "https://github.com/vllm-project/vllm.git",
        "git://127.0.0.1:9418/a",
        "file:///srv/git/a.git",
        "https://github.com/org=http://127.0.0.1:1/hub",
        "https://github.com=file:///srv",
    ]);
    let wanted: SourceUrl = "https://github.com/org/one.git".parse().unwrap();
    let mut good = 0;
    fuzz(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0005 }, |bytes, _| {
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(url) = text.parse::<SourceUrl>() {
            good += 1;
            assert_eq!(url.as_str().parse(), Ok(url.clone()), "{text}");
            assert!(url.url().username().is_empty() && url.url().password().is_none(), "{text}");
        }
        if let Ok(mirror) = text.parse::<Mirror>()
            && let Ok(url) = Mirror::resolve(&[mirror], &wanted)
        {
            good += 1;
            assert_eq!(url.as_str().parse(), Ok(url.clone()), "{text}");
        }
    });
    assert!(good > runs() / 10, "only {good} got through");
}

#[test]
fn fuzzed_gitmodules_name_paths_inside() {
    let inputs = inputs(&[
        "[submodule \"third_party/aiter\"]\n\tpath = third_party/aiter\n\turl = https://github.com/ROCm/aiter\n",
        "[submodule \"a b\"]\n\tpath = \"a \\\"b\"\n\turl = ../b.git ; why\n\tbranch = main\n",
        "# one\n[submodule.x]\n[submodule \"x\"] path = x\nurl=./x\nupdate = !rm -rf\n",
    ]);
    let mut good = 0;
    fuzz(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0006 }, |bytes, _| {
        let Ok(modules) = gitmodules::parse(&bytes) else { return };
        good += usize::from(!modules.is_empty());
        for path in modules.keys() {
            assert_eq!(path.as_str().parse(), Ok(path.clone()));
        }
    });
    assert!(good > runs() / 10, "only {good} got through");
}
