//! Files that come close to a problem of `wrong/builds.rs`, and do not have it.

use lint::{Context, Exists};

use super::{NONE, PROJECT, expect};
use crate::findings_in;

#[test]
fn services_with_the_same_build_share_an_image() {
    let of = |one: &str, other: &str| {
        format!(
            "services:\n  a:\n    image: a:1\n    build: {one}\n  b:\n    image: a:1\n    build: {other}\n"
        )
    };
    for (one, other) in [
        (".", "."),
        (".", "{ context: ./, dockerfile: Dockerfile }"),
        ("{ context: ., args: [A=1, B=2] }", "{ context: ., args: { B: 2, A: 1 } }"),
    ] {
        expect("image-shared-name", NONE, &[("compose.yml", &of(one, other), &[])]);
    }
    let without = "services:\n  a:\n    image: a:1\n    build: .\n  b:\n    image: a:1\n";
    expect("image-shared-name", NONE, &[("compose.yml", without, &[])]);
}

#[test]
fn values_of_a_type_that_compose_accepts_are_right() {
    for line in [
        "ulimits: { memlock: -1 }",
        "tmpfs: /run",
        "dns: 1.1.1.1",
        "env_file: .env",
        "command: serve",
        "ports:",
        "ports: ~",
        "ports: !reset null",
        "ipc: !reset null",
        "volumes: !override []",
        "pid: host",
    ] {
        let text = format!("services:\n  a:\n    image: localhost/a\n    {line}\n");
        expect("compose-type", NONE, &[("compose.yml", &text, &[])]);
    }
    let fragment = "x-a: &a\n  devices: /dev/kfd\nservices:\n  a:\n    image: localhost/a\n";
    let list = "services:\n  a:\n    devices: [/dev/kfd]\n    ipc: [host]\n";
    expect("compose-type", NONE, &[("compose.yml", fragment, &[])]);
    expect("ipc-shared", NONE, &[("compose.yml", list, &[])]);
}

/// A folder with a Dockerfile and a start script.
#[derive(Debug)]
struct Folder {
    dockerfile: &'static str,
    script: &'static str,
}

impl Exists for Folder {
    fn exists(&self, _: &str, _: &str) -> Option<bool> {
        Some(true)
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        match path.trim_start_matches("./") {
            "Dockerfile" => Some(self.dockerfile.to_owned()),
            "entrypoint.sh" => Some(self.script.to_owned()),
            _ => None,
        }
    }
}

/// Returns the findings of a rule in a file of a folder.
fn inside(folder: &Folder, rule: &str, file: &str, text: &str) -> Vec<String> {
    let context = Context { exists: Some(folder), ..Context::default() };
    let found = findings_in(file, text, context);
    let found = found.iter().filter(|one| one.rule.id == rule);
    found.map(|one| format!("{} {}", one.line, one.severity.name())).collect()
}

#[test]
fn the_user_of_an_image_comes_from_its_dockerfile() {
    let service = |rest: &str| {
        format!("services:\n  a:\n    build: .\n    devices: [/dev/kfd, /dev/dri]\n{rest}")
    };
    let of = |dockerfile, rest: &str| {
        let folder = Folder { dockerfile, script: "" };
        inside(&folder, "render-group-missing", "compose.yml", &service(rest))
    };
    let user = "ARG U=65532\nFROM docker.io/a/b:1\nARG U\nUSER ${U}:${U}\n";
    assert_eq!(of(user, ""), ["4 information"]);
    assert_eq!(of(user, "    group_add: [\"992\"]\n"), [""; 0]);
    assert_eq!(of(user, "    user: \"0\"\n"), [""; 0]);
    assert_eq!(of(user, "    privileged: true\n"), [""; 0]);
    for dockerfile in [
        "FROM a/b\n",
        "FROM a/b\nUSER root\n",
        "FROM a/b\nUSER 0:0\n",
        "FROM a/b\n#USER developer\n",
        "FROM a/b\nARG U\nUSER $U\n",
        "FROM a/b\nUSER x\nFROM a/b\n",
        "FROM a/b\nRUN usermod -aG render x\nUSER x\n",
    ] {
        assert_eq!(of(dockerfile, ""), [""; 0], "{dockerfile}");
    }
}

