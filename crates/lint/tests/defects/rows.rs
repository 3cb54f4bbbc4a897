//! Innocent files that resemble a mistake which a row of the data describes.

use super::{NONE, expect};

#[test]
fn commands_of_pip_that_resemble_a_mistake() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "pip install git+https://github.com/ROCm/aiter.git\n", &[]),
        ("a.sh", "pip install https://github.com/a/b/archive/refs/tags/v1.zip\n", &[]),
        ("a.sh", "git clone https://github.com/ROCm/aiter.git\n", &[]),
        ("a.sh", "pip install -f https://github.com/a/b torch\n", &[]),
        // uv clones an address that ends in `.git`.
        ("a.sh", "uv pip install https://github.com/ROCm/aiter.git\n", &[]),
    ];
    expect("git-prefix-missing", NONE, cases);
    let index = "pip install torch --index-url https://download.pytorch.org/whl/";
    let cuda = format!("{index}cu${{CUDA_VERSION//./}}\n");
    let rocm = format!("{index}rocm${{ROCM_VERSION%.*}}\n{index}nightly/rocm7.2\n");
    expect("torch-index-name", NONE, &[("a.sh", &cuda, &[]), ("a.sh", &rocm, &[])]);
    expect("torch-test-index", NONE, &[("a.sh", &rocm, &[])]);
    expect("extra-removed", NONE, &[("a.sh", "pip install 'jax[rocm]==0.5.0'\n", &[])]);
    let image = "FROM scratch\nRUN pip install --find-links https://h.example/a tensorflow-rocm\n";
    expect("tensorflow-from-index", NONE, &[("Dockerfile", image, &[])]);
    expect("no-such-version", NONE, &[("a.sh", "pip install torch==2.7.0+rocm6.3\n", &[])]);
}

#[test]
fn a_test_of_the_value_of_hip_is_right() {
    let both = "python3 -c \"import torch; exit(0 if hasattr(torch.version, 'hip') and torch.version.hip else 1)\"\n";
    let print =
        "python3 - <<EOF\nif hasattr(torch.version, 'hip'):\n    print(torch.version.hip)\nEOF\n";
    expect("torch-check-useless", NONE, &[("a.sh", both, &[]), ("a.sh", print, &[])]);
}

#[test]
fn scripts_that_resemble_a_mistake() {
    let pipe = "echo 'options amdgpu a=1' | sudo tee -a /etc/modprobe.d/amdgpu.conf\n";
    expect("redirect-to-command", NONE, &[("a.sh", pipe, &[])]);
    let whole =
        "ARCH=$(rocminfo | grep -o 'gfx[0-9a-z]*' | head -1)\nrocminfo | grep -q 'gfx[0-9]+'\n";
    expect("gpu-detection", NONE, &[("a.sh", whole, &[])]);
    expect("kills-others", NONE, &[("a.sh", "fuser -v /dev/kfd\n", &[])]);
    let prune: &[(&str, &str, &[&str])] = &[
        ("a.sh", "docker system prune -f\n", &[]),
        ("a.sh", "docker image prune -af\n", &[]),
        ("a.sh", "docker volume prune -f --filter label=a\n", &[]),
    ];
    expect("prune-all", NONE, prune);
    let search: &[(&str, &str, &[&str])] = &[
        (
            "a.sh",
            "echo 'export LD_LIBRARY_PATH=/opt/rocm/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}' >> ~/.bashrc\n",
            &[],
        ),
        (
            "a.sh",
            "export LD_LIBRARY_PATH=\"/opt/rocm/lib:${LD_LIBRARY_PATH}\"\npython3 a.py\n",
            &[],
        ),
    ];
    expect("search-path-open", NONE, search);
    let served: &[(&str, &str, &[&str])] = &[
        ("a.sh", "rocm-smi\nvllm serve a --host 127.0.0.1\n", &[]),
        ("a.sh", "rocm-smi\nvllm serve a --api-key \"$KEY\"\n", &[]),
        // The script may be part of an image.
        ("a.sh", "vllm serve a\n", &[]),
    ];
    expect("service-open", NONE, served);
    let comments = "#!/bin/sh\n# For Debian 12, trixie and Ubuntu 24.04 (Noble)\nmake\n";
    expect("comment-contradicts", NONE, &[("a.sh", comments, &[])]);
}

