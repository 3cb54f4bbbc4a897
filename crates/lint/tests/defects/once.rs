//! One defect is one finding, and each finding says something that matters in its file.

use lint::{Context, Exists, Finding};

use super::{NONE, expect};
use crate::{findings_in, merged};

/// Returns the findings of a rule as the line, the other lines and the message.
fn of(rule: &str, file: &str, text: &str) -> Vec<(usize, Vec<usize>, String)> {
    let found = merged(file, text, Context::default());
    let own = found.into_iter().filter(|one| one.rule.id == rule);
    own.map(|one: Finding| (one.line, one.also, one.message)).collect()
}

/// Returns the line of each finding of a rule, with the other lines that it names.
fn lines(rule: &str, file: &str, text: &str) -> Vec<(usize, Vec<usize>)> {
    of(rule, file, text).into_iter().map(|(line, also, _)| (line, also)).collect()
}

#[test]
fn the_same_subject_is_one_finding_that_names_the_other_lines() {
    let base = "FROM docker.io/a/b@sha256:1\n";
    let clones = format!(
        "{base}RUN git clone https://h.example/a /a\nRUN git clone https://h.example/a /b\nRUN git clone https://h.example/c /c\n"
    );
    assert_eq!(lines("clone-unpinned", "Dockerfile", &clones), [(2, vec![3, 4])]);
    let packages = format!("{base}RUN pip install torch\nRUN pip install vllm\n");
    assert_eq!(lines("index-unpinned", "Dockerfile", &packages), [(2, vec![3])]);
    let images =
        "services:\n  a:\n    image: docker.io/a/b:latest\n  c:\n    image: docker.io/a/b:latest\n";
    assert_eq!(lines("image-latest", "compose.yml", images), [(3, vec![5])]);
    // The same mistake in several images is one remark; another mistake is another one.
    let tags = "services:\n  a:\n    image: docker.io/a/b:${TAG:-latest}\n  c:\n    image: docker.io/a/c:latest\n  d:\n    image: docker.io/a/d:alpha\n";
    assert_eq!(lines("image-latest", "compose.yml", tags), [(3, vec![5])]);
    assert_eq!(lines("image-unpinned", "compose.yml", tags), [(7, vec![])]);
    let downloads = format!(
        "{base}RUN curl -O https://h.example/a.deb\nRUN curl -O https://h.example/b.deb\nRUN curl https://h.example/c.sh | bash\n"
    );
    let found = lines("download-unchecked", "Dockerfile", &downloads);
    assert_eq!(found, [(2, vec![3]), (4, vec![])]);
}

/// The sentences differ only in a value, so one of them names the values of all.
#[test]
fn a_finding_names_the_values_of_the_others() {
    let said = |rule: &str, file: &str, text: &str| -> Vec<String> {
        of(rule, file, text).into_iter().map(|(_, _, message)| message).collect()
    };
    let run = "docker run -d --device=/dev/kfd --device=/dev/dri --security-opt seccomp=unconfined --cap-add=SYS_PTRACE docker.io/rocm/pytorch:latest python3 serve.py\n";
    let found = said("container-unconfined", "a.sh", run);
    assert_eq!(found.len(), 1, "{found:?}");
    for option in ["seccomp=unconfined`", "`--cap-add=SYS_PTRACE`"] {
        assert!(found[0].contains(option), "{found:?}");
    }
    let many: String =
        (1..=7).map(|number| format!("git -C a checkout $P{number}_TAG\n")).collect();
    let found = said("undefined-pin", "a.sh", &format!("OWN_TAG=1\n{many}"));
    let all = "`P1_TAG` is used, but not defined (also `P2_TAG`, `P3_TAG`, `P4_TAG`, `P5_TAG` and 2 more)";
    assert_eq!(found, [all]);
    // Each error is told in full.
    let missing = "FROM docker.io/library/ubuntu@sha256:1\nRUN cmake . && ninja\n";
    assert_eq!(said("program-missing", "Dockerfile", missing).len(), 2);
}

#[test]
fn a_comment_describes_the_code_below_it() {
    let url = "https://repo.radeon.com/rocm/apt/6.2";
    let text = format!(
        "# gfx1151\n# ROCm 6.2 is recommended\nFROM docker.io/a/b@sha256:1\nRUN echo 'deb {url} noble main' > /etc/apt/sources.list.d/a.list\n"
    );
    assert_eq!(lines("rocm-too-old", "Dockerfile", &text), [(4, vec![])]);
    let only = "# gfx1151\n# ROCm 6.2 is recommended\nFROM docker.io/a/b@sha256:1\n";
    assert_eq!(lines("rocm-too-old", "Dockerfile", only), [(2, vec![])]);
}

#[test]
fn a_finding_that_says_more_replaces_the_other_one() {
    let moved = "services:\n  a:\n    image: docker.io/ankane/pgvector:latest\n";
    assert_eq!(lines("image-moved", "compose.yml", moved).len(), 1);
    assert_eq!(lines("image-latest", "compose.yml", moved), []);
    // On another line, both are defects.
    let two = format!("{moved}  b:\n    image: docker.io/a/b:latest\n");
    assert_eq!(lines("image-latest", "compose.yml", &two), [(5, vec![])]);
}

