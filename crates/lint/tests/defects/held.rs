//! Builds and installations that depend on what is there by chance, each beside one that does not.

use lint::{Context, Exists, check};

use super::{NONE, expect, of};
use crate::compat;

const PYTORCH: &str =
    "FROM docker.io/rocm/pytorch:rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.9.1@sha256:1\n";

#[test]
fn a_rocm_torch_is_held_by_constraints() {
    let rule = "torch-not-held";
    let base = |rest: &str| format!("{PYTORCH}{rest}\n");
    for (rest, expected) in [
        ("RUN pip install xformers", vec!["2 information"]),
        ("RUN pip install \\\n    jupyter \\\n    xformers", vec!["4 information"]),
        ("RUN pip install xformers==0.0.33", vec!["2 information"]),
        (
            "RUN git clone https://github.com/comfyanonymous/ComfyUI.git /c\nRUN pip install -r /c/requirements.txt",
            vec!["3 information"],
        ),
        // Something holds it, or no package requires another one.
        ("RUN pip install -c constraints.txt xformers", vec![]),
        ("RUN pip install --no-deps xformers", vec![]),
        ("ENV PIP_CONSTRAINT=/c.txt\nRUN pip install xformers", vec![]),
        ("RUN pip install peft", vec![]),
        ("RUN pip install accelerate==1.0.0 sentence-transformers", vec![]),
        ("RUN pip install flask numpy", vec![]),
        ("RUN pip install --index-url https://download.pytorch.org/whl/rocm6.4 torchaudio", vec![]),
        ("RUN pip install xformers && python -c 'import torch; assert torch.version.hip'", vec![]),
        ("RUN git clone https://github.com/a/b /c\nRUN pip install -r /c/requirements.txt", vec![]),
        (
            "RUN git clone https://github.com/comfyanonymous/ComfyUI.git /c && sed -i /torch/d /c/requirements.txt\nRUN pip install -r /c/requirements.txt",
            vec![],
        ),
        // It is installed again.
        (
            "RUN pip install xformers\nRUN pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/rocm6.4",
            vec![],
        ),
    ] {
        assert_eq!(of(rule, "Dockerfile", &base(rest), NONE), expected, "{rest}");
    }
    let own = "FROM docker.io/library/python:3.12@sha256:1\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm6.4\nRUN pip install xformers\n";
    let before = "FROM docker.io/library/python:3.12@sha256:1\nRUN pip install xformers\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm6.4\n";
    let other = "FROM docker.io/pytorch/pytorch:2.9.1@sha256:1\nRUN pip install xformers\n";
    let script = own.replace("RUN ", "").lines().skip(1).collect::<Vec<_>>().join("\n");
    expect(
        rule,
        NONE,
        &[
            ("Dockerfile", own, &["3 information"]),
            ("Dockerfile", before, &[]),
            ("Dockerfile", other, &[]),
            ("a.sh", &script, &["2 information"]),
        ],
    );
}

/// A folder with lists of requirements.
#[derive(Debug)]
struct Lists;

