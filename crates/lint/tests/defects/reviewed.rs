//! Correct files that a review of the newest rules found to be reported on 2026-11-30.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

/// Checks that a rule has these findings in a Dockerfile.
fn image(rule: &str, text: &str, expected: &[&str]) {
    expect(rule, NONE, &[("Dockerfile", text, expected)]);
}

/// A folder with files.
#[derive(Debug)]
struct Folder(&'static [(&'static str, &'static str)]);

impl Exists for Folder {
    fn exists(&self, file: &str, path: &str) -> Option<bool> {
        Some(self.text(file, path).is_some())
    }

    fn compose_files(&self, _: &str) -> Vec<String> {
        let files = self.0.iter().filter(|(name, _)| name.contains("compose"));
        files.map(|(_, text)| (*text).to_owned()).collect()
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        let path = path.trim_start_matches("./");
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }
}

/// Returns the findings of a rule as `LINE severity` in a file of a folder.
fn beside(
    rule: &str,
    files: &'static [(&'static str, &'static str)],
    file: &str,
    text: &str,
) -> Vec<String> {
    let folder = Folder(files);
    let context = Context { exists: Some(&folder), ..Context::default() };
    findings_in(file, text, context)
        .iter()
        .filter(|one| one.rule.id == rule)
        .map(|one| format!("{} {}", one.line, one.severity.name()))
        .collect()
}

#[test]
fn builds_of_amd_have_the_stamps_of_pytorch() {
    let install = |words: &str| format!("FROM python:3.10-slim\nRUN pip3 install {words}\n");
    let index = "https://download.pytorch.org/whl/rocm6.1";
    for (words, expected) in [
        (
            "torch==2.1.2+rocm6.1 -f https://repo.radeon.com/rocm/manylinux/rocm-rel-6.1/"
                .to_owned(),
            &[][..],
        ),
        (format!("torch==2.1.2+rocm6.1 --index-url {index}"), &["2 error"]),
        // With PyPI, pip takes the build for CUDA.
        (format!("torch==2.1.2 --extra-index-url {index}"), &["2 warning"]),
    ] {
        image("no-such-version", &install(&words), expected);
    }
}

#[test]
fn a_wheel_can_be_for_another_stage_or_folder() {
    let wheel = "https://h.example/torch-2.8.0-cp312-cp312-linux_x86_64.whl";
    for (run, expected) in [
        (format!("wget {wheel}"), &[][..]),
        (format!("pip install --target=/a --platform manylinux2014_x86_64 {wheel}"), &[]),
        (format!("pip install {wheel}"), &["2 error"]),
    ] {
        image("python-other", &format!("FROM ubuntu:22.04\nRUN {run}\n"), expected);
    }
}

#[test]
fn a_python_can_be_copied_in_parts() {
    let copy = "COPY --from=python:3.12-slim";
    let path = "ENV PYTHONPATH=/usr/local/lib/python3.12/site-packages\n";
    for (lines, expected) in [
        (
            format!(
                "{copy} /usr/local/bin/python3.12 /usr/local/bin/python3.12\n{copy} /usr/local/lib/python3.12 /usr/local/lib/python3.12\n{path}"
            ),
            &[][..],
        ),
        (format!("{copy} /usr/local/lib/python3.12 /usr/local/lib/python3.12\n{path}"), &[]),
        (path.to_owned(), &["2 warning"]),
    ] {
        image("python-other", &format!("FROM debian:bookworm-slim\n{lines}"), expected);
    }
}

const PROJECT: &[(&str, &str)] = &[(
    "pyproject.toml",
    "[build-system]\nbuild-backend = \"hatchling.build\"\n[project]\nreadme = \"README.md\"\nrequires-python = \">=3.13\"\n",
)];

#[test]
fn the_value_of_an_option_is_no_project() {
    let base = "FROM docker.io/library/python:3.12-slim@sha256:1\nWORKDIR /app\nCOPY . /app\n";
    for (run, expected) in [
        ("pip install --target /app -r requirements.txt", 0),
        ("pip install --prefix /app a==1", 0),
        ("pip install --ignore-requires-python .", 0),
        ("pip install /app", 1),
        ("pip install -e .", 1),
        ("pip install --editable .", 1),
    ] {
        let text = format!("{base}RUN {run}\n");
        let found = beside("python-other", PROJECT, "Dockerfile", &text);
        assert_eq!(found.len(), expected, "{run}: {found:?}");
    }
}

#[test]
fn sudo_in_quotes_is_not_called() {
    for (run, expected) in [
        ("sed -i 's|sudo |env |' install.sh", &[][..]),
        ("echo \"install it (sudo apt install x)\"", &[]),
        ("echo \"a \\\n    && sudo b\"", &[]),
        ("echo \"it's\" && sudo ls", &["2 error"]),
        ("echo \\\n  # it's\n  a && sudo ls", &["4 error"]),
    ] {
        let text = format!("FROM python:3.12-slim-bookworm\nRUN {run}\n");
        image("program-missing", &text, expected);
    }
}

#[test]
fn certificates_can_be_copied_or_named() {
    let base =
        "FROM debian:12\nRUN apt-get update && apt-get install -y --no-install-recommends git\n";
    let clone = "git clone https://git.example/a\n";
    for (lines, expected) in [
        (format!("COPY certs/ca.pem /etc/ssl/certs/ca-certificates.crt\nRUN {clone}"), &[][..]),
        (format!("ENV GIT_SSL_NO_VERIFY=1\nRUN {clone}"), &[]),
        (format!("RUN GIT_SSL_CAINFO=/a.pem {clone}"), &[]),
        (format!("RUN {clone}"), &["3 error"]),
    ] {
        image("program-missing", &format!("{base}{lines}"), expected);
    }
}

#[test]
fn people_start_one_server_for_models() {
    let two = |first: &str, second: &str, ports: (&str, &str)| {
        let (one, other) = ports;
        format!(
            "services:\n  a:\n    image: {first}\n    ports: [\"{one}:80\"]\n  b:\n    image: {second}\n    ports: [\"{other}:80\"]\n"
        )
    };
    let (vllm, sglang) = ("vllm/vllm-openai-rocm:v0.20.0", "lmsysorg/sglang:v0.5");
    let same = ("8000", "8000");
    let variables = ("${A_PORT:-8080}", "${B_PORT:-8080}");
    let other: &[(&str, &str)] = &[(".env", "A_PORT=8081\n")];
    for (files, text, expected) in [
        (&[][..], two(vllm, sglang, same), &["7 information"][..]),
        (&[], two("nginx", "caddy", same), &["7 warning"]),
        (other, two("nginx", "caddy", variables), &[]),
        (&[], two("nginx", "caddy", variables), &["7 warning"]),
    ] {
        assert_eq!(beside("port-twice", files, "compose.yml", &text), expected, "{text}");
    }
}

#[test]
fn placeholders_are_no_tokens() {
    let pod = |value: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/b:1@sha256:1\n      env:\n        - {{ name: HF_TOKEN, value: \"{value}\" }}\n"
        )
    };
    for (value, expected) in [
        ("<your Hugging Face token>", &[][..]),
        ("$HF_TOKEN", &[]),
        ("hf_xxxxxxxxxxxxxxxxxxxxxxxx", &[]),
        ("hf_your_token", &[]),
        ("hf_a1b2c3d4e5f6g7h8i9j0k1l2", &["8 warning"]),
    ] {
        expect("password-in-file", NONE, &[("a.yaml", &pod(value), expected)]);
    }
}

#[test]
fn a_step_can_be_optional() {
    for (run, expected) in [
        // The row about these words reports it, once.
        ("pip install flash-attn==2.6 || true", &["2 information"][..]),
        ("apt-get install -y a || true", &["2 information"]),
        (
            "pip install flash-attn==2.6 && echo installed || echo \"flash-attn is optional, skipped\"",
            &[],
        ),
        ("pip install a==1 && echo installed || echo failed", &[]),
        ("pip install a==1 && rm b || echo 'a is optional'", &[]),
        ("pip install a==1 && rm b || echo failed", &["2 warning"]),
        ("set -x -e; apt-get install -y a; rm b", &[]),
        ("set -x; apt-get install -y a; rm -e b", &["2 information"]),
    ] {
        let text = format!("FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN {run}\n");
        image("build-status-lost", &text, expected);
    }
}

#[test]
fn a_table_shows_overrides() {
    let table = "#   gfx1030 (RX 6700 XT, RX 6600): 10.3.0\n";
    let overrides = format!("# HSA_OVERRIDE_GFX_VERSION by card:\n{table}");
    let other = "# HSA_OVERRIDE_GFX_VERSION by card:\n# gfx1201 (RX 9060 XT)\n";
    expect(
        "silicon-mixup",
        NONE,
        &[
            (".env", &overrides, &[]),
            (".env", table, &["1 warning"]),
            (".env", other, &["2 warning"]),
        ],
    );
}

const TWO_SERVICES: &[(&str, &str)] = &[(
    "compose.yml",
    "services:\n  a:\n    image: a\n    env_file: a.env\n    environment: {SECRET_KEY: \"${SECRET_KEY:-change}\"}\n  b:\n    image: b\n    environment: {SECRET_KEY: \"${SECRET_KEY:-change}\"}\n",
)];
const OWN_VALUE: &[(&str, &str)] = &[(
    "compose.yml",
    "services:\n  a:\n    image: a\n    env_file: [.env]\n    environment: {SECRET_KEY: \"${SECRET_KEY:-change}\"}\n  b:\n    image: b\n    environment: {SECRET_KEY: \"${SECRET_KEY:-change}\"}\n",
)];
const EMPTY: &[(&str, &str)] = &[(
    "compose.yml",
    "services:\n  a:\n    image: a\n    env_file: [{path: ./.env}]\n  b:\n    image: b\n    environment: {SECRET_KEY: \"${SECRET_KEY:-change}\"}\n",
)];

#[test]
fn an_empty_value_reaches_a_service() {
    for (files, expected) in [(TWO_SERVICES, 0), (OWN_VALUE, 0), (EMPTY, 1)] {
        let found = beside("default-replaces-empty", files, ".env", "SECRET_KEY=\n");
        assert_eq!(found.len(), expected, "{files:?}: {found:?}");
    }
}

#[test]
fn make_replaces_variables_too() {
    let text = "DATA=$(HOME)\n";
    let make: &[(&str, &str)] = &[("Makefile", "include .env\n")];
    assert!(beside("value-not-replaced", make, ".env", text).is_empty());
    assert_eq!(beside("value-not-replaced", &[], ".env", text).len(), 1);
}

#[test]
fn scripts_need_no_library() {
    let copy = |run: &str, source: &str| {
        format!(
            "FROM debian:trixie AS build\nRUN {run}\nFROM debian:bookworm-slim\nCOPY --from=build {source} /usr/local/bin/\n"
        )
    };
    let install = "apt-get update && apt-get install -y gcc make && make -C /src";
    for (run, source, expected) in [
        ("make -C /src", "/src/bin/a.py", &[][..]),
        (install, "/src/bin/a.py", &[]),
        ("make -C /src", "/src/bin/a", &[]),
        (install, "/src/bin/a", &["4 warning"]),
    ] {
        image("glibc-older", &copy(run, source), expected);
    }
}

#[test]
fn a_lock_file_can_be_optional() {
    let copy = |words: &str, install: &str| {
        format!("FROM docker.io/library/python:3.12-slim@sha256:1\nCOPY {words}\nRUN {install}\n")
    };
    for (words, install, expected) in [
        ("pyproject.toml poetry.loc[k] ./", "poetry install", &[][..]),
        ("pyproject.toml uv.loc[k] ./", "uv sync", &[]),
        ("[\"pyproject.toml\", \"./\"]", "uv sync", &["3 warning"]),
    ] {
        image("lock-file-missing", &copy(words, install), expected);
    }
}

const ONBUILD: &[(&str, &str)] = &[("Dockerfile", "FROM a\nONBUILD ARG UID=1000\n")];

#[test]
fn an_argument_can_be_for_another_image() {
    let text = "services:\n  a:\n    build:\n      context: .\n      args: [UID=1]\n";
    let rule = "variable-without-effect";
    assert!(beside(rule, ONBUILD, "compose.yml", text).is_empty());
    assert_eq!(beside(rule, ONBUILD, "compose.yml", &text.replace("UID", "GID")).len(), 1);
}

#[test]
fn torchvision_can_be_cloned_for_its_examples() {
    let text = |run: &str| {
        format!(
            "FROM docker.io/rocm/pytorch@sha256:1\nRUN git clone https://github.com/pytorch/vision && {run}\n"
        )
    };
    image("cpu-package", &text("python3 vision/references/classification/train.py"), &[]);
    image("cpu-package", &text("pip install torchvision==0.20.1"), &[]);
    for build in ["cd vision && python3 setup.py install", "cd vision && pip install -v ."] {
        image("cpu-package", &text(build), &["2 warning"]);
    }
}

#[test]
fn other_programs_only_log_more() {
    let service = |command: &str, variable: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b:1@sha256:1\n    command: {command}\n    environment: [{variable}]\n"
        )
    };
    for (command, variable, expected) in [
        ("python3 train.py", "DEBUG=1", &[][..]),
        ("flask run", "FLASK_ENV=development", &[]),
        ("python3 manage.py check", "DEBUG=1", &["5 information"]),
    ] {
        let text = service(command, variable);
        expect("development-mode", NONE, &[("compose.yml", &text, expected)]);
    }
}

#[test]
fn the_key_of_a_front_end_is_for_its_server() {
    let service = |image: &str| {
        format!(
            "services:\n  a:\n    image: {image}\n    environment: [API_KEY=]\n    ports: [\"80:80\"]\n"
        )
    };
    for (name, expected) in [
        ("ghcr.io/open-webui/open-webui:ollama", &[][..]),
        ("docker.io/vllm/vllm-openai-rocm:v0.20.0", &["4 information"]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &service(name), expected)]);
    }
}
