//! Fuzzes the parsing of Dockerfiles, scripts, environment files and compose files.

use lint::{Facts, Kind};
use testkit::{Corpus, fuzz_some};

/// Bytes that have a meaning in these files.
const WORDS: [&[u8]; 30] = [
    b"\n",
    b"\\\n",
    b"\r\n",
    b"$",
    b"${",
    b"${A:-",
    b"$(",
    b")",
    b"`",
    b"'",
    b"\"",
    b"\\",
    b";",
    b"&&",
    b"| ",
    b" <<EOF\n",
    b"\nEOF\n",
    b"# ",
    b"ENV ",
    b"ARG ",
    b"RUN ",
    b"FROM ",
    b"export ",
    b"HSA_OVERRIDE_GFX_VERSION=",
    b"pip install ",
    b"torch==2.11.0",
    b"    - ",
    b": ",
    b"\xc3\xbc",
    b"\xff",
];

const DOCKERFILE: &str = include_str!("../../../dockerfiles/vulkan/debian.Dockerfile");

const COMPOSE: &str = "services:
  vllm:
    image: docker.io/rocm/vllm-dev:nightly
    devices: [/dev/kfd, /dev/dri]
    environment:
      - HSA_OVERRIDE_GFX_VERSION=11.0.0
      - A=${B:-c}
";

#[test]
fn fuzzed_texts_are_taken_apart_within_their_lines() {
    let files = [
        ("Dockerfile", DOCKERFILE),
        ("compose.yaml", COMPOSE),
        (".env", "A=1\nexport HSA_OVERRIDE_GFX_VERSION=11.5.1\nB=\"x y\"\n"),
        (
            "requirements.txt",
            "torch==2.11.0+rocm7.14.0 ; python_version > \"3.11\" # a\nvllm[audio]\n-r a\n",
        ),
        (
            "x.sh",
            "#!/bin/bash\nset -e\nA=$(uname -r)\npip install \"torch==$B\" && docker run -e C=1 docker.io/a/b:c <<EOF\nx\nEOF\n",
        ),
    ];
    let inputs = files.map(|(name, text)| format!("{name}\0{text}").into_bytes()).into();
    let (mut found, mut runs) = (0, 0);
    fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0040 }, |bytes, _| {
        runs += 1;
        let whole = String::from_utf8_lossy(&bytes);
        let Some((name, text)) = whole.split_once('\0') else { return };
        let facts = Facts::read(name, text);
        // In YAML, a lone carriage return ends a line too.
        let lines = text.replace("\r\n", "\n").split(['\n', '\r']).count();
        let settings = facts.settings.iter().map(|one| one.line);
        let images = facts.images.iter().map(|one| one.line);
        let packages = facts.packages.iter().map(|one| one.line);
        let missing = facts.missing.iter().map(|one| one.line);
        let all: Vec<usize> = settings.chain(images).chain(packages).chain(missing).collect();
        assert!(all.iter().all(|line| (1..=lines).contains(line)), "{all:?}: {text}");
        found += usize::from(!all.is_empty() && facts.kind != Kind::Text);
    });
    assert!(found * 4 > runs, "there were findings in only {found} of {runs}");
}
