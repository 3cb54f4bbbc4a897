//! Gaps in safety and in builds that experts saw in files and lint did not, as classes, on 2026-12-01.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

/// The files around the file that is checked, by their relative paths.
#[derive(Debug)]
struct Around(&'static [&'static str]);

impl Exists for Around {
    fn exists(&self, _: &str, path: &str) -> Option<bool> {
        Some(self.0.contains(&path))
    }
}

#[test]
fn an_image_keeps_a_secret_build_argument() {
    let text = |own: &str| format!("FROM docker.io/a/b@sha256:1\n{own}\n");
    for (own, expected) in [
        ("ARG HF_TOKEN\nENV HF_TOKEN=${HF_TOKEN}", &["3 warning"][..]),
        ("ARG HF_TOKEN\nENV HF_TOKEN $HF_TOKEN", &["3 warning"]),
        ("ARG HF_TOKEN=\"\"\nENV A=1 \\\n    HF_TOKEN=$HF_TOKEN", &["3 warning"]),
        ("ARG OPENAI_API_KEY\nENV OPENAI_API_KEY=$OPENAI_API_KEY", &["3 warning"]),
        ("ARG HF_TOKEN\nRUN hf download --token $HF_TOKEN a/b", &["3 information"]),
        // Nothing keeps them.
        ("ARG HF_TOKEN\nRUN echo a", &[]),
        ("ARG HF_TOKEN_FILE\nENV HF_TOKEN_PATH=$HF_TOKEN_FILE", &[]),
        ("ARG MAX_TOKENS\nENV MAX_TOKENS=$MAX_TOKENS", &[]),
        ("ARG HF_TOKEN\nENV A=$HF_TOKEN_PATH", &[]),
        ("RUN --mount=type=secret,id=hf HF_TOKEN=$(cat /run/secrets/hf) hf download a/b", &[]),
        // The last stage has another history.
        ("ARG HF_TOKEN\nENV HF_TOKEN=$HF_TOKEN\nFROM docker.io/a/b@sha256:1", &[]),
    ] {
        expect("password-in-file", NONE, &[("Dockerfile", &text(own), expected)]);
    }
}

#[test]
fn a_key_is_an_argument_of_a_server() {
    let unit = |own: &str| format!("[Service]\nExecStart=/opt/llama/bin/llama-server {own}\n");
    for (own, expected) in [
        ("-m /m --api-key __KEY__ --jinja", &["2 information"][..]),
        ("-m /m --api-key=${KEY}", &["2 information"]),
        ("-m /m --api-key-file /etc/key", &[]),
        ("-m /m --api-key none", &[]),
        ("-m /m --api-key sk-dummy", &[]),
        ("-m /m", &[]),
    ] {
        expect("token-in-arguments", NONE, &[("a.service", &unit(own), expected)]);
    }
    let script = "vllm serve a/b --api-key \"$KEY\"\ncurl --api-key x http://localhost\n";
    expect("token-in-arguments", NONE, &[("a.sh", script, &["1 information"])]);
}

#[test]
fn a_store_is_open_to_other_machines() {
    let text = |image: &str, port: &str| {
        format!("services:\n  a:\n    image: {image}\n    ports:\n      - \"{port}\"\n")
    };
    for (image, port, expected) in [
        ("minio/minio:RELEASE.2025-01-01", "9000:9000", &["5 information"][..]),
        ("minio/minio:RELEASE.2025-01-01", "${PORT:-9001}:9001", &["5 information"]),
        ("minio/minio:RELEASE.2025-01-01", "127.0.0.1:9000:9000", &[]),
        ("minio/minio:RELEASE.2025-01-01", "${ADDRESS}:9000:9000", &[]),
        ("minio/mc:RELEASE.2025-01-01", "9000:9000", &[]),
        ("influxdb:2.7.10", "8086:8086", &["5 information"]),
        ("influxdb:2.7.10", "127.0.0.1:8086:8086", &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &text(image, port), expected)]);
    }
}

#[test]
fn nothing_keeps_the_model_of_a_server() {
    let text = |own: &str| {
        format!(
            "services:\n  a:\n    image: vllm/vllm-openai-rocm:v0.11.0\n    command: --model Qwen/Qwen3-8B\n{own}"
        )
    };
    for (own, expected) in [
        ("", &["4 information"][..]),
        ("    volumes:\n      - hf:/root/.cache/huggingface\n", &[]),
        ("    volumes:\n      - ./models:/models\n", &[]),
    ] {
        expect("data-lost", NONE, &[("compose.yml", &text(own), expected)]);
    }
    let default = text("").replace("Qwen/Qwen3-8B", "${MODEL:-Qwen/Qwen3-8B}");
    expect("data-lost", NONE, &[("compose.yml", &default, &["4 information"])]);
    let local =
        "services:\n  a:\n    image: vllm/vllm-openai-rocm:v0.11.0\n    command: --model /m\n";
    expect("data-lost", NONE, &[("compose.yml", local, &[])]);
}

