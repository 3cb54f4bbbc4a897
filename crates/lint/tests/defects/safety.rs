//! Files that hide a failure, trust what nothing checks, or open more than they need, and files that
//! come close to that.

use super::together::expect as in_folder;
use super::{NONE, expect};

const BASE: &str = "FROM docker.io/library/ubuntu:24.04@sha256:1\n";

#[test]
fn a_check_of_another_file_does_not_prove_a_download() {
    let get = |name: &str| format!("curl -fsSLO https://h.example/{name}");
    let check = "echo 'x a.zip' | sha256sum -c -";
    for (lines, expected) in [
        (format!("RUN {} && {check}\nRUN {}\n", get("a.zip"), get("b.zip")), &["3 warning"][..]),
        (format!("RUN {}\nRUN {} && {check}\n", get("b.zip"), get("a.zip")), &["2 warning"]),
        // The check comes later, and downloads nothing itself.
        (format!("RUN {}\nCOPY SUMS .\nRUN sha256sum -c SUMS\n", get("b.zip")), &[]),
        (format!("RUN {} && {} && sha256sum -c SUMS\n", get("b.zip"), get("SUMS")), &[]),
        (format!("RUN {}\nRUN {} && sha256sum -c SUMS\n", get("b.zip"), get("SUMS")), &[]),
    ] {
        expect(
            "download-unchecked",
            NONE,
            &[("Dockerfile", &(BASE.to_owned() + &lines), expected)],
        );
    }
    let script = format!("set -e\n{check}\n{}\nsha256sum -c SUMS\n", get("b.zip"));
    expect("download-unchecked", NONE, &[("a.sh", &script, &[])]);
}

#[test]
fn only_bash_expands_lists_in_braces() {
    let run = |base: &str, command: &str| format!("FROM {base}@sha256:1\nRUN {command}\n");
    let cases = [
        ("docker.io/library/debian:12", "mkdir -p /a/{b,c}", &["2 warning"][..]),
        ("docker.io/library/debian:12", "true && cp /a/{b,c} /d", &["2 warning"]),
        ("docker.io/library/debian:12", "bash -c 'mkdir -p /a/{b,c}'", &[]),
        ("docker.io/library/debian:12", "mkdir -p \"/a/{b,c}\"", &[]),
        ("docker.io/library/debian:12", "mkdir -p /a/${B} /c,d", &[]),
        ("docker.io/library/debian:12", "curl -O https://h.example/{a,b}", &[]),
        ("docker.io/library/debian:12", "awk {print,x} a", &[]),
        // On Fedora, /bin/sh is bash.
        ("docker.io/library/fedora:43", "mkdir -p /a/{b,c}", &[]),
    ];
    for (base, command, expected) in cases {
        expect("shell-feature", NONE, &[("Dockerfile", &run(base, command), expected)]);
    }
    let shell = format!("{BASE}SHELL [\"/bin/bash\", \"-c\"]\nRUN mkdir -p /a/{{b,c}}\n");
    expect("shell-feature", NONE, &[("Dockerfile", &shell, &[])]);
    for (first, expected) in [("#!/bin/sh", &["2 warning"][..]), ("#!/bin/bash", &[])] {
        let script = format!("{first}\nmkdir -p a/{{b,c}}\n");
        expect("shell-feature", NONE, &[("a.sh", &script, expected)]);
    }
}