#[test]
fn a_script_of_the_image_can_read_a_variable() {
    let dockerfile = "FROM ollama/ollama:rocm\nENV OLLAMA_MODEL=a\nCOPY entrypoint.sh /e/entrypoint.sh\nENTRYPOINT [\"/e/entrypoint.sh\"]\n";
    let service = "services:\n  ollama:\n    build: .\n    image: ollama-a\n    environment: [OLLAMA_MODEL=a]\n";
    let rule = "variable-does-not-exist";
    let reads = Folder { dockerfile, script: "ollama pull \"$OLLAMA_MODEL\"\n" };
    assert_eq!(inside(&reads, rule, "Dockerfile", dockerfile), [""; 0]);
    assert_eq!(inside(&reads, rule, "compose.yml", service), [""; 0]);
    let other = Folder { dockerfile, script: "ollama serve\n" };
    assert_eq!(inside(&other, rule, "Dockerfile", dockerfile), ["2 information"]);
    assert_eq!(inside(&other, rule, "compose.yml", service), ["5 warning"]);
    let target = service.replace("build: .", "build: { context: ., target: a }");
    assert_eq!(inside(&other, rule, "compose.yml", &target), ["5 warning"]);
    let plain = "FROM ollama/ollama:rocm\nENV OLLAMA_MODEL=a\n";
    assert_eq!(inside(&other, rule, "Dockerfile", plain), ["2 error"]);
}

#[test]
fn a_server_that_is_not_reached_or_has_a_key_is_not_open() {
    let manifest = |args: &str, service: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{ labels: {{ app: a }} }}\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/b@sha256:1\n      command: [llama-server, --port, \"8080\"]\n      args: [{args}]\n---\napiVersion: v1\nkind: Service\nspec:\n{service}"
        )
    };
    let open = "  type: NodePort\n  selector: { app: a }\n  ports: [{ port: 8080 }]\n";
    for (args, service, expected) in [
        ("--host, 0.0.0.0", open, &["14 information"][..]),
        ("--host, 0.0.0.0, --api-key, x", open, &[]),
        ("--host, 127.0.0.1", open, &[]),
        ("--host, 0.0.0.0", "  selector: { app: a }\n  ports: [{ port: 8080 }]\n", &[]),
        ("--host, 0.0.0.0", &open.replace("NodePort", "ClusterIP"), &[]),
        ("--host, 0.0.0.0", &open.replace("app: a", "app: b"), &[]),
        ("--host, 0.0.0.0", &open.replace("8080", "9090"), &[]),
    ] {
        expect("service-open", NONE, &[("a.yaml", &manifest(args, service), expected)]);
    }
    let local = "services:\n  a:\n    build: .\n    privileged: true\n    ports: [\"127.0.0.1:11434:11434\"]\n    environment: [HIP_VISIBLE_DEVICES=0]\n";
    let other = "services:\n  a:\n    build: .\n    privileged: true\n    ports: [\"8188:8188\"]\n";
    expect("service-open", NONE, &[("compose.yml", local, &[]), ("compose.yml", other, &[])]);
    let once = "services:\n  vllm:\n    image: vllm/vllm-openai-rocm:v0.17.1\n    devices: [/dev/kfd, /dev/dri]\n    ports: [\"8000:8000\"]\n    command: --model a --host 0.0.0.0\n";
    expect("service-open", NONE, &[("compose.yml", once, &["5 information"])]);
}

#[test]
fn a_file_that_a_shell_loads_needs_no_interpreter() {
    let bash = "if [[ -z $A ]]; then\n  exit 1\nfi\n";
    for (file, text) in [
        ("a/env.sh", format!("{bash}apt-get install -y a\n")),
        ("common.sh", format!("{bash}git clone a\n")),
        ("setup.sh", format!("# Use: source setup.sh\n{bash}git clone a\n")),
        ("setup.sh", format!("{bash}module load rocm\nexport A=1\n")),
        ("setup.sh", "function a() {\n  [[ -z $A ]] && git clone a\n}\n".to_owned()),
        ("setup.sh", "apt-get install -y a\n".to_owned()),
        ("setup.sh", format!("#!/bin/bash\n{bash}git clone a\n")),
    ] {
        expect("shebang", NONE, &[(file, &text, &[])]);
    }
}