impl Exists for Lists {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        let text = match path {
            "torch.txt" => "numpy\ntorch\n",
            "plain.txt" => "numpy\nflask\n",
            "held.txt" => "torch==2.9.1+rocm7.2.1\npeft==0.14.0\n",
            "old.txt" => "contourpy==1.3.3\ngradio==4.29.0\nnumpy==2.2.6\n",
            "image/Dockerfile" => "FROM docker.io/library/debian:13@sha256:1\nUSER app\n",
            "root/Dockerfile" => "FROM docker.io/library/debian:13@sha256:1\n",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Returns the findings of a rule in a file of this folder, as lines.
fn with_lists(rule: &str, file: &str, text: &str) -> Vec<usize> {
    let compat = compat();
    let context = Context { exists: Some(&Lists), compat: Some(&compat), ..Context::default() };
    let all = check(file, text, context);
    all.iter().filter(|one| one.rule.id == rule).map(|one| one.line).collect()
}

#[test]
fn a_list_counts_if_it_contains_torch() {
    for (list, expected) in [("torch.txt", vec![3]), ("plain.txt", vec![]), ("held.txt", vec![])] {
        let text = format!("{PYTORCH}COPY {list} /a/{list}\nRUN pip install -r /a/{list}\n");
        assert_eq!(with_lists("torch-not-held", "Dockerfile", &text), expected, "{list}");
    }
}

#[test]
fn releases_are_for_some_versions_of_python() {
    let base = "FROM docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0@sha256:1\nCOPY old.txt /a/\nRUN pip install -r /a/old.txt\n";
    assert_eq!(with_lists("python-other", "Dockerfile", base), [3]);
    assert_eq!(with_lists("known-bad-version", "Dockerfile", base), [3]);
    let text = |python: &str, command: &str| {
        format!("FROM docker.io/library/python:{python}@sha256:1\nRUN {command}\n")
    };
    for (python, command, expected) in [
        ("3.10-slim", "pip install pandas==3.0.0", vec!["2 warning"]),
        ("3.11-slim", "pip install pandas==3.0.0", vec![]),
        ("3.10-slim", "pip install pandas", vec![]),
        ("3.9", "pip install open-webui", vec!["2 warning"]),
        ("3.12", "pip install numpy==1.24.4", vec!["2 warning"]),
        ("3.12", "pip install numpy==1.26.4", vec![]),
        ("3.10", "git clone https://github.com/open-webui/open-webui.git", vec!["2 warning"]),
        ("3.11", "git clone https://github.com/open-webui/open-webui.git", vec![]),
        ("3.10", "git clone -b v0.3.0 https://github.com/open-webui/open-webui.git", vec![]),
        ("3.10", "git clone https://github.com/a/b.git", vec![]),
        ("3.10", "uv python install 3.12 && uv pip install pandas==3.0.0", vec![]),
    ] {
        let text = text(python, command);
        assert_eq!(of("python-other", "Dockerfile", &text, NONE), expected, "{text}");
    }
}

#[test]
fn an_old_release_needs_an_upper_limit_for_its_neighbour() {
    for (list, expected) in [
        ("torch==1.13.1+rocm5.2\nnumpy\n", vec!["1 information"]),
        ("torch==1.13.1+rocm5.2\nnumpy>=1.20\n", vec!["1 information"]),
        ("torch==1.13.1+rocm5.2\nnumpy<2\n", vec![]),
        ("torch==1.13.1+rocm5.2\nnumpy==1.26.4\n", vec![]),
        ("torch==2.4.1\nnumpy\n", vec![]),
        ("torch==1.13.1+rocm5.2\n", vec![]),
        ("diffusers==0.27.2\nhuggingface_hub\n", vec!["1 information"]),
        ("diffusers==0.27.2\nhuggingface_hub==0.30.0\n", vec!["1 warning"]),
        ("diffusers==0.31.0\nhuggingface_hub\n", vec![]),
    ] {
        let found = of("known-bad-version", "requirements.txt", list, NONE);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let found: Vec<&str> =
            found.into_iter().map(|one| if one == "1 error" { "1 warning" } else { one }).collect();
        assert_eq!(found, expected, "{list}");
    }
}

#[test]
fn a_package_brings_its_neighbour_without_a_limit() {
    let image = |rest: &str| {
        format!(
            "FROM docker.io/library/python:3.10@sha256:1\nRUN pip install torch==1.13.1 torchvision==0.14.1{rest}\n"
        )
    };
    let (plain, limited) = (image(""), image(" scipy==1.10.1"));
    let (listed, apart) = (image(" -r requirements.txt"), image(" && pip install 'numpy<2'"));
    expect(
        "known-bad-version",
        NONE,
        &[
            ("Dockerfile", &plain, &["2 information"]),
            ("Dockerfile", &limited, &[]),
            ("Dockerfile", &listed, &[]),
            ("Dockerfile", &apart, &[]),
        ],
    );
}

#[test]
fn a_package_brings_another_triton() {
    let rule = "packages-same-module";
    let image = |rest: &str| {
        format!(
            "FROM docker.io/library/python:3.12@sha256:1\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm6.4\nRUN pip install {rest}\n"
        )
    };
    for (rest, expected) in [
        ("openai-whisper", vec!["3 warning"]),
        ("--no-deps openai-whisper", vec![]),
        ("faster-whisper", vec![]),
        (
            "openai-whisper && pip install --force-reinstall pytorch-triton-rocm --index-url https://a.example/",
            vec![],
        ),
    ] {
        assert_eq!(of(rule, "Dockerfile", &image(rest), NONE), expected, "{rest}");
    }
    // The wheels of AMD require `triton` itself.
    let amd = "FROM docker.io/rocm/pytorch:rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.9.1@sha256:1\nRUN pip install openai-whisper\n";
    let list = |index: &str| {
        format!(
            "--extra-index-url https://download.pytorch.org/whl/{index}\ntorch\nopenai-whisper\n"
        )
    };
    let (rocm, cpu) = (list("rocm6.4"), list("cpu"));
    expect(
        rule,
        NONE,
        &[
            ("Dockerfile", amd, &[]),
            ("requirements.txt", &rocm, &["3 warning"]),
            ("requirements.txt", &cpu, &[]),
        ],
    );
}

#[test]
fn gpu_code_is_compiled_for_named_targets() {
    let rule = "gpu-target-missing";
    let image = |rest: &str| {
        format!("FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\n{rest}\n")
    };
    for (rest, expected) in [
        ("RUN make LLAMA_HIPBLAS=1 -j8", vec!["2 warning"]),
        ("ENV HSA_OVERRIDE_GFX_VERSION=10.3.0\nRUN make GGML_HIPBLAS=1", vec!["3 warning"]),
        ("RUN CMAKE_ARGS=\"-DGGML_HIP=ON\" pip install llama-cpp-python", vec!["2 warning"]),
        ("RUN cmake -DCOMPUTE_BACKEND=hip -S . && make", vec!["2 information"]),
        ("RUN make LLAMA_HIPBLAS=1 GPU_TARGETS=gfx1100", vec![]),
        ("ARG TARGETS\nRUN make LLAMA_HIPBLAS=1 AMDGPU_TARGETS=$TARGETS", vec![]),
        ("RUN make LLAMA_OPENBLAS=1", vec![]),
        (
            "RUN CMAKE_ARGS=\"-DGGML_HIP=ON -DGPU_TARGETS=gfx1100\" pip install llama-cpp-python",
            vec![],
        ),
        ("RUN CMAKE_ARGS=\"-DGGML_HIP=OFF\" pip install llama-cpp-python", vec![]),
        ("RUN cmake -DCOMPUTE_BACKEND=hip -DBNB_ROCM_ARCH=gfx1100 -S .", vec![]),
        ("RUN cmake -DCOMPUTE_BACKEND=cpu -S .", vec![]),
    ] {
        assert_eq!(of(rule, "Dockerfile", &image(rest), NONE), expected, "{rest}");
    }
    // On a host, the Makefile finds the GPU.
    expect(rule, NONE, &[("a.sh", "make LLAMA_HIPBLAS=1 -j8\n", &[])]);
}

#[test]
fn the_number_of_a_group_belongs_to_one_machine() {
    expect(
        "group-number",
        NONE,
        &[
            (".env", "RENDER_GID=109\n", &["1 information"]),
            (".env", "# the number that `stat -c %g /dev/kfd` prints\nRENDER_GID=109\n", &[]),
            (".env.example", "RENDER_GID=992 # adjust it\n", &[]),
            (".env", "RENDER_GID=\nVIDEO_GID=44\nPORT=109\n", &[]),
        ],
    );
    let compose = |folder: &str, groups: &str| {
        format!(
            "services:\n  a:\n    build: {folder}\n    devices: [/dev/kfd, /dev/dri]\n    group_add: [{groups}]\n"
        )
    };
    for (folder, groups, expected) in [
        ("image", "video", vec![4]),
        ("image", "video, \"992\"", vec![]),
        ("image", "video, render", vec![]),
        ("root", "video", vec![]),
    ] {
        let text = compose(folder, groups);
        assert_eq!(with_lists("render-group-missing", "compose.yml", &text), expected, "{text}");
    }
}

#[test]
fn an_override_in_the_start_command_is_for_every_run() {
    let image = |start: &str| format!("FROM docker.io/library/debian:13@sha256:1\n{start}\n");
    let shell = image("ENTRYPOINT cd /a && HSA_OVERRIDE_GFX_VERSION=10.3.0 python3 main.py");
    let build = image("RUN HSA_OVERRIDE_GFX_VERSION=10.3.0 python3 main.py");
    let named = image("# For the RX 6800\nCMD HSA_OVERRIDE_GFX_VERSION=10.3.0 python3 main.py");
    expect(
        "hsa-override-any-gpu",
        NONE,
        &[
            ("Dockerfile", &shell, &["2 information"]),
            ("Dockerfile", &build, &[]),
            ("Dockerfile", &named, &[]),
        ],
    );
}

#[test]
fn a_server_gets_an_address() {
    let image =
        |rest: &str| format!("FROM docker.io/library/debian:13@sha256:1\nEXPOSE 8080\n{rest}\n");
    for (rest, expected) in [
        ("ENTRYPOINT [\"/app/llama-server\"]", vec!["3 information"]),
        ("CMD [\"uvicorn\", \"app:app\"]", vec!["3 information"]),
        ("ENTRYPOINT [\"llama-server\"]\nCMD [\"--help\"]", vec![]),
        ("ENTRYPOINT [\"llama-server\"]\nCMD [\"--host\", \"0.0.0.0\"]", vec![]),
        ("ENV LLAMA_ARG_HOST=0.0.0.0\nENTRYPOINT [\"llama-server\"]", vec![]),
        ("ENTRYPOINT [\"vllm\", \"serve\"]", vec![]),
    ] {
        let text = image(rest);
        assert_eq!(of("server-unreachable", "Dockerfile", &text, NONE), expected, "{rest}");
    }
    // The base can set the variable.
    let based = "FROM ghcr.io/ggml-org/llama.cpp:server@sha256:1\nEXPOSE 8080\nENTRYPOINT [\"/app/llama-server\"]\n";
    expect("server-unreachable", NONE, &[("Dockerfile", based, &[])]);
}

#[test]
fn a_cache_is_mounted_for_its_user() {
    let image = |user: &str, target: &str| {
        format!(
            "FROM docker.io/library/python:3.12@sha256:1\nUSER {user}\nRUN --mount=type=cache,target={target} uv sync --frozen\n"
        )
    };
    for (user, target, expected) in [
        ("app", "/root/.cache/uv", vec!["3 information"]),
        ("root", "/root/.cache/uv", vec![]),
        ("app", "/home/app/.cache/uv,uid=1000", vec![]),
    ] {
        let text = image(user, target);
        assert_eq!(of("cache-mount-unused", "Dockerfile", &text, NONE), expected, "{text}");
    }
    let set =
        image("app", "/root/.cache/uv").replace("USER", "ENV UV_CACHE_DIR=/root/.cache/uv\nUSER");
    expect("cache-mount-unused", NONE, &[("Dockerfile", &set, &[])]);
}

#[test]
fn linux_has_no_drives() {
    let compose = |source: &str, devices: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    devices: [{devices}]\n    volumes:\n      - {source}:/data\n"
        )
    };
    let (drive, folder) = (compose("D:/models", "/dev/kfd"), compose("./models", "/dev/kfd"));
    let (other, wsl) =
        (compose("D:/models", "/dev/snd"), compose("D:/models", "/dev/dxg, /dev/dri"));
    expect(
        "mount-path",
        NONE,
        &[
            ("compose.yml", &drive, &["6 error"]),
            ("compose.yml", &folder, &[]),
            ("compose.yml", &other, &[]),
            ("compose.yml", &wsl, &[]),
        ],
    );
}