#[test]
fn folders_and_packages_of_amd_that_exist() {
    let installer = "wget https://repo.radeon.com/amdgpu-install/6.0/ubuntu/jammy/amdgpu-install_6.0.60000-1_all.deb\nwget https://repo.radeon.com/rocm/windows/rocm-rel-7.2.0/a\n";
    let list = "echo 'deb https://repo.radeon.com/rocm/apt/6.0.2 jammy main' > a.list\n";
    for rule in ["rocm-folder-zero", "rocm-package-gone", "rocm-latest"] {
        expect(rule, NONE, &[("a.sh", installer, &[]), ("a.sh", list, &[])]);
    }
    let key = "wget https://repo.radeon.com/rocm/apt/debian/rocm.gpg.key\n";
    expect("rocm-latest", NONE, &[("a.sh", key, &[])]);
    let clone = "git clone https://github.com/ROCm/ROCm-docker\n";
    expect("rocm-package-gone", NONE, &[("a.sh", clone, &[])]);
}

#[test]
fn projects_at_a_known_commit_keep_their_files() {
    let vllm = "git clone https://github.com/vllm-project/vllm.git\ncd vllm\n";
    let tip = format!("{vllm}pip install -r requirements-rocm.txt\n");
    let old = format!("{vllm}git checkout v0.6.3\npip install -r requirements-rocm.txt\n");
    let both = format!("{tip}pip install -r requirements/rocm.txt\n");
    let own = "pip install -r requirements-build.txt\n";
    expect(
        "path-moved",
        NONE,
        &[
            ("a.sh", &tip, &["3 warning"]),
            ("a.sh", &old, &[]),
            ("a.sh", &both, &[]),
            ("a.sh", own, &[]),
        ],
    );
    let webui = "git clone https://github.com/AUTOMATIC1111/stable-diffusion-webui\ncd stable-diffusion-webui\n";
    let dev = format!("{webui}git switch dev\n./webui.sh\n");
    let copy = format!("export STABLE_DIFFUSION_REPO=https://h.example/a\n{webui}./webui.sh\n");
    let other = "git clone https://github.com/vladmandic/sdnext\n./webui.sh\n";
    expect(
        "repository-gone",
        NONE,
        &[("a.sh", &dev, &[]), ("a.sh", &copy, &[]), ("a.sh", other, &[])],
    );
    let model = "vllm serve meta-llama/Llama-3.2-3B-Instruct\n";
    let release =
        "docker run rocm/vllm:rocm6.3.1_vllm_0.6.6 vllm serve meta-llama/Llama-3.2-11B-Vision\n";
    expect("model-unsupported", NONE, &[("a.sh", model, &[]), ("a.sh", release, &[])]);
}

#[test]
fn variables_that_a_program_reads() {
    let image = "FROM scratch\nRUN apt-get install -y cmake\nENV CMAKE_PREFIX_PATH=/opt/rocm HIPCXX=/opt/rocm/llvm/bin/clang++\n";
    let passed = "FROM scratch\nENV CMAKE_HIP_ARCHITECTURES=gfx1151\nRUN cmake -B b -DCMAKE_HIP_ARCHITECTURES=$CMAKE_HIP_ARCHITECTURES\n";
    let nvidia = "services:\n  a:\n    image: localhost/a\n    runtime: nvidia\n    environment:\n      NVIDIA_VISIBLE_DEVICES: all\n";
    let empty = "services:\n  a:\n    image: localhost/a\n    environment:\n      NVIDIA_VISIBLE_DEVICES: ''\n";
    expect(
        "variable-without-effect",
        NONE,
        &[
            ("Dockerfile", image, &[]),
            ("Dockerfile", passed, &[]),
            ("compose.yml", nvidia, &[]),
            ("compose.yml", empty, &[]),
        ],
    );
    let cache = "FROM scratch\nENV MIOPEN_DISABLE_CACHE=0 NCCL_DEBUG=WARN\n";
    expect("debug-variable-baked", NONE, &[("Dockerfile", cache, &[])]);
    // RCCL has the level `ERROR`.
    let level = "export NCCL_DEBUG=ERROR\nexport NCCL_DEBUG=${NCCL_DEBUG:-WARN}\n";
    expect("value-unknown", NONE, &[("a.sh", level, &[])]);
}