#[test]
fn no_rules_yield_to_each_other() {
    let names: Vec<&lint::Rule> = lint::rules().iter().collect();
    for one in &names {
        for better in &one.yields_to {
            let exists = names.iter().any(|rule| {
                better
                    .strip_suffix('*')
                    .map_or(rule.id == *better, |start| rule.id.starts_with(start))
            });
            assert!(exists, "{} yields to {better}, which does not exist", one.id);
            let other = names.iter().find(|rule| rule.id == *better);
            let is_mutual = other.is_some_and(|rule| rule.yields_to.contains(&one.id));
            assert!(!is_mutual, "{} and {better}", one.id);
        }
    }
}

#[test]
fn a_variable_that_nothing_reads_says_nothing() {
    let base = "FROM docker.io/rocm/dev-ubuntu-22.04:7.2.4@sha256:1\n";
    let unread = format!("{base}ENV ROCM_VERSION=5.7\nRUN echo hello\n");
    let read = format!("{base}ARG ROCM_VERSION=5.7\nRUN curl -O https://h.example/$ROCM_VERSION\n");
    let passed = format!("{base}ENV ROCM_VERSION=5.7\nCOPY a.sh /\nRUN bash /a.sh\n");
    expect(
        "rocm-outdated",
        NONE,
        &[
            ("Dockerfile", &unread, &[]),
            ("Dockerfile", &read, &["2 information"]),
            ("Dockerfile", &passed, &["2 information"]),
            (
                "compose.yml",
                "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    environment:\n      - ONNXRUNTIME_ROCM_VERSION=5.7\n",
                &[],
            ),
        ],
    );
    let url = "https://repo.radeon.com/amdgpu/latest/ubuntu";
    let script = format!("#!/bin/bash\nset -e\nURL={url}\nsudo apt-get update\n");
    let used = format!("{script}echo \"deb $URL noble main\" | sudo tee /etc/apt/a.list\n");
    let sourced = format!("{script}. ./rest.sh\n");
    expect("rocm-latest", NONE, &[("a.sh", &script, &[])]);
    assert_eq!(lines("rocm-latest", "a.sh", &used).len(), 1);
    assert_eq!(lines("rocm-latest", "a.sh", &sourced).len(), 1);
    // The override of a GPU is for programs, although no line of the file uses it.
    let own = format!("{base}ENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n");
    expect("hsa-override-any-gpu", NONE, &[("Dockerfile", &own, &["2 information"])]);
}

#[test]
fn a_release_written_twice_matters_only_if_something_reads_both() {
    let base = "FROM docker.io/rocm/dev-ubuntu-22.04:7.2.4@sha256:1\n";
    let unread = format!("{base}ENV ROCM_VERSION=7.2.4\nRUN echo hello\n");
    let read = format!("{base}ENV ROCM_VERSION=7.2.4\nRUN echo $ROCM_VERSION > /a\n");
    expect("release-repeated", NONE, &[("Dockerfile", &unread, &[])]);
    expect("release-repeated", NONE, &[("Dockerfile", &read, &["2 information"])]);
}

#[test]
fn a_letter_after_the_number_is_part_of_the_name_of_a_gpu() {
    let text = |gpu: &str, version: &str| {
        format!(
            "# For the {gpu}\nFROM docker.io/a/b@sha256:1\nENV HSA_OVERRIDE_GFX_VERSION={version}\n"
        )
    };
    let own = ["3 information"];
    for (gpu, version, expected) in [
        ("RX 6800", "10.3.0", &own[..]),
        ("RX 6800 XT", "10.3.0", &own),
        ("RX6800M", "10.3.0", &[]),
        ("RX6800M", "10.3.1", &own),
        ("RX 6700S", "10.3.2", &own),
    ] {
        expect("hsa-override-identity", NONE, &[("Dockerfile", &text(gpu, version), expected)]);
    }
}

#[test]
fn a_machine_with_several_gpus_may_bind_memory_to_nodes() {
    let run = |rest: &str| {
        format!(
            "docker run --device=/dev/kfd --device=/dev/dri --cap-add=SYS_ADMIN --security-opt seccomp=unconfined {rest}\n"
        )
    };
    let one = run("docker.io/a/b@sha256:1 ./a");
    let two = run("docker.io/a/b@sha256:1 vllm serve a --tensor-parallel-size 2");
    let single = run("docker.io/a/b@sha256:1 vllm serve a --tensor-parallel-size 1");
    let chosen = run("-e HIP_VISIBLE_DEVICES=0,1 docker.io/a/b@sha256:1 ./a");
    let server = format!("# 8 x MI300X\nGPU=MI300X\n{one}");
    for (text, count) in [(&one, 1), (&two, 0), (&single, 1), (&chosen, 0), (&server, 0)] {
        assert_eq!(lines("container-unconfined", "a.sh", text).len(), count, "{text}");
    }
}

