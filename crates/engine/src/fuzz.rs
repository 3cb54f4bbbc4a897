//! Fuzzes the build output of engines, and the Dockerfiles that it is compared with.

use testkit::{Corpus, fuzz_some};

use crate::LINE_CAP;
use crate::dockerfile::{instructions, without_cache_mounts};
use crate::engine::DIALECTS;
use crate::portable::{check_dockerfile, has_health_check, portable_dockerfile, unclear_owners};
use crate::records::RecordReader;
use crate::transcript::{BuildEvent, Transcript};

const DOCKERFILE: &str =
    "FROM ${BASE} AS one\nRUN x \\\n  y\nFROM one\nCOPY --from=one a b\nRUN y\n";

/// Byte sequences that are significant in streams.
const STREAM_WORDS: [&[u8]; 22] = [
    b"\n",
    b"\r\n",
    b"\\n",
    b"\\r",
    b"\"",
    b"{",
    b"}",
    b"\0",
    b"\xff",
    b"\\ud800",
    b"\\u001b[2J",
    b"{\"stream\":\"",
    b"{\"error\":\"",
    b"{\"aux\":{\"ID\":\"sha256:",
    b"{\"aux\":\"",
    b"STEP 2/3: ",
    b"Step 99999999999/3 : ",
    b"[stage-1 3/3] ",
    b"exit status 7",
    b"no space left on device",
    b"----",
    b"AAAA",
];

/// Returns streams as podman, docker's classic builder and BuildKit send them.
fn streams() -> Vec<Vec<u8>> {
    let id = "a".repeat(64);
    let podman = format!(
        "{{\"stream\":\"STEP 1/3: FROM base AS one\\n\"}}\n{{\"stream\":\"STEP 2/3: RUN x y\\n\"}}\r\n{{\"stream\":\"10%\\r50%\\r\"}}\n{{\"stream\":\"{id}\\n\"}}\n"
    );
    let classic = format!(
        "{{\"stream\":\"Step 1/3 : FROM base\"}}\n{{\"stream\":\"\\u001b[91mred\\n\\u001b[0m\"}}\n{{\"aux\":{{\"ID\":\"sha256:{id}\"}}}}\n{{\"stream\":\"Successfully built\\n\"}}\n"
    );
    let failed = "{\"stream\":\"STEP 3/3: RUN y\\n\"}\n{\"errorDetail\":{\"message\":\"building at STEP \\\"RUN y\\\": while running runtime: exit status 7\"},\"error\":\"worse\"}\n";
    // Sent by dockerd 20.10.24 for `RUN echo hello; printf "no newline"; exit 7`.
    let buildkit = "{\"id\":\"moby.buildkit.trace\",\"aux\":\"GmsKR3NoYTI1Njo0NWFhN2FlNTRlMmUyYjExMGIzMTFjMTVhMDNhMjhkMGVlODVlYWM2Njg4Njc5YjQ3OGQzNzkxNWI2YjE1OGE2EgwI6+CH2AYQq7yC9AIYASIQaGVsbG8Kbm8gbmV3bGluZQ==\"}\n{\"error\":\"process \\\"/bin/sh -c y\\\" did not complete successfully: exit code: 7\"}\n";
    [podman.as_str(), &classic, failed, buildkit].map(|text| text.as_bytes().to_vec()).into()
}

#[test]
fn fuzzed_streams_never_succeed_without_an_image() {
    let (mut good, mut runs) = (0, 0);
    let corpus = Corpus { inputs: streams(), words: &STREAM_WORDS, seed: 0x5eed_0030 };
    fuzz_some(&corpus, |bytes, random| {
        runs += 1;
        let cut = random.below(bytes.len() + 1);
        for dialect in DIALECTS {
            let (mut reader, mut pieces) = (RecordReader::default(), Vec::new());
            let mut take = |piece| pieces.push(piece);
            let read = [&bytes[..cut], &bytes[cut..]]
                .iter()
                .try_for_each(|part| reader.push(part, &mut take))
                .and_then(|()| reader.finish(&mut take));
            let mut transcript = Transcript::new(dialect, DOCKERFILE);
            let mut emit = |event| match event {
                BuildEvent::Line(line) => {
                    assert!(line.text.len() <= 3 * LINE_CAP && !line.text.contains('\n'));
                }
                BuildEvent::Step(step) => assert!(step.line.is_none_or(|line| line <= 6)),
            };
            pieces.into_iter().for_each(|piece| transcript.read(piece, &mut emit));
            if let (Ok(()), Ok(id)) = (read, transcript.finish(&mut emit)) {
                good += 1;
                let is_named = bytes.windows(id.len()).any(|window| window == id.as_bytes());
                assert!(
                    is_named || id.contains(['\u{fffd}', '\\']) || bytes.contains(&b'\\'),
                    "{id}"
                );
            }
        }
    });
    assert!(good * 20 > runs, "only {good} of {runs} got through");
}

#[test]
fn fuzzed_dockerfiles_keep_their_lines() {
    const WORDS: [&[u8]; 24] = [
        b"\n",
        b"\\\n",
        b"`\n",
        b"\r\n",
        b"#",
        b"# escape=`\n",
        b" <<EOF\n",
        b"\nEOF\n",
        b" <<-'E F'\n",
        b"RUN ",
        b"RUN --mount=type=cache,target=/c ",
        b"SHELL [\"a\",\"b\"]\n",
        b"CMD x\n",
        b"ENTRYPOINT x\n",
        b"VOLUME /v\n",
        b"USER app\n",
        b"WORKDIR /w\n",
        b"HEALTHCHECK CMD x\n",
        b"EXPOSE 80:80\n",
        b"\nFROM one\n",
        b"$",
        b"\"",
        b"\t",
        b"\xc3\xbc",
    ];
    let inputs = [
        DOCKERFILE,
        "# escape=`\nFROM a\nRUN x `\n y\nSHELL [\"/bin/bash\", \"-c\"]\nCMD a\nHEALTHCHECK CMD b\n",
        "FROM a\nRUN <<EOF\nb\nEOF\nRUN --mount=type=cache,target=/x y\nUSER app\nWORKDIR /w\nEXPOSE 80\n",
    ];
    let inputs = inputs.map(|text| text.as_bytes().to_vec()).into();
    let (mut good, mut runs) = (0, 0);
    fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0031 }, |bytes, _| {
        runs += 1;
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().count();
        let found = instructions(&text);
        for one in &found {
            assert!(1 <= one.line && one.line <= one.last && one.last <= lines, "{text}");
        }
        let is_ordered = found.is_sorted_by(|one, next| one.last < next.line);
        assert!(is_ordered, "{text}");
        good += usize::from(check_dockerfile(&text).is_ok());
        assert!(unclear_owners(&text, true).iter().all(|line| *line <= lines), "{text}");
        let written = portable_dockerfile(&text, Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]));
        assert_eq!(written.lines().count(), lines, "{text}");
        // The number of lines stays the same, and normalising twice gives the same text.
        assert!(portable_dockerfile(&written, None).lines().eq(written.lines()), "{text}");
        assert_eq!(has_health_check(&written), has_health_check(&text), "{text}");
        without_cache_mounts(&text);
    });
    assert!(good * 10 > runs, "only {good} of {runs} got through");
}