#[test]
fn selinux_separates_containers_from_devices() {
    let quadlet = |rest: &str| {
        format!("[Container]\nImage=docker.io/a/b@sha256:1\nAddDevice=/dev/kfd\n{rest}")
    };
    let (plain, off) = (quadlet(""), quadlet("SecurityLabelDisable=true\n"));
    let said = quadlet("# setsebool -P container_use_devices=1\n");
    let image = plain.replace("docker.io/a/b", "quay.io/fedora/b");
    expect(
        "selinux-denies",
        NONE,
        &[
            ("fedora/a.container", &plain, &["3 information"]),
            ("fedora/a.container", &off, &[]),
            ("fedora/a.container", &said, &[]),
            ("debian/a.container", &plain, &[]),
            ("a.container", &image, &[]),
        ],
    );
}

#[test]
fn current_releases_refuse_pip() {
    let image = |base: &str| {
        format!(
            "FROM docker.io/library/{base}@sha256:1\nRUN apt-get update && apt-get install -y python3-pip\nRUN pip3 install flask\n"
        )
    };
    let (latest, old) = (image("ubuntu:latest"), image("ubuntu:22.04"));
    expect(
        "pip-refused",
        NONE,
        &[
            ("Dockerfile", &latest, &["3 error"]),
            ("Dockerfile", &old, &[]),
            ("a.sh", "sudo apt install -y python3-pip\npip3 install flask\n", &["2 information"]),
            (
                "a.sh",
                "sudo apt install -y python3-venv\npython3 -m venv a\npip3 install flask\n",
                &[],
            ),
            (
                "a.sh",
                "sudo apt install -y python3-pip\npip3 install --break-system-packages flask\n",
                &[],
            ),
            (
                "a.sh",
                "sudo apt install -y python3-pip # Ubuntu 22.04\necho jammy\npip3 install flask\n",
                &[],
            ),
            ("a.sh", "sudo dnf install -y python3-pip\npip3 install flask\n", &[]),
        ],
    );
}

