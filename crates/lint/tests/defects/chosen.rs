//! GPUs that a program gets only on paper: what a compose file chooses for its Dockerfile, devices that
//! may be missing, models that need a token, and variables that nothing reads.

use lint::{Context, Exists, check};

use super::{NONE, expect};
use crate::compat;

/// A folder with a Dockerfile and a list of requirements.
#[derive(Debug)]
struct Beside {
    dockerfile: &'static str,
    list: &'static str,
}

impl Exists for Beside {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        match path.trim_start_matches("./") {
            "Dockerfile" => Some(self.dockerfile.to_owned()),
            "requirements.txt" => Some(self.list.to_owned()),
            _ => None,
        }
    }
}

/// Returns the findings of a rule in a compose file beside a Dockerfile, as `LINE message`.
fn beside(rule: &str, compose: &str, dockerfile: &'static str, list: &'static str) -> Vec<String> {
    beside_file(rule, "compose.yml", compose, dockerfile, list)
}

/// Returns the findings of a rule in a file beside a Dockerfile, as `LINE message`.
fn beside_file(
    rule: &str,
    file: &str,
    text: &str,
    dockerfile: &'static str,
    list: &'static str,
) -> Vec<String> {
    let compat = compat();
    let folder = Beside { dockerfile, list };
    let context = Context {
        compat: Some(&compat),
        today: Some("2026-11-21"),
        exists: Some(&folder),
        ..Context::default()
    };
    let found = check(file, text, context);
    let own = found.iter().filter(|one| one.rule.id == rule);
    own.map(|one| format!("{} {}", one.line, one.message)).collect()
}

const BUILT: &str = "services:\n  a:\n    build:\n      context: .\n      args:\n        ";

#[test]
fn a_dockerfile_is_read_with_the_arguments_of_its_service() {
    let base = "ARG BASE=docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\nFROM ${BASE}\nRUN make\n";
    let compose = |value: &str| format!("{BUILT}BASE: {value}\n");
    let old = compose("docker.io/rocm/dev-ubuntu-22.04:5.7-complete@sha256:1");
    let found = beside("rocm-outdated", &old, base, "");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("6 with `BASE=docker.io/rocm"), "{found:?}");
    // The value of the Dockerfile, another new release, and a value that is not known.
    for value in [
        "docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1",
        "docker.io/rocm/dev-ubuntu-24.04:7.2.2-complete@sha256:1",
        "${BASE}",
    ] {
        assert!(beside("rocm-outdated", &compose(value), base, "").is_empty(), "{value}");
    }
    // A script can choose it, too.
    let script = "docker build --build-arg BASE=docker.io/rocm/dev-ubuntu-22.04:5.7-complete@sha256:1 -t localhost/a .\n";
    let said = beside_file("rocm-outdated", "a.sh", script, base, "");
    assert!(said.len() == 1 && said[0].contains("line 2 of `Dockerfile`"), "{said:?}");
    // What is wrong in any case is said of the Dockerfile.
    let plain =
        "ARG BASE=x\nFROM docker.io/rocm/dev-ubuntu-22.04:5.7-complete@sha256:1\nRUN make\n";
    let other = format!("{BUILT}BASE: y\n");
    assert!(beside("rocm-outdated", &other, plain, "").is_empty());
}