#[test]
fn a_server_that_the_project_builds_is_open() {
    let text = |port: &str, own: &str| {
        format!(
            "services:\n  a:\n    build: .\n    devices: [/dev/kfd]\n    ports: [\"{port}\"]\n    healthcheck:\n      test: [CMD, curl, -f, \"http://localhost:8080/health\"]\n{own}"
        )
    };
    for (port, own, expected) in [
        ("8081:8080", "", &["5 information"][..]),
        ("127.0.0.1:8081:8080", "", &[]),
        ("8081:8080", "    environment:\n      API_KEY: ${API_KEY:?}\n", &[]),
        ("8081:8080", "    depends_on: [postgres]\n", &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &text(port, own), expected)]);
    }
    let without = text("8081:8080", "").replace("    devices: [/dev/kfd]\n", "");
    expect("service-open", NONE, &[("compose.yml", &without, &[])]);
}

#[test]
fn a_copy_of_the_whole_folder_takes_what_is_private() {
    let lines = |files: &'static [&'static str], text: &str| -> Vec<usize> {
        let folder = Around(files);
        let context = Context { exists: Some(&folder), ..Context::default() };
        let found = findings_in("Dockerfile", text, context);
        found.iter().filter(|one| one.rule.id == "password-in-file").map(|one| one.line).collect()
    };
    let plain = "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nCOPY . .\n";
    let named = "# docker run --env-file .env a\nFROM docker.io/a/b@sha256:1\nCOPY . /app\n";
    assert_eq!(lines(&[".git"], plain), [3]);
    assert_eq!(lines(&[], named), [3]);
    assert_eq!(lines(&[], plain), [0; 0]);
    assert_eq!(lines(&[".git", ".dockerignore"], plain), [0; 0]);
    assert_eq!(lines(&[".git"], "FROM docker.io/a/b@sha256:1\nCOPY src /app\n"), [0; 0]);
}

#[test]
fn helpers_of_a_script_can_come_from_elsewhere() {
    let call = "curl -fO https://h.example/a || warn \"no file\"\n";
    let info = "info() { echo \"$1\"; }\n";
    let with = |own: &str| format!("{info}{own}{call}");
    expect(
        "helper-undefined",
        NONE,
        &[
            ("a.sh", call, &[]),
            ("a.sh", &with(""), &["2 error"]),
            ("a.sh", &with(". /etc/os-release\n"), &["3 error"]),
            ("a.sh", &with(". ./lib.sh\n"), &[]),
            ("a.sh", &with("function warn {\n echo\n}\n"), &[]),
            ("a.sh", &with("warn () { echo; }\n"), &[]),
            ("a.sh", &with("alias warn='echo'\n"), &[]),
            ("a.sh", &with("echo \"a→b (c)\"\n"), &["3 error"]),
            ("a.sh", &format!("{info}{info}info \"a\"\n"), &[]),
        ],
    );
}

#[test]
fn nodes_can_get_their_packages_in_several_ways() {
    let text = |then: &str| {
        format!(
            "FROM scratch\nRUN git clone https://github.com/city96/ComfyUI-GGUF.git /c/custom_nodes/g\n{then}\n"
        )
    };
    expect(
        "node-requirements",
        NONE,
        &[
            ("Dockerfile", &text("RUN pip install -r requirements.txt"), &["2 warning"]),
            ("Dockerfile", &text("RUN pip install -r /c/custom_nodes/g/requirements.txt"), &[]),
            (
                "Dockerfile",
                &text("RUN cd /c/custom_nodes/g && pip install -r requirements.txt"),
                &[],
            ),
            (
                "Dockerfile",
                &text("RUN for f in /c/*/r.txt; do pip install -r $f/requirements.txt; done"),
                &[],
            ),
            ("Dockerfile", &text("RUN pip install gguf==0.17"), &[]),
        ],
    );
}

#[test]
fn a_tilde_is_the_home_folder_in_a_shell_only() {
    expect(
        "tilde-literal",
        NONE,
        &[
            ("Dockerfile", "FROM scratch\nRUN cp a ~/b\nCOPY a /root/b\nWORKDIR /~a\n", &[]),
            ("a.sh", "add a ~/b\n", &[]),
        ],
    );
    let suite = |name: &str| {
        format!("echo 'deb https://repo.radeon.com/rocm/apt/7.0 {name} main' > /etc/apt/a.list\n")
    };
    expect(
        "rocm-package-gone",
        NONE,
        &[("a.sh", &suite("ubuntu"), &["1 warning"]), ("a.sh", &suite("noble"), &[])],
    );
    let tested = "case \"$VERSION_ID\" in 24.04) wget https://repo.radeon.com/amdgpu-install/6.4/ubuntu/noble/a.deb ;; esac\n. /etc/os-release\n";
    expect("other-distribution", NONE, &[("a.sh", tested, &[])]);
    let old = "FROM scratch\nRUN pip install 'notebook<7' && jupyter serverextension enable a\n";
    expect("command-renamed", NONE, &[("Dockerfile", old, &[])]);
}