#[test]
fn images_without_package_lists_are_known() {
    let image = |base: &str| format!("FROM {base}\nRUN apt install -y python3\n");
    let (amd, own) =
        (image("docker.io/rocm/dev-ubuntu-24.04:7.2.1@sha256:1"), image("docker.io/a/b@sha256:1"));
    expect(
        "package-lists-missing",
        NONE,
        &[
            ("Dockerfile", &amd, &["2 error"]),
            ("Dockerfile", &own, &["2 warning"]),
            ("a.sh", "set -e\napt install -y git\n", &["2 information"]),
            ("a.sh", "apt-get update\napt install -y git\n", &[]),
            ("a.sh", "sudo apt install -y git\n", &[]),
            ("a.sh", "if true; then\n  apt install -y git\nfi\n", &[]),
            ("a.sh", "apt install -y ./a.deb\n", &[]),
        ],
    );
}

#[test]
fn names_that_are_nearly_right_are_wrong() {
    for (rule, file, wrong, right) in [
        (
            "package-needs-program",
            "requirements.txt",
            "wxPython\n",
            "wxPython; sys_platform == \"win32\"\n",
        ),
        ("jobs-unlimited", "a.sh", "make -j$(proc)\n", "make -j$(nproc)\n"),
        (
            "missing-file",
            "a.sh",
            "ln -s ~/.nvm/versions/node/v20/bin/node /usr/local/bin/node\n",
            "ln -s ~/.nvm/versions/node/v20.11.1/bin/node /usr/local/bin/node\n",
        ),
        (
            "bitsandbytes-stale",
            "a.sh",
            "git clone -b rocm_enabled https://github.com/ROCm/bitsandbytes\n",
            "git clone -b v1 https://github.com/bitsandbytes-foundation/bitsandbytes\n",
        ),
        (
            "context-too-long",
            ".env",
            "ARGS=\"-c 16384 -m /models/Meta-Llama-3-8B-Instruct.gguf\"\n",
            "ARGS=\"-c 16384 -m /models/Llama-3.1-8B-Instruct.gguf\"\n",
        ),
        (
            "mesa-too-old",
            "Dockerfile",
            "FROM docker.io/library/ubuntu:22.04@sha256:1\nRUN apt-get update && apt-get install -y mesa-vulkan-drivers\n",
            "FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN apt-get update && apt-get install -y mesa-vulkan-drivers\n",
        ),
        (
            "image-tag-scheme",
            "Dockerfile",
            "FROM docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch2.3.0\n",
            "FROM docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0\n",
        ),
    ] {
        assert_eq!(of(rule, file, wrong, NONE).len(), 1, "{rule}: {wrong}");
        assert!(of(rule, file, right, NONE).is_empty(), "{rule}: {right}");
    }
}