#[test]
fn a_service_with_a_gpu_has_a_torch_that_can_use_it() {
    let rule = "image-without-rocm";
    let service = |build: &str| {
        format!(
            "services:\n  a:\n    build:\n{build}    devices:\n      - /dev/kfd\n      - /dev/dri\n"
        )
    };
    let plain = service("      context: .\n");
    let python = "FROM docker.io/library/python:3.12-slim@sha256:1\n";
    let cases: [(&'static str, &'static str, usize); 11] = [
        ("RUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cpu\n", "", 1),
        (
            "RUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu128\n",
            "",
            1,
        ),
        ("RUN pip install torch==2.9.1\n", "", 1),
        (
            "COPY requirements.txt .\nRUN pip install -r requirements.txt\n",
            "flask\ntorch==2.9.1\n",
            1,
        ),
        // The list or the command chooses another index, or another program uses the GPU.
        (
            "COPY requirements.txt .\nRUN pip install -r requirements.txt\n",
            "--index-url https://download.pytorch.org/whl/rocm7.1\ntorch==2.9.1\n",
            0,
        ),
        (
            "RUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/rocm7.1\n",
            "",
            0,
        ),
        ("RUN pip install torch==2.9.1 --index-url https://example.org/simple\n", "", 0),
        ("RUN pip install torch==2.9.1 llama-cpp-python\n", "", 0),
        ("RUN pip install flask\n", "", 0),
        // A branch installs another build for another GPU.
        (
            "RUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cpu\nRUN if [ \"$A\" = b ]; then pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/xpu; fi\n",
            "",
            1,
        ),
        (
            "RUN if [ \"$A\" = b ]; then pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cpu; fi\n",
            "",
            0,
        ),
    ];
    for (rest, list, expected) in cases {
        let text: &'static str = Box::leak(format!("{python}{rest}").into_boxed_str());
        let found = beside(rule, &plain, text, list);
        assert_eq!(found.len(), expected, "{rest}: {found:?}");
    }
    let cuda =
        "FROM docker.io/nvidia/cuda:12.8.1-runtime-ubuntu24.04@sha256:1\nRUN pip install flask\n";
    assert_eq!(beside(rule, &plain, cuda, "").len(), 1);
    // The argument chooses the stage.
    let stages = "ARG KIND=gpu\nFROM docker.io/library/python:3.12-slim@sha256:1 AS gpu\nRUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/rocm7.1\nFROM docker.io/library/python:3.12-slim@sha256:1 AS plain\nRUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cpu\nFROM ${KIND}\nRUN echo a\n";
    let kind = |kind: &str| service(&format!("      context: .\n      args: [KIND={kind}]\n"));
    assert_eq!(beside(rule, &kind("plain"), stages, "").len(), 1);
    assert!(beside(rule, &kind("gpu"), stages, "").is_empty());
    let target = |name: &str| service(&format!("      context: .\n      target: {name}\n"));
    assert_eq!(beside(rule, &target("plain"), stages, "").len(), 1);
    assert!(beside(rule, &target("gpu"), stages, "").is_empty());
    // Without /dev/kfd, the service may be meant for another GPU.
    let other = "services:\n  a:\n    build: .\n";
    assert!(beside(rule, other, cuda, "").is_empty());
}

#[test]
fn a_gpu_is_not_optional() {
    let quadlet = |image: &str, devices: &[&str]| {
        let devices: String = devices.iter().map(|one| format!("AddDevice={one}\n")).collect();
        format!("[Container]\nImage=docker.io/a/{image}@sha256:1\n{devices}")
    };
    let (rocm, vulkan) = ("a:rocm", "a:vulkan");
    let cases: [(String, &[&str]); 8] = [
        (quadlet(vulkan, &["-/dev/dri"]), &["3 information"]),
        (quadlet(rocm, &["-/dev/kfd", "-/dev/dri"]), &["3 information", "4 information"]),
        (quadlet(rocm, &["-/dev/kfd", "/dev/dri"]), &["3 information"]),
        (quadlet(rocm, &["/dev/kfd", "-/dev/dri"]), &[]),
        (quadlet(vulkan, &["-/dev/dri/card1", "/dev/dri/renderD128"]), &[]),
        (quadlet(vulkan, &["/dev/dri"]), &[]),
        (quadlet(vulkan, &["-/dev/accel"]), &[]),
        (quadlet("a:1", &["-/dev/dri"]), &[]),
    ];
    for (text, expected) in cases {
        expect("device-optional", NONE, &[("a.container", &text, expected)]);
    }
    let pod = |kind: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/b:1\n      securityContext:\n        privileged: true\n      volumeMounts:\n        - name: dri\n          mountPath: /dev/dri\n  volumes:\n    - name: dri\n      hostPath:\n        path: /dev/dri\n        type: {kind}\n"
        )
    };
    for (kind, expected) in [("DirectoryOrCreate", &["18 information"][..]), ("Directory", &[])] {
        expect("device-optional", NONE, &[("pod.yaml", &pod(kind), expected)]);
    }
}

