//! What images, units and distributions contain, and files that are read together.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

#[test]
fn a_program_is_missing_only_if_nothing_can_have_brought_it() {
    let ubuntu = "FROM docker.io/library/ubuntu:24.04@sha256:1\n";
    let clone = "RUN git clone https://h.example/a /a\n";
    for (before, expected) in [
        ("", &["2 error"][..]),
        ("RUN apt-get update && apt-get install -y curl\n", &["3 error"]),
        ("RUN apt-get update && apt-get install -y curl git=1:2\n", &[]),
        ("RUN apt-get update && apt-get install -y unknown-package\n", &[]),
        ("RUN apt-get update && apt-get install -y $PACKAGES\n", &[]),
        ("COPY --from=a /usr/local /usr/local\n", &[]),
        ("COPY --from=a /git /usr/bin/git\n", &[]),
        ("COPY setup.sh /\nRUN /setup.sh\n", &[]),
        ("RUN ln -s /opt/git /usr/bin/git\n", &[]),
        ("RUN <<END\napt-get install -y git\nEND\n", &[]),
        ("COPY rootfs/ /\n", &[]),
        ("COPY bin/git /usr/local/bin/\n", &[]),
        ("COPY --from=a /app/.venv /app/.venv\n", &[]),
        ("COPY --from=a /app/r.txt /app/\n", &["3 error"]),
        ("COPY . /app\n", &["3 error"]),
        ("RUN apt-get update && apt-get install -y gh\n", &[]),
        ("RUN pyenv install 3.12\n", &[]),
        ("RUN mkdir -p /a && cd /a && echo b > c\n", &["3 error"]),
        ("RUN --mount=type=bind,from=a,target=/usr/local true\n", &[]),
    ] {
        let text = format!("{ubuntu}{before}{clone}");
        expect("program-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
    for (run, expected) in [
        ("RUN if [ -n \"$A\" ]; then git clone https://h.example/a; fi\n", &[][..]),
        ("RUN command -v git && git clone https://h.example/a\n", &[]),
        ("RUN git clone https://h.example/a || true\n", &[]),
        ("RUN git describe || echo unknown\n", &[]),
        (
            "RUN curl -o get-pip.py https://h.example && python3 get-pip.py && pip3 install a\n",
            &["2 error", "2 error"],
        ),
        ("RUN apt-key adv --recv-keys A\n", &["2 error"]),
        ("RUN add-apt-repository ppa:a/b\n", &["2 error"]),
        ("RUN pip install a==1\n", &["2 error"]),
        (
            "RUN apt-get install -y python3-venv && python3 -m venv /v && python -m pip install a\n",
            &[],
        ),
        ("RUN apt-get install -y python3-minimal && python a.py\n", &["2 error"]),
        ("COPY --from=b /install /usr/local\nRUN python a.py\n", &[]),
        ("COPY --from=b /app/bin/server /usr/local/bin/\nRUN python a.py\n", &["3 error"]),
        ("RUN ps aux\n", &[]),
    ] {
        let text = format!("{ubuntu}{run}");
        expect("program-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
    let whole = format!("FROM docker.io/library/python:3.12@sha256:1\n{clone}");
    let slim = format!("FROM docker.io/library/python:3.12-slim@sha256:1\n{clone}");
    expect(
        "program-missing",
        NONE,
        &[("Dockerfile", &whole, &[]), ("Dockerfile", &slim, &["2 error"])],
    );
}

#[test]
fn a_health_check_needs_programs_of_the_image() {
    let check = "HEALTHCHECK CMD pgrep -f python || exit 1\n";
    for (base, before, expected) in [
        ("python:3.11-slim", "", &["2 warning"][..]),
        ("python:3.11-slim", "RUN apt-get update && apt-get install -y procps\n", &[]),
        ("ubuntu:24.04", "", &[]),
        ("a/b:1", "", &[]),
    ] {
        let text = format!("FROM docker.io/{base}@sha256:1\n{before}{check}");
        expect("healthcheck-fails", NONE, &[("Dockerfile", &text, expected)]);
    }
    for (test, expected) in [
        ("[\"CMD\", \"curl\", \"-f\", \"http://localhost:11434\"]", &["5 warning"][..]),
        ("[\"CMD-SHELL\", \"bash -c 'echo > /dev/tcp/localhost/11434'\"]", &[]),
        ("[\"CMD\", \"ollama\", \"list\"]", &[]),
    ] {
        let text = format!(
            "services:\n  a:\n    image: docker.io/ollama/ollama:rocm\n    healthcheck:\n      test: {test}\n"
        );
        expect("healthcheck-fails", NONE, &[("compose.yml", &text, expected)]);
    }
}

#[test]
fn a_user_exists_only_in_images_that_have_one() {
    for (base, run, expected) in [
        ("ubuntu:24.04", "useradd --uid=1000 app", &["2 error"][..]),
        ("ubuntu:24.04", "groupadd -g 1000 app", &["2 error"]),
        ("ubuntu:24.04", "useradd -u 1001 app", &[]),
        ("ubuntu:24.04", "userdel -r ubuntu && useradd -u 1000 app", &[]),
        ("ubuntu:24.04", "useradd -o -u 1000 app", &[]),
        ("ubuntu:24.04", "groupadd -f -g 1000 app", &[]),
        ("ubuntu:24.04", "sed -i /ubuntu/d /etc/passwd && useradd -u 1000 app", &[]),
        ("ubuntu:22.04", "useradd -u 1000 app", &[]),
        ("node:22-slim", "adduser --uid 1000 app", &["2 error"]),
    ] {
        let text = format!("FROM docker.io/library/{base}@sha256:1\nRUN {run}\n");
        expect("user-exists", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn tags_that_exist_are_not_reported() {
    for image in [
        "ollama/ollama:0.30.0-rocm",
        "ollama/ollama:rocm",
        "rocm/dev-ubuntu-22.04:6.2.4-complete",
        "rocm/dev-ubuntu-24.04:7.14.0-full",
        "rocm/pytorch:rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.9.1",
        "rocm/pytorch:latest",
        "rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210",
        "vllm/vllm-openai-rocm:v0.20.0",
        "ggml-org/llama.cpp:server-rocm-b9917",
        "open-webui/open-webui:main",
        "lmsysorg/sglang:rocm-latest",
        "localai/localai:latest-gpu-hipblas",
        "rocm/jax:latest",
    ] {
        let text = format!("FROM {image}\n");
        expect("image-tag-missing", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn a_unit_may_protect_what_its_program_does_not_need() {
    let unit = |lines: &str| format!("[Service]\nExecStart=/usr/bin/ollama serve\n{lines}");
    for (lines, expected) in [
        ("DeviceAllow=char-drm rw\nDeviceAllow=/dev/kfd rw\nDevicePolicy=closed\n", &[][..]),
        ("PrivateDevices=no\n", &[]),
        ("DevicePolicy=closed\n", &["3 warning"]),
        ("PrivateDevices=yes\n", &["3 warning"]),
    ] {
        expect("unit-hides-gpu", NONE, &[("a.service", &unit(lines), expected)]);
    }
    for (lines, expected) in [
        ("ProtectHome=true\n", &[][..]),
        ("ProtectHome=read-only\nWorkingDirectory=/home/u\n", &[]),
        ("ReadWritePaths=-/srv/a /var\n", &[]),
        ("ReadWritePaths=/srv/a\n", &["3 information"]),
        ("CacheDirectory=a\nReadWritePaths=/var/cache/a\n", &[]),
    ] {
        expect("unit-hides-folder", NONE, &[("a.service", &unit(lines), expected)]);
    }
    let other = "[Unit]\nAfter=ollama.service\n[Service]\nExecStart=/usr/bin/ship\nEnvironment=OLLAMA_BASE_URL=http://a\nPrivateDevices=yes\n";
    expect("unit-hides-gpu", NONE, &[("a.service", other, &[])]);
}

#[test]
fn libraries_can_be_linked_statically_or_copied() {
    let build = |options: &str| {
        format!(
            "FROM a/b@sha256:1 AS build\nRUN cmake -B build -DGGML_HIP=ON {options}\nFROM a/c@sha256:1\n"
        )
    };
    let program = "COPY --from=build /build/bin/llama-server /usr/bin/\n";
    let libraries = "COPY --from=build /build/bin/*.so /usr/lib/\n";
    for (text, expected) in [
        (format!("{}{program}", build("")), &["4 error"][..]),
        (format!("{}{program}", build("-DBUILD_SHARED_LIBS=OFF")), &[]),
        (format!("{}{program}{libraries}", build("")), &[]),
        (format!("{}COPY --from=build /build/bin /app\n", build("")), &[]),
        (format!("{}{program}", build("-DBUILD_SHARED_LIBS:BOOL=OFF")), &[]),
        (
            format!(
                "{} AS base\nCOPY --from=build /lib/ /app\nFROM base\n{program}",
                build("").trim_end()
            ),
            &[],
        ),
    ] {
        expect("library-not-copied", NONE, &[("Dockerfile", &text, expected)]);
    }
}

/// A folder with files.
#[derive(Debug)]
struct Files(&'static [(&'static str, &'static str)]);

impl Exists for Files {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        let path = path.trim_start_matches("./");
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }
}

/// Returns the findings of a file beside others as `LINE RULE`.
fn beside(files: &'static [(&'static str, &'static str)], file: &str, text: &str) -> Vec<String> {
    let exists = Files(files);
    let context = Context { exists: Some(&exists), ..Context::default() };
    let found = findings_in(file, text, context);
    found.iter().map(|one| format!("{} {}", one.line, one.rule.id)).collect()
}

const NVIDIA: &str = "services:\n  ollama:\n    image: ollama/ollama:latest\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n              count: all\n              capabilities: [gpu]\n  server:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda\n    runtime: nvidia\n";

#[test]
fn an_override_is_read_together_with_its_base() {
    let rocm = "services:\n  ollama:\n    devices: [/dev/kfd, /dev/dri]\n";
    let found = beside(&[("docker-compose.yml", NVIDIA)], "docker-compose.rocm.yml", rocm);
    for expected in ["2 nvidia-leftover", "2 ollama-without-rocm", "1 nvidia-leftover"] {
        assert!(found.iter().any(|one| one == expected), "{expected}: {found:?}");
    }
    let exists = Files(&[("docker-compose.yml", NVIDIA)]);
    let context = Context { exists: Some(&exists), ..Context::default() };
    let all = findings_in("docker-compose.rocm.yml", rocm, context);
    let from_base =
        "`--device-driver=nvidia` is set for a container with an AMD GPU (from the base file)";
    assert!(all.iter().any(|one| one.message == from_base), "{all:#?}");
    let reset = "services:\n  ollama:\n    image: ollama/ollama:0.30.0-rocm\n    deploy: !reset null\n    devices: [/dev/kfd, /dev/dri]\n";
    let found = beside(&[("docker-compose.yml", NVIDIA)], "docker-compose.rocm.yml", reset);
    assert!(!found.iter().any(|one| one.ends_with("nvidia-leftover")), "{found:?}");
    // The base file gives the devices.
    let image = "services:\n  a:\n    image: docker.io/rocm/vllm@sha256:1\n";
    let found = beside(
        &[("compose.yaml", "services:\n  a:\n    build: .\n    devices: [/dev/kfd]\n")],
        "compose.override.yaml",
        image,
    );
    assert!(!found.iter().any(|one| one.ends_with("kfd-missing")), "{found:?}");
}

#[test]
fn a_part_of_a_service_needs_the_rest_in_the_base() {
    let text = "services:\n  olama:\n    devices: [/dev/kfd]\n";
    let found = beside(&[("docker-compose.yml", NVIDIA)], "docker-compose.amd.yml", text);
    assert!(found.iter().any(|one| one == "2 compose-reference"), "{found:?}");
    // Without a base file, nothing is known.
    let found = beside(&[], "docker-compose.amd.yml", text);
    assert!(!found.iter().any(|one| one.ends_with("compose-reference")), "{found:?}");
}

#[test]
fn lists_of_requirements_are_read_with_the_dockerfile() {
    let text = "FROM docker.io/rocm/pytorch@sha256:1\nCOPY r.txt .\nRUN pip install -r r.txt\n";
    let found = beside(
        &[("r.txt", "--index-url https://download.pytorch.org/whl/rocm6.4\ntorch==2.8.0\n")],
        "Dockerfile",
        text,
    );
    assert!(found.iter().any(|one| one == "3 rocm-twice"), "{found:?}");
    let found = beside(&[("r.txt", "numpy==2.0\n")], "Dockerfile", text);
    assert!(!found.iter().any(|one| one.ends_with("rocm-twice")), "{found:?}");
}

#[test]
fn package_lists_are_new_old_or_missing() {
    let ubuntu = "FROM docker.io/library/ubuntu:24.04@sha256:1\n";
    let update = "RUN apt-get update && apt-get install -y git\n";
    let install = "RUN apt-get install -y curl\n";
    for (text, expected) in [
        (format!("{ubuntu}{install}"), &["2 error"][..]),
        (format!("{ubuntu}RUN apt-get update && apt-get install -y curl\n"), &[]),
        (format!("{ubuntu}RUN apt-get install -y ./a.deb\n"), &[]),
        (format!("{ubuntu}COPY a.sh /\nRUN /a.sh\n{install}"), &[]),
        (format!("{ubuntu}RUN --mount=type=cache,target=/var/lib/apt apt-get install -y a\n"), &[]),
        (format!("FROM a/b:1\n{install}"), &["2 warning"]),
        (format!("{ubuntu}RUN apt-get install --update -y curl\n"), &[]),
        (format!("ARG BASE=ubuntu:24.04\nFROM $BASE\n{install}"), &[]),
        (format!("FROM a/b:1\nRUN rm -rf /var/lib/apt/lists/*\n{install}"), &["3 error"]),
    ] {
        expect("package-lists-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
    for (text, expected) in [
        (format!("{ubuntu}{update}{install}{install}"), &["3 information"][..]),
        (format!("{ubuntu}{update}RUN apt-get update && apt-get install -y curl\n"), &[]),
    ] {
        expect("package-lists-stale", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_package_may_get_what_it_needs() {
    let slim = "FROM docker.io/library/python:3.12-slim@sha256:1\n";
    for (run, expected) in [
        ("RUN pip install pytesseract==1\n", &["2 warning"][..]),
        (
            "RUN apt-get update && apt-get install -y tesseract-ocr && pip install pytesseract==1\n",
            &[],
        ),
        ("RUN ./a.sh && pip install pytesseract==1\n", &[]),
        ("RUN pip install opencv-python-headless==1\n", &[]),
    ] {
        let text = format!("{slim}{run}");
        expect("package-needs-program", NONE, &[("Dockerfile", &text, expected)]);
        let other = format!("FROM docker.io/a/b@sha256:1\n{run}");
        expect("package-needs-program", NONE, &[("Dockerfile", &other, &[])]);
    }
}

#[test]
fn a_user_can_be_used_in_many_ways() {
    let image = "FROM docker.io/a/b@sha256:1\nRUN useradd -m app\n";
    for (rest, expected) in [
        ("CMD [\"a\"]\n", &["2 information"][..]),
        ("USER app\nCMD [\"a\"]\n", &[]),
        ("ENTRYPOINT [\"/entrypoint.sh\"]\n", &[]),
        ("CMD [\"gosu\", \"app\", \"a\"]\n", &[]),
    ] {
        let text = format!("{image}{rest}");
        expect("user-unused", NONE, &[("Dockerfile", &text, expected)]);
    }
    let unit = |rest: &str, end: &str| {
        format!(
            "[Unit]\n[Service]\nExecStart=/usr/bin/ollama serve\n{rest}[Install]\nWantedBy={end}\n"
        )
    };
    for (rest, end, expected) in [
        ("", "multi-user.target", &["3 information"][..]),
        ("User=ollama\n", "multi-user.target", &[]),
        ("DynamicUser=yes\n", "multi-user.target", &[]),
        ("", "default.target", &[]),
    ] {
        expect("user-unused", NONE, &[("a.service", &unit(rest, end), expected)]);
    }
}

#[test]
fn yaml_is_checked_only_in_files_that_are_no_templates() {
    let wrong = "services:\n  a:\n    image: a\n   b: 1\n";
    let template = "services:\n  a:\n    image: {{ a }}\n   b: 1\n";
    let brackets = "services:\n  a:\n    command: [\n      a\n    ]\n";
    let right = "services:\n  a:\n    image: \"a\"\n    command: |\n      a: [\n";
    expect(
        "yaml-invalid",
        NONE,
        &[
            ("compose.yml", wrong, &["4 error"]),
            ("compose.yml", template, &[]),
            ("compose.yml", right, &[]),
            ("compose.yml", brackets, &[]),
            ("compose.yml", "services:\n\ta:\n\t\timage: b\n", &["2 error"]),
            ("compose.yml", "services:\n  a:\n    image: \"b\n", &["3 error"]),
            ("compose.yml", "services:\n  a: [\n", &["3 error"]),
            ("compose.yml", "services:\n  a: {b: c\n", &["3 error"]),
            ("compose.yml", "services:\n  a:\n    image: @b\n", &["3 error"]),
            ("compose.yml", "services:\n  a: *b\n", &["2 error"]),
            ("compose.yml", "services:\n  a:\n    command: 'it's'\n", &["3 error"]),
            ("compose.yml", "services:\n  a: {image: b}}\n", &["2 error"]),
            // Blank lines and comments with tabs are not refused by every program.
            ("compose.yml", "services:\n\t# a\n  a:\n    image: b\n\t\n", &[]),
        ],
    );
}

#[test]
fn a_service_that_is_built_keeps_its_build_in_an_override() {
    let base = &[("compose.yml", "services:\n  a:\n    build: .\n")];
    let part = "services:\n  b:\n    build: { args: { A: \"1\" } }\n";
    let found = beside(base, "compose.rocm.yml", part);
    assert!(found.iter().any(|one| one == "2 compose-reference"), "{found:?}");
}

#[test]
fn packages_of_other_repositories_and_managers_are_unknown() {
    let jammy = "FROM docker.io/library/ubuntu:22.04@sha256:1\n";
    let install = "RUN apt-get update && apt-get install -y libssl1.1\n";
    let source = "RUN echo 'deb http://security.ubuntu.com/ubuntu focal-security main' > /etc/apt/sources.list.d/a.list\n";
    expect(
        "package-gone",
        NONE,
        &[
            ("Dockerfile", &format!("{jammy}{install}"), &["2 error"]),
            ("Dockerfile", &format!("{jammy}{source}{install}"), &[]),
        ],
    );
    // The caller can choose another image than the default, also for the stage on it.
    let chosen = format!("ARG BASE=ubuntu:22.04\nFROM $BASE AS a\nFROM a\n{install}");
    expect("package-gone", NONE, &[("Dockerfile", &chosen, &["4 warning"])]);
    let alma = "FROM docker.io/library/almalinux:9@sha256:1\nRUN dnf install -y gcc && make\n";
    expect("program-missing", NONE, &[("Dockerfile", alma, &[])]);
    let old = "FROM docker.io/ollama/ollama:0.3.12-rocm\nRUN curl -o /a https://h.example\n";
    expect("program-missing", NONE, &[("Dockerfile", old, &[])]);
}

#[test]
fn a_health_check_that_can_fail_is_useful() {
    let service = |test: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    healthcheck:\n      test: {test}\n"
        )
    };
    for (test, expected) in [
        (
            "[\"CMD-SHELL\", \"bash -c '(echo > /dev/tcp/localhost/6333) >/dev/null 2>&1'\"]",
            &[][..],
        ),
        ("[\"CMD-SHELL\", \"echo ruok | nc localhost 2181 | grep imok\"]", &[]),
        ("[\"CMD\", \"true\"]", &["5 information"]),
        ("[\"CMD-SHELL\", \"exit 0\"]", &["5 information"]),
        ("[\"CMD-SHELL\", \"exit 1\"]", &[]),
        ("[\"CMD\", \"curl\", \"-sf\", \"http://a\"]", &[]),
        ("[\"CMD\", \"curl\", \"--fail-with-body\", \"http://a\"]", &[]),
        ("[\"CMD\", \"curl\", \"-s\", \"http://a\"]", &["5 information"]),
    ] {
        expect("healthcheck-useless", NONE, &[("compose.yml", &service(test), expected)]);
    }
}

#[test]
fn packages_and_lists_in_branches_are_not_combined() {
    let text = "FROM docker.io/a/b@sha256:1\nRUN if [ \"$GPU\" = rocm ]; then pip install onnxruntime-rocm; else pip install onnxruntime-gpu; fi\n";
    expect("packages-same-module", NONE, &[("Dockerfile", text, &[])]);
    let list = "FROM docker.io/rocm/pytorch@sha256:1\nCOPY r.txt .\nRUN if [ -n \"$A\" ]; then pip install -r r.txt; fi\n";
    let files =
        &[("r.txt", "--index-url https://download.pytorch.org/whl/rocm6.4\ntorch==2.8.0\n")];
    let found = beside(files, "Dockerfile", list);
    assert!(!found.iter().any(|one| one.ends_with("rocm-twice")), "{found:?}");
}

#[test]
fn the_base_file_is_the_one_that_a_comment_names() {
    let comment = "# docker compose -f docker-compose.e2e.yml -f docker-compose.e2e.rocm.yml up\n";
    let own = format!("{comment}services:\n  b:\n    devices: [/dev/kfd]\n");
    // The named file is elsewhere, and the default one has nothing to do with it.
    let base = &[("docker-compose.yml", "services:\n  a:\n    build: .\n")];
    let found = beside(base, "docker-compose.e2e.rocm.yml", &own);
    assert!(!found.iter().any(|one| one.ends_with("compose-reference")), "{found:?}");
    let base = &[("docker-compose.e2e.yml", "services:\n  a:\n    build: .\n")];
    let found = beside(base, "docker-compose.e2e.rocm.yml", &own);
    assert!(found.iter().any(|one| one == "3 compose-reference"), "{found:?}");
}

#[test]
fn a_private_registry_can_have_any_tag() {
    for (image, expected) in [
        ("registry.example:5000/vllm/vllm-openai:rocm", &[][..]),
        ("docker.io/vllm/vllm-openai:rocm", &["1 error"]),
        ("vllm/vllm-openai:rocm", &["1 error"]),
    ] {
        let text = format!("FROM {image}\n");
        expect("image-tag-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_script_may_look_at_the_status_of_its_commands() {
    let installs =
        "apt-get update\napt-get install -y git\napt-get install -y cmake\npip install a==1\n";
    for (first, rest, expected) in [
        ("#!/bin/bash\n", "", &["1 information"][..]),
        ("#!/bin/bash\nset -euo pipefail\n", "", &[]),
        ("#!/bin/sh -e\n", "", &[]),
        ("#!/bin/bash\n", "[ $? -eq 0 ] || echo failed\n", &[]),
    ] {
        let text = format!("{first}{installs}{rest}");
        expect("errors-ignored", NONE, &[("a.sh", &text, expected)]);
    }
}