#[test]
fn servers_of_hugging_face_read_the_old_name() {
    let cache = "ENV HUGGINGFACE_HUB_CACHE=/data\n";
    let server = format!("FROM docker.io/a/b@sha256:1\n{cache}CMD [\"text-embeddings-router\"]\n");
    let other = format!("FROM docker.io/a/b@sha256:1\n{cache}CMD [\"python3\", \"a.py\"]\n");
    expect("variable-renamed", NONE, &[("Dockerfile", &server, &[])]);
    expect("variable-renamed", NONE, &[("Dockerfile", &other, &["2 information"])]);
}

#[test]
fn a_script_that_uses_several_pins_gets_them_from_its_caller() {
    let one = "git clone https://h.example/a && git -C a checkout $A_COMMIT\n";
    let several = format!("{one}echo $B_VERSION $C_TAG\n");
    let own = format!("D_VERSION=1\n{several}");
    for (text, count) in [(one.to_owned(), 1), (several, 0), (own, 1)] {
        assert_eq!(lines("undefined-pin", "a.sh", &text).len(), count, "{text}");
    }
}

#[test]
fn a_test_may_use_what_is_newest() {
    let text = "git clone https://h.example/a\n";
    assert_eq!(lines("clone-unpinned", "scripts/build.sh", text).len(), 1);
    assert_eq!(lines("clone-unpinned", "a/tests/build.sh", text), []);
    // The name of the file itself, or of an image, is not a folder.
    assert_eq!(lines("clone-unpinned", "a/tests.sh", text).len(), 1);
    let image = "FROM docker.io/a/b:latest\n";
    assert_eq!(lines("image-latest", "tests/Dockerfile", image).len(), 1);
}

/// A folder with a Dockerfile, in a repository whose name tells the GPU.
#[derive(Debug)]
struct Folder;

impl Exists for Folder {
    fn compose_files(&self, _: &str) -> Vec<String> {
        vec!["services:\n  a:\n    image: docker.io/a/b@sha256:1\n".to_owned()]
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        match path {
            "Dockerfile" => Some("FROM docker.io/a/b@sha256:1\nCOPY keys.sh /\n".to_owned()),
            "compose.yml" => {
                Some("services:\n  b:\n    image: docker.io/a/b@sha256:1\n".to_owned())
            }
            _ => None,
        }
    }

    fn place(&self, file: &str) -> Option<String> {
        Some(format!("strix-halo-llm/{file}"))
    }
}

/// Returns the lines of a rule's findings in a file of the folder.
fn in_folder(rule: &str, file: &str, text: &str) -> Vec<usize> {
    let context = Context { exists: Some(&Folder), ..Context::default() };
    let found = findings_in(file, text, context);
    found.iter().filter(|one| one.rule.id == rule).map(|one| one.line).collect()
}

#[test]
fn the_name_of_the_repository_can_tell_the_gpu() {
    let text = "FROM docker.io/a/b@sha256:1\nENV HSA_OVERRIDE_GFX_VERSION=11.5.1 GGML_CUDA_ENABLE_UNIFIED_MEMORY=1\n";
    assert_eq!(in_folder("hsa-override-any-gpu", "Dockerfile", text), [0; 0]);
    assert_eq!(in_folder("hsa-override-identity", "Dockerfile", text), [2]);
    assert_eq!(in_folder("workaround-baked", "Dockerfile", text), [0; 0]);
    // The file itself says it better.
    let other = format!("# RX 6600\n{text}");
    assert_eq!(in_folder("hsa-override-identity", "Dockerfile", &other), [0; 0]);
}

#[test]
fn the_build_of_an_image_has_no_old_key() {
    let text = "curl https://h.example/a.key | gpg --dearmor -o /usr/share/keyrings/a.gpg\n";
    assert_eq!(in_folder("build-waits", "keys.sh", text), [0; 0]);
    assert_eq!(in_folder("build-waits", "other.sh", text), [1]);
}

#[test]
fn another_compose_file_of_the_folder_may_complete_a_service() {
    let text = "services:\n  a:\n    environment: [A=1]\n  c:\n    environment: [A=1]\n";
    assert_eq!(in_folder("compose-reference", "compose.gpu.yml", text), [4]);
}

#[test]
fn a_file_for_a_product_does_not_imitate_it() {
    let own = "# RX 580, gfx803; gfx900 is another one\nFROM docker.io/a/b@sha256:1\nENV HSA_OVERRIDE_GFX_VERSION=8.0.3\n";
    expect("hsa-override-other", NONE, &[("Dockerfile", own, &[])]);
    let other = "# RX 9070\nFROM docker.io/a/b@sha256:1\nENV HSA_OVERRIDE_GFX_VERSION=8.0.3\n";
    expect("hsa-override-other", NONE, &[("Dockerfile", other, &["3 error"])]);
}