#[test]
fn users_can_set_a_group_with_a_default() {
    let compose = |group: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b:1\n    user: \"1000\"\n    devices:\n      - /dev/kfd\n    group_add:\n      - {group}\n"
        )
    };
    let asked = compose("\"109\"").replace("group_add:", "group_add: # your number");
    let cases: [(&str, &[&str]); 4] = [
        (&compose("\"109\""), &["8 information"]),
        (&compose("\"${RENDER_GID:-109}\""), &[]),
        (&compose("\"${RENDER_GID:?}\""), &[]),
        (&asked, &[]),
    ];
    for (text, expected) in cases {
        expect("group-number", NONE, &[("compose.yml", text, expected)]);
    }
    let help = |group: &str| {
        let found = crate::findings_in("compose.yml", &compose(group), lint::Context::default());
        found.into_iter().find(|one| one.rule.id == "group-number").unwrap().help
    };
    assert!(help("\"985\"  # video").contains("getent group video"));
    assert!(help("\"989\"  # render").contains("stat -c %g /dev/kfd"));
}

#[test]
fn a_gated_model_needs_a_token() {
    let service = |model: &str, rest: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/vllm/vllm-openai-rocm:v0.25.0@sha256:1\n    command: --model {model} --port 8000\n{rest}"
        )
    };
    let llama = "meta-llama/Llama-3.1-8B-Instruct";
    let token = "    environment:\n      - HF_TOKEN=${HF_TOKEN:?}\n";
    let offline = "    environment:\n      - HF_HUB_OFFLINE=1\n";
    let file = "    env_file: .env\n";
    // The folder of the host also contains the token.
    let cache = "    volumes:\n      - ~/.cache/huggingface:/root/.cache/huggingface\n";
    let volume = "    volumes:\n      - models:/root/.cache/huggingface\n";
    let cases: [(&str, &[&str]); 9] = [
        (&service(llama, cache), &[]),
        (&service(llama, volume), &["4 warning"]),
        (&service(llama, ""), &["4 warning"]),
        (&service("google/gemma-3-27b-it", ""), &["4 warning"]),
        (&service(llama, token), &[]),
        (&service(llama, offline), &[]),
        (&service(llama, file), &[]),
        (&service("Qwen/Qwen3-8B", ""), &[]),
        (&service("/models/meta-llama/Llama-3.1-8B", ""), &[]),
    ];
    for (text, expected) in cases {
        expect("model-gated", NONE, &[("compose.yml", text, expected)]);
    }
    let unit = format!(
        "[Container]\nImage=docker.io/vllm/vllm-openai-rocm:v0.25.0@sha256:1\nExec={llama}\n"
    );
    let exec = unit.replace("Exec=", "Exec=--model=");
    expect("model-gated", NONE, &[("a.container", &exec, &["3 warning"])]);
}

#[test]
fn a_nightly_index_ends_with_its_rocm() {
    let install = |index: &str| {
        format!("pip install --pre torch --index-url https://download.pytorch.org/whl/{index}\n")
    };
    for (index, expected) in [
        ("nightly/rocm6.0", &["1 warning"][..]),
        ("nightly/rocm5.7", &["1 warning"]),
        ("nightly/rocm7.2", &["1 warning"]),
        ("nightly/rocm7.14", &[]),
        ("nightly/rocm10.0", &[]),
        ("rocm6.4", &[]),
    ] {
        expect("index-moved", NONE, &[("a.sh", &install(index), expected)]);
    }
}

#[test]
fn old_wheels_of_a_list_name_their_rocm() {
    let wheel = |stamp: &str| {
        format!(
            "https://h.example/a/releases/download/v1/a-1.0+{stamp}-cp311-cp311-linux_x86_64.whl\nflask==1.0\n"
        )
    };
    // A wheel for one system only.
    let linux = wheel("rocm5.6").replace(".whl", ".whl; platform_system == \"Linux\"");
    let two = format!("{linux}{}", linux.replace("rocm5.6", "rocm7.2"));
    let cases: [(&str, &[&str]); 5] = [
        (&wheel("rocm5.6"), &["1 information"]),
        (&linux, &["1 information"]),
        (&wheel("rocm7.2"), &[]),
        (&wheel("cu121"), &[]),
        (&two, &[]),
    ];
    for (text, expected) in cases {
        expect("rocm-outdated", NONE, &[("requirements.txt", text, expected)]);
    }
}