#[test]
fn options_that_answer_or_ask_for_a_check() {
    let zypper = "FROM scratch\nRUN zypper install --no-confirm git\nRUN apt-get autoremove -y\n";
    expect("build-waits", NONE, &[("Dockerfile", zypper, &[])]);
    let local = "dnf install -y --nogpgcheck ./a.rpm\n";
    let option = "# https://repo.radeon.com/rocm/yum/6.4\nA=https://repo.radeon.com/a\ncase $1 in\n  *--nogpgcheck) p_nogpgcheck=\"--nogpgcheck\" ;;\nesac\n";
    expect("packages-unsigned", NONE, &[("a.sh", local, &[]), ("a.sh", option, &[])]);
    let unit = "[Service]\nEnvironmentFile=-/etc/default/llama\nExecStart=/bin/bash -c 'source /a/env.sh && b'\n";
    expect("environment-script", NONE, &[("a.service", unit, &[])]);
    let runner = "FROM scratch\nARG RUNNER_VERSION=2.337.0\nRUN curl -L https://github.com/actions/runner/releases/download/v${RUNNER_VERSION}/a\n";
    let other = "FROM scratch\nARG RUNNER_VERSION=2.317.0\nRUN gitlab-runner --version\n";
    expect("workflow-retired", NONE, &[("Dockerfile", runner, &[]), ("Dockerfile", other, &[])]);
}

#[test]
fn images_containers_and_pods_that_resemble_a_mistake() {
    let vllm = "FROM docker.io/vllm/vllm-openai-rocm:v0.19.0\n";
    let cuda = "FROM docker.io/vllm/vllm-openai:v0.19.0-cu130\n";
    let own = "FROM ghcr.io/own/vllm-openai:rocm\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", vllm, &[]), ("Dockerfile", cuda, &[]), ("Dockerfile", own, &[])];
    expect("image-moved", NONE, cases);
    let streamlit = "services:\n  a:\n    build: .\n    devices: [/dev/kfd, /dev/dri]\n    ports: ['127.0.0.1:8501:8501']\n";
    expect("service-open", NONE, &[("compose.yml", streamlit, &[])]);
    let twice = "services:\n  a:\n    image: docker.io/vllm/vllm-openai-rocm:v0.19.0\n    devices: [/dev/kfd, /dev/dri]\n    ports: ['8000:8000']\n    command: --model a\n";
    expect("service-open", NONE, &[("compose.yml", twice, &["5 information"])]);
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: { name: a }\nspec:\n  containers:\n    - name: a\n      image: docker.io/rocm/a@sha256:1\n      imagePullPolicy: Always\n";
    expect("image-updated", NONE, &[("pod.yaml", pod, &[])]);
    let cpu = "# Strix Halo\nllama-server -m a.gguf --n-gpu-layers 0\n";
    expect("mmap-on-apu", NONE, &[("a.sh", cpu, &[])]);
    let gpu = "cmake -B build -DGGML_HIP=ON -DAMDGPU_TARGETS=gfx1151\n";
    expect("gpu-target-missing", NONE, &[("a.sh", gpu, &[])]);
}

#[test]
fn the_name_of_a_series_is_the_name_of_its_gpu() {
    let text = "# For RDNA 3 (RX 7900 series)\nHSA_OVERRIDE_GFX_VERSION=11.0.0\n";
    expect("hsa-override-any-gpu", NONE, &[(".env", text, &[])]);
}