#[test]
fn a_semicolon_after_a_chain_or_a_branch_hides_its_failure() {
    let information = &["2 information"][..];
    for (command, expected) in [
        ("apt-get update; apt-get install -y a", information),
        ("if [ -n \"$A\" ]; then pip install a==1; fi; chown -R 1 /a", information),
        ("pip install a==1 && python3 -c 'import a'; chown -R 1 /a", information),
        ("bash -c 'pip install a==1; chown -R 1 /a'", &[]),
        ("if [ -n \"$A\" ]; then pip install a==1; fi && chown -R 1 /a", &[]),
        ("if [ -n \"$A\" ]; then pip install a==1; fi", &[]),
        ("set -e; apt-get update; apt-get install -y a", &[]),
        // Only the last command of a chain with a test is a branch.
        ("test -f a && pip install a==1; true", &[]),
        ("apt-get install -y a && rm -rf /var/lib/apt/lists/*", &[]),
    ] {
        let text = format!("{BASE}RUN {command}\n");
        expect("build-status-lost", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_health_check_that_prints_the_version_cannot_fail() {
    for (check, expected) in [
        ("CMD [\"/app/llama-server\", \"--version\"]", &["2 information"][..]),
        ("CMD redis-cli --version", &["2 information"]),
        ("CMD curl --fail http://localhost/version", &[]),
    ] {
        let text = format!("{BASE}HEALTHCHECK {check}\n");
        expect("healthcheck-useless", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn an_activation_on_the_last_line_of_a_run_is_lost() {
    let run =
        "RUN python3 -m venv /v \\\n    && chmod +x /v/bin/activate \\\n    && . /v/bin/activate\n";
    let other = "RUN . /v/bin/activate \\\n    && pip install a==1\n";
    let path = "ENV PATH=/v/bin:$PATH\n";
    for (lines, expected) in [
        (run.to_owned(), &["4 warning"][..]),
        (other.to_owned(), &[]),
        (format!("{run}{path}"), &[]),
    ] {
        let text = BASE.to_owned() + &lines;
        expect("shell-state-lost", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn names_of_projects_have_lower_case_letters() {
    for (name, expected) in
        [("My_App", &["1 error"][..]), ("-a", &["1 error"]), ("my-app_2", &[]), ("${NAME:-A}", &[])]
    {
        let text = format!("name: {name}\nservices:\n  a:\n    image: localhost/a\n");
        expect("compose-value", NONE, &[("compose.yml", &text, expected)]);
    }
}

#[test]
fn a_default_needs_its_dollar_sign() {
    for (value, expected) in [
        ("A={A:-false}", &["5 warning"][..]),
        ("A=${A:-false}", &[]),
        ("A={a}", &[]),
        ("A={\"b\":-1}", &[]),
    ] {
        let text = format!(
            "services:\n  a:\n    image: localhost/a\n    environment:\n      - '{value}'\n"
        );
        expect("value-not-replaced", NONE, &[("compose.yml", &text, expected)]);
    }
}

/// What is told about a default that only `environment` has.
const LOST: &str = "6 here Compose replaces `$MODEL` without the default that `environment` has";

#[test]
fn a_default_of_environment_is_not_that_of_the_command() {
    let service = |value: &str, command: &str| {
        format!(
            "services:\n  a:\n    image: localhost/a\n    environment:\n      MODEL: {value}\n    command: {command}\n"
        )
    };
    for (value, command, expected) in [
        ("${MODEL:-b}", "sh -c 'ollama pull ${MODEL}'", &[LOST][..]),
        ("${MODEL:-b}", "sh -c 'ollama pull ${MODEL:-b}'", &[]),
        ("${MODEL:-b}", "sh -c 'ollama pull $${MODEL}'", &[]),
        ("${MODEL:-}", "sh -c 'ollama pull ${MODEL}'", &[]),
        ("${MODEL}", "sh -c 'ollama pull ${MODEL}'", &[]),
    ] {
        in_folder("compose-variable", &[], "compose.yml", &service(value, command), expected);
    }
    let own = service("${MODEL:-b}", "sh -c 'ollama pull ${MODEL}'");
    let set = &[(".env.example", "MODEL=c\n")];
    in_folder("compose-variable", set, "compose.yml", &own, &[]);
}

#[test]
fn a_server_of_the_hosts_network_needs_a_login() {
    let service = |lines: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/ollama/ollama:0.30.0\n    network_mode: host\n{lines}"
        )
    };
    for (lines, expected) in [
        ("", &["4 information"][..]),
        ("    environment: [OLLAMA_HOST=127.0.0.1]\n", &[]),
        ("    environment: [\"OLLAMA_HOST=${HOST:-x}\"]\n", &[]),
        ("    environment: [\"OLLAMA_HOST=http://h:1\"]\n    command: pull a\n", &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &service(lines), expected)]);
    }
    let login = |value: &str, ports: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b:1.2.3\n    ports: [\"{ports}\"]\n    environment: [\"REQUIRE_API_KEY={value}\"]\n"
        )
    };
    for (value, ports, expected) in [
        ("False", "5050:5050", &["5 information"][..]),
        ("True", "5050:5050", &[]),
        ("False", "127.0.0.1:5050:5050", &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &login(value, ports), expected)]);
    }
}

#[test]
fn a_unit_of_a_server_needs_a_user() {
    let unit = |start: &str, more: &str| {
        format!("[Service]\nExecStart={start}\n{more}[Install]\nWantedBy=multi-user.target\n")
    };
    let server = "/usr/local/bin/llama-server -m a.gguf";
    let home = "/bin/bash -c '/home/ann/run.sh'";
    for (start, more, expected) in [
        (server, "", &["2 information"][..]),
        (home, "", &["2 information"]),
        ("/home/ann/venv/bin/python app.py", "", &["2 information"]),
        (server, "User=ann\n", &[]),
        (server, "DynamicUser=yes\n", &[]),
        ("/usr/local/bin/tune-gpu", "", &[]),
        ("/usr/bin/docker run -v /home/ann:/data a", "", &[]),
    ] {
        expect("unit-as-root", NONE, &[("a.service", &unit(start, more), expected)]);
    }
    let own = unit(server, "").replace("multi-user", "default");
    expect("unit-as-root", NONE, &[("a.service", &own, &[])]);
}

#[test]
fn releases_of_vllm_with_known_holes_are_told() {
    for (image, expected) in [
        ("vllm/vllm-openai:v0.6.6", &["1 information"][..]),
        ("vllm/vllm-openai:v0.11.0", &["1 information"]),
        ("vllm/vllm-openai-rocm:v0.14.0", &["1 information"]),
        ("rocm/vllm:rocm6.3.1_vllm_0.8.5_20250521", &["1 information"]),
        ("rocm/vllm:rocm6.2_mi300_ubuntu20.04_py3.9_vllm_0.6.4", &["1 information"]),
        ("vllm/vllm-openai:v0.8.1", &[]),
        ("vllm/vllm-openai-rocm:v0.14.1", &[]),
        ("vllm/vllm-openai-rocm:v0.20.0", &[]),
        ("rocm/vllm:rocm7.2.1_vllm_0.16.0", &[]),
    ] {
        let text = format!("FROM docker.io/{image}@sha256:1\n");
        expect("vllm-hole", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn the_tag_of_a_release_of_fedora_or_nvidia_is_usual() {
    for (image, expected) in [
        ("quay.io/fedora/fedora:43", &[][..]),
        ("registry.fedoraproject.org/fedora-toolbox:43", &[]),
        ("docker.io/library/fedora:43", &[]),
        ("nvcr.io/nvidia/pytorch:22.12-py3", &[]),
        ("ghcr.io/a/b:main-rocm", &["1 information"]),
    ] {
        let text = format!("FROM {image}\n");
        expect("image-unpinned", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn an_environment_of_conda_does_not_use_the_torch_of_the_image() {
    let install = "pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/rocm6.4";
    for (run, expected) in
        [(String::new(), &["2 information"][..]), ("conda run -n a ".to_owned(), &[])]
    {
        let text = format!(
            "FROM docker.io/rocm/pytorch:rocm6.4_ubuntu24.04_py3.12_pytorch_release_2.6.0@sha256:1\nRUN {run}{install}\n"
        );
        expect("rocm-twice", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_model_without_a_revision_is_told_once() {
    let text = format!(
        "{BASE}RUN python -c \"from huggingface_hub import snapshot_download; snapshot_download('a/b')\"\n"
    );
    expect("model-unpinned", NONE, &[("Dockerfile", &text, &["2 information"])]);
    expect("clone-unpinned", NONE, &[("Dockerfile", &text, &[])]);
}

#[test]
fn tags_of_cuda_have_three_numbers() {
    for (tag, expected) in [
        ("11.0-base", &["1 error"][..]),
        ("12.1-runtime-ubuntu22.04", &["1 error"]),
        ("12.4.1-base-ubuntu22.04", &[]),
        ("13.0.0-devel-ubi9", &[]),
    ] {
        let text = format!("FROM docker.io/nvidia/cuda:{tag}\n");
        expect("image-tag-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
    let other = "FROM registry.example/nvidia/cuda:11.0-base\n";
    expect("image-tag-missing", NONE, &[("Dockerfile", other, &[])]);
}

#[test]
fn a_service_behind_a_proxy_needs_keys_of_its_own() {
    let file = |proxy: &str, ports: &str, key: &str| {
        format!(
            "services:\n  web:\n    image: docker.io/library/{proxy}:1.2.3\n    ports: [\"{ports}\"]\n  api:\n    image: localhost/a\n    environment:\n      - {key}\n"
        )
    };
    for (proxy, ports, key, expected) in [
        ("nginx", "80:80", "JWT_SECRET_KEY=${JWT_SECRET_KEY:-change-this}", &["8 information"][..]),
        ("nginx", "127.0.0.1:80:80", "JWT_SECRET_KEY=${JWT_SECRET_KEY:-change-this}", &[]),
        ("nginx", "80:80", "JWT_SECRET_KEY=${JWT_SECRET_KEY:?}", &[]),
        ("nginx", "80:80", "LOG=change-this", &[]),
        ("redis", "80:80", "JWT_SECRET_KEY=${JWT_SECRET_KEY:-change-this}", &[]),
    ] {
        expect("password-in-file", NONE, &[("compose.yml", &file(proxy, ports, key), expected)]);
    }
    let database = |ports: &str, value: &str| {
        format!(
            "services:\n  db:\n    image: docker.io/library/postgres:17.2\n{ports}    environment:\n      POSTGRES_PASSWORD: {value}\n"
        )
    };
    let open = "    ports: [\"5432:5432\"]\n";
    for (ports, value, expected) in [
        (open, "${PG:-our_own}", &["6 information"][..]),
        (open, "${PG:?}", &[]),
        (open, "${PG}", &[]),
        ("", "${PG:-our_own}", &[]),
    ] {
        expect("password-in-file", NONE, &[("compose.yml", &database(ports, value), expected)]);
    }
}

#[test]
fn pip_trusts_a_host_only_without_a_certificate() {
    for (line, expected) in [
        ("ENV PIP_TRUSTED_HOST=pypi.example.org", &["2 warning"][..]),
        ("RUN pip config set global.trusted-host pypi.example.org", &["2 warning"]),
        ("ENV PIP_TRUSTED_HOST=192.168.1.5", &[]),
        ("ENV PIP_INDEX_URL=https://pypi.example.org/simple", &[]),
    ] {
        let text = format!("{BASE}{line}\n");
        expect("tls-off", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_file_server_of_a_unit_shows_its_folder() {
    for (options, expected) in
        [("8000", &["2 information"][..]), ("8000 --bind 127.0.0.1", &[]), ("-b 127.0.0.1", &[])]
    {
        let text =
            format!("[Service]\nExecStart=/usr/bin/python3 -m http.server {options}\nUser=a\n");
        expect("service-open", NONE, &[("a.service", &text, expected)]);
    }
}

const PROJECT_LIST: &[(&str, &str)] = &[
    ("pyproject.toml", "[project]\nname = \"a\"\n[dependency-groups]\ndev = [\"pytest\"]\n"),
    ("uv.lock", "version = 1\n"),
];

#[test]
fn uv_installs_what_the_build_has_left_out() {
    let file = |sync: &str, start: &str| {
        format!("{BASE}COPY . .\nRUN uv sync --locked {sync}\nCMD [\"uv\", \"run\", {start}]\n")
    };
    let told = "4 `uv run` installs the development packages, which the build left out, when the container starts";
    for (sync, start, expected) in [
        ("--no-dev", "\"uvicorn\", \"a:b\"", &[told][..]),
        ("--no-dev", "\"--no-sync\", \"uvicorn\", \"a:b\"", &[]),
        ("--no-dev", "\"--no-dev\", \"uvicorn\", \"a:b\"", &[]),
        ("", "\"uvicorn\", \"a:b\"", &[]),
    ] {
        in_folder("install-at-start", PROJECT_LIST, "Dockerfile", &file(sync, start), expected);
    }
    let plain = &[("pyproject.toml", "[project]\nname = \"a\"\n")];
    let text = file("--no-dev", "\"uvicorn\", \"a:b\"");
    in_folder("install-at-start", plain, "Dockerfile", &text, &[]);
    let set = format!("{text}ENV UV_NO_SYNC=1\n");
    in_folder("install-at-start", PROJECT_LIST, "Dockerfile", &set, &[]);
}

#[test]
fn a_copied_uv_is_no_lock_file() {
    let copy = "COPY --from=ghcr.io/astral-sh/uv:0.9.1@sha256:1 /uv /uvx /bin/\n";
    for (list, expected) in [
        ("COPY pyproject.toml ./\n", &["4 warning"][..]),
        ("COPY pyproject.toml uv.lock ./\n", &[]),
        ("COPY --from=docker.io/a/b@sha256:1 /app/ ./\nCOPY pyproject.toml ./\n", &[]),
    ] {
        let text = format!("{BASE}{copy}{list}RUN uv sync --no-dev\n");
        expect("lock-file-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn bases_without_updates_are_told() {
    let today = Some("2026-11-30");
    for (image, expected) in [
        ("alpine:3.18", true),
        ("node:22-alpine3.20", true),
        ("postgres:13-alpine", true),
        ("pgvector/pgvector:pg14", true),
        ("mysql:8.0", true),
        ("amazonlinux:2", true),
        ("alpine:3.22", false),
        ("postgres:16-alpine", false),
        ("postgres:17.2", false),
        ("mysql:8.4", false),
        ("amazonlinux:2023", false),
        ("pgvector/pgvector:pg17", false),
    ] {
        let text = format!("FROM docker.io/{image}\n");
        let context = lint::Context { today, ..lint::Context::default() };
        let found = crate::findings_in("Dockerfile", &text, context);
        let is_told = found.iter().any(|one| one.rule.id == "base-end-of-life");
        assert_eq!(is_told, expected, "{image}");
    }
}

#[test]
fn a_comment_in_a_value_is_told_once() {
    let unit = "[Service]\nExecStart=/bin/a\nMemoryDenyWriteExecute=false   # a comment\n";
    expect("unit-value", NONE, &[("a.service", unit, &["3 warning"])]);
}

#[test]
fn the_address_of_a_server_can_come_from_an_environment_file() {
    let unit = "[Service]\nUser=a\nEnvironmentFile=/etc/a.env\nExecStart=/opt/llama-server \\\n    --host ${HOST} --port 80\n";
    let told = "4 a server listens on all addresses of the machine, without a key";
    let open = &[("a.env", "HOST=0.0.0.0\n")];
    in_folder("service-open", open, "a.service", unit, &[told]);
    let local = &[("a.env", "HOST=127.0.0.1\n")];
    in_folder("service-open", local, "a.service", unit, &[]);
    let key = &[("a.env", "HOST=0.0.0.0\nLLAMA_API_KEY=x\n")];
    in_folder("service-open", key, "a.service", unit, &[]);
    in_folder("service-open", &[], "a.service", unit, &[]);
}

#[test]
fn pip_of_one_python_is_no_package() {
    for (package, expected) in [("python3.11-pip", 1), ("python3-pip", 0)] {
        let text = format!(
            "FROM docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04@sha256:1\nRUN apt-get update && apt-get install -y {package}\n"
        );
        let found = crate::findings_in("Dockerfile", &text, lint::Context::default());
        let gone = found.iter().filter(|one| one.rule.id == "package-gone").count();
        assert_eq!(gone, expected, "{package}");
    }
}