#[test]
fn uv_keeps_torch_in_another_order_or_environment() {
    let torch = "uv pip install torch --index-url https://download.pytorch.org/whl/rocm6.4\n";
    for text in [
        format!("uv sync\n{torch}"),
        format!("{torch}uv sync --no-install-package torch\n"),
        format!("{torch}uv sync --extra rocm\n"),
        format!("{torch}uv sync --inexact\n"),
        format!("{torch}uv sync\n{torch}"),
        format!("{torch}uv pip install a\n"),
        format!("source /opt/venv/bin/activate\n{torch}uv sync\n"),
        torch.replace("install", "install --system") + "uv sync\n",
        torch.replace("rocm6.4", "cu128") + "uv sync\n",
    ] {
        expect("uv-sync-torch", NONE, &[("a.sh", &text, &[])]);
    }
}

#[test]
fn other_builds_read_the_targets_of_pytorch() {
    let clone = "git clone https://github.com/Dao-AILab/flash-attention\n";
    let arch = "export PYTORCH_ROCM_ARCH=gfx942\n";
    let build = "cd flash-attention\npython setup.py install\n";
    for text in [
        format!("{clone}{arch}export GPU_ARCHS=gfx942\n{build}"),
        format!("{clone}{arch}export FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE\n{build}"),
        format!("{clone}{arch}git clone https://github.com/a/b\n{build}"),
        format!("{clone}{arch}"),
        format!("{clone}{build}{arch}"),
    ] {
        expect("variable-without-effect", NONE, &[("a.sh", &text, &[])]);
    }
    let later = format!(
        "{clone}{arch}export FLASH_ATTENTION_TRITON_AMD_ENABLE=FALSE\n{build}export FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE\n{build}"
    );
    expect("variable-without-effect", NONE, &[("a.sh", &later, &["2 warning"])]);
}

#[test]
fn caches_passwords_and_downloads_that_are_used_as_intended() {
    let from = "FROM docker.io/a/b@sha256:1\n";
    let mount = "RUN --mount=type=cache,target=/root/.cache/pip";
    let used = format!("{from}{mount} pip install a==1\n");
    let one = format!("{from}{mount} pip install --no-cache-dir -U pip && pip install a==1\n");
    let other = format!(
        "{from}RUN --mount=type=cache,target=/var/cache/apt pip install --no-cache-dir a==1\n"
    );
    for text in [used, one, other] {
        expect("cache-mount-unused", NONE, &[("Dockerfile", &text, &[])]);
    }
    let elastic = "services:\n  a:\n    image: elasticsearch:8.13.0\n    environment: [ELASTIC_PASSWORD=changeme]\n";
    let local = format!("{elastic}    ports: [\"127.0.0.1:9200:9200\"]\n");
    let client = "services:\n  a:\n    image: a/app:1.2.3\n    environment: [ELASTIC_PASSWORD=changeme]\n    ports: [\"80:80\"]\n";
    for text in [elastic, &local, client] {
        expect("password-in-file", NONE, &[("compose.yml", text, &[])]);
    }
    let data = "curl -L https://h.example/a -o $D/a && chmod 644 $D/a\n";
    let unknown = "curl -L https://h.example/a -o $F && chmod +x $G\n";
    expect("download-unchecked", NONE, &[("a.sh", data, &[]), ("a.sh", unknown, &[])]);
    let wheels = "pip install https://h.example/a.whl \\\n  https://h.example/b.whl\n";
    expect("download-unchecked", NONE, &[("a.sh", wheels, &["1 warning"])]);
}

#[test]
fn options_that_only_a_caller_asks_for_and_small_models_are_no_problem() {
    let cases = "for a in \"$@\"; do\n  case \"$a\" in\n    *--nogpgcheck)\n      p=\"--nogpgcheck\"\n      ;;\n  esac\ndone\n# repo.radeon.com\ncurl https://repo.radeon.com/a\n";
    expect("packages-unsigned", NONE, &[("a.sh", cases, &[])]);
    let plain = "dnf install --nogpgcheck https://repo.radeon.com/a\n";
    expect("packages-unsigned", NONE, &[("a.sh", plain, &["1 warning"])]);
    expect("mmap-on-apu", PROJECT, &[("a.sh", "llama-server -m a.gguf -ngl 0\n", &[])]);
    expect(
        "mmap-on-apu",
        PROJECT,
        &[("a.sh", "llama-server -m a.gguf -ngl 99\n", &["1 information"])],
    );
    let trial = "docker run --rm docker.io/library/ubuntu:22.04 bash -c 'make test'\n";
    expect("image-unpinned", NONE, &[("a.sh", trial, &[])]);
    let kept = "docker run -d docker.io/library/golang:1\n";
    expect("image-unpinned", NONE, &[("a.sh", kept, &["1 information"])]);
}