#[test]
fn variables_have_readers() {
    let cases: [(&str, &str, &[&str]); 8] = [
        ("variable-build-only", "HCC_AMDGPU_TARGET=gfx1030", &["6 information"]),
        ("variable-renamed", "GGML_VULKAN_DEVICE=0", &["6 information"]),
        ("variable-unknown", "GGML_VK_DEVICE=0", &["6 warning"]),
        ("variable-unknown", "GGML_VK_VISIBLE_DEVICES=0", &[]),
        ("variable-without-effect", "RADV_PERFTEST=aco", &["6 information"]),
        ("variable-without-effect", "RADV_PERFTEST=video_decode,aco", &["6 information"]),
        ("variable-without-effect", "RADV_PERFTEST=nogttspill", &[]),
        ("variable-without-effect", "CUDA_DEVICE_ORDER=PCI_BUS_ID", &[]),
    ];
    let service = |own: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b:1\n    environment:\n      - A=1\n      - {own}\n"
        )
    };
    for (rule, own, expected) in cases {
        expect(rule, NONE, &[("compose.yml", &service(own), expected)]);
    }
    let amd = service("CUDA_DEVICE_ORDER=PCI_BUS_ID\n      - HIP_VISIBLE_DEVICES=0,1");
    expect("variable-without-effect", NONE, &[("compose.yml", &amd, &["6 information"])]);
}

#[test]
fn mesa_comes_with_the_loader() {
    let image = |base: &str, packages: &str| {
        format!(
            "FROM docker.io/library/ubuntu:{base}@sha256:1\nRUN apt-get update && apt-get install -y {packages}\n"
        )
    };
    let built =
        format!("{}FROM docker.io/library/ubuntu:24.04@sha256:1\n", image("22.04", "vulkan-sdk"));
    let cases: [(&str, &[&str]); 6] = [
        (&image("22.04", "libvulkan1"), &["1 information"]),
        (&image("22.04", "vulkan-sdk libvulkan-dev"), &["1 information"]),
        (&image("24.04", "libvulkan1"), &[]),
        (&image("22.04", "--no-install-recommends libvulkan1"), &[]),
        (&image("22.04", "curl"), &[]),
        // The stage only compiles.
        (&built, &[]),
    ];
    for (text, expected) in cases {
        expect("mesa-too-old", NONE, &[("Dockerfile", text, expected)]);
    }
}

#[test]
fn a_download_by_the_api_is_part_of_the_start() {
    let unit = |command: &str| {
        format!("[Container]\nImage=localhost/a\n[Service]\nExecStartPost={command}\n")
    };
    let pull = unit("/usr/bin/curl http://localhost:11434/api/pull -d '{\"model\": \"a\"}'");
    let list = unit("/usr/bin/curl http://localhost:11434/api/tags");
    let cases: [(&str, &str, &[&str]); 2] =
        [("a.container", &pull, &["4 information"]), ("a.container", &list, &[])];
    expect("unit-start-timeout", NONE, &cases);
}

#[test]
fn the_newest_transformers_needs_a_current_torch() {
    let image = |tag: &str, rest: &str| {
        format!("FROM docker.io/rocm/pytorch:{tag}@sha256:1\nRUN pip install {rest}\n")
    };
    let old = "rocm5.7_ubuntu22.04_py3.10_pytorch_2.0.1";
    let new = "rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.9.1";
    let before = "rocm5.7_ubuntu20.04_py3.9_pytorch_2.0.1";
    let cases: [(String, &[&str]); 7] = [
        (image(old, "flask==3.1.0 transformers"), &["2 information"]),
        (image(old, "transformers==4.46.3"), &[]),
        (image(old, "'transformers<5'"), &[]),
        (image(old, "flask==3.1.0"), &[]),
        (image(new, "transformers"), &[]),
        // The newest release for this Python is older.
        (image(before, "transformers"), &[]),
        (image(old, "torch==2.9.1 transformers"), &[]),
    ];
    for (text, expected) in cases {
        expect("known-bad-version", NONE, &[("Dockerfile", &text, expected)]);
    }
    let list = |torch: &str, other: &str| format!("torch=={torch}\n{other}\n");
    let cases: [(String, &[&str]); 3] = [
        (list("2.1.0+rocm5.6", "transformers"), &["1 information"]),
        (list("2.6.0", "transformers"), &[]),
        (list("2.1.0+rocm5.6", "transformers==4.57.6"), &[]),
    ];
    for (text, expected) in cases {
        expect("known-bad-version", NONE, &[("requirements.txt", &text, expected)]);
    }
}
