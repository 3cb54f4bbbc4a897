//! Mistakes with AMD GPUs that people who know them find, and similar files without the mistake.

use super::{NONE, expect};

/// Returns a Dockerfile that starts from an image with ROCm.
fn rocm(lines: &str) -> String {
    format!("FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1@sha256:1\n{lines}")
}

#[test]
fn packages_whose_default_build_is_for_the_cpu() {
    let jax = rocm("RUN pip install --upgrade jax jaxlib\n");
    let local = rocm("RUN pip install \"jax[rocm7-local]\"\n");
    let wheel = rocm(
        "RUN pip install https://h.example/rocm/jax_rocm7_plugin-0.7.1-py3-none-any.whl\nRUN pip install jaxlib==0.7.1 jax==0.7.1\n",
    );
    let llama = rocm("RUN pip install llama-cpp-python==0.3.9\n");
    let hip = rocm("RUN CMAKE_ARGS=-DGGML_HIP=ON pip install llama-cpp-python==0.3.9\n");
    let other = "FROM docker.io/a/b@sha256:1\nRUN pip install faster-whisper==1.2.1\n";
    expect(
        "cpu-package",
        NONE,
        &[
            ("Dockerfile", &jax, &["2 warning"]),
            ("Dockerfile", &llama, &["2 warning"]),
            ("Dockerfile", &local, &[]),
            ("Dockerfile", &wheel, &[]),
            ("Dockerfile", &hip, &[]),
            ("Dockerfile", other, &[]),
        ],
    );
}

#[test]
fn torch_for_rocm_that_another_package_replaces() {
    let after = |version: &str, lines: &str| {
        format!(
            "FROM docker.io/library/python@sha256:1\nRUN pip install torch{version} --index-url https://download.pytorch.org/whl/rocm6.4\n{lines}"
        )
    };
    let plain = after("", "RUN pip install chatterbox-tts\n");
    let given = after("==2.6.0", "RUN pip install chatterbox-tts\n");
    let kept = after("", "RUN pip install -c /torch.txt chatterbox-tts\n");
    let without = after("", "RUN pip install --no-deps whisperx\n");
    let base = "FROM docker.io/rocm/pytorch@sha256:1\nRUN pip install whisperx\n";
    let vllm = |line: &str| {
        format!(
            "FROM docker.io/rocm/vllm-dev:20241022@sha256:1\nRUN pip3 install torch --index-url https://download.pytorch.org/whl/nightly/rocm6.2\n{line}"
        )
    };
    let built = vllm("RUN git clone https://github.com/vllm-project/vllm.git\n");
    expect(
        "torch-replaced",
        NONE,
        &[
            ("Dockerfile", &plain, &["3 warning"]),
            ("Dockerfile", base, &["2 warning"]),
            ("Dockerfile", &vllm(""), &["2 warning"]),
            ("Dockerfile", &built, &[]),
            ("Dockerfile", &given, &[]),
            ("Dockerfile", &kept, &[]),
            ("Dockerfile", &without, &[]),
        ],
    );
}

#[test]
fn torch_that_nothing_installs_for_rocm() {
    let plain = rocm("RUN pip install openai-whisper==20250625\n");
    let first = rocm(
        "RUN pip install torch --index-url https://download.pytorch.org/whl/rocm7.1\nRUN pip install openai-whisper==20250625\n",
    );
    let list = rocm("RUN pip install -r list.txt\nRUN pip install openai-whisper==20250625\n");
    expect(
        "torch-for-cuda",
        NONE,
        &[
            ("Dockerfile", &plain, &["2 warning"]),
            ("Dockerfile", &first, &[]),
            ("Dockerfile", &list, &[]),
        ],
    );
}

#[test]
fn lists_of_targets() {
    let cmake = |list: &str| format!("cmake -B build -DGPU_TARGETS=\"{list}\"\n");
    let (commas, semicolons) = (cmake("gfx90a,gfx942"), cmake("gfx90a;gfx942"));
    let argument =
        rocm("ARG TARGETS=gfx90a,gfx942\nRUN cmake -B build -DAMDGPU_TARGETS=${TARGETS}\n");
    expect(
        "target-separator",
        NONE,
        &[
            ("a.sh", &commas, &["1 information"]),
            ("Dockerfile", &argument, &["3 information"]),
            ("a.sh", &semicolons, &[]),
            ("a.sh", "hipcc --offload-arch=gfx90a,gfx942 a.cpp\n", &[]),
        ],
    );
    let list = |release: &str, list: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:{release}@sha256:1\nENV PYTORCH_ROCM_ARCH=\"{list}\"\nRUN python setup.py bdist_wheel\n"
        )
    };
    let (new, old) = (list("7.2.1", "gfx1030;gfx1100"), list("6.3.1", "gfx1030;gfx1100"));
    let (all, one) = (list("7.2.1", "gfx1030;gfx1100;gfx1201"), list("7.2.1", "gfx1100"));
    expect(
        "gpu-target-list",
        NONE,
        &[
            ("Dockerfile", &new, &["2 information"]),
            ("Dockerfile", &old, &[]),
            ("Dockerfile", &all, &[]),
            ("Dockerfile", &one, &[]),
        ],
    );
}

#[test]
fn detection_for_containers_tests_the_device() {
    let choice = |test: &str| {
        format!(
            "if command -v nvidia-smi; then\n  F=cuda\nelif {test}; then\n  F=rocm\nfi\npodman run --device /dev/kfd app:$F\n"
        )
    };
    let (tool, device) = (choice("command -v rocm-smi"), choice("[ -e /dev/kfd ]"));
    let host = "if command -v nvidia-smi; then\n  F=cuda\nelif command -v rocm-smi; then\n  F=rocm\nfi\npip install .[$F]\n";
    expect(
        "gpu-tool-on-host",
        NONE,
        &[("a.sh", &tool, &["3 information"]), ("a.sh", &device, &[]), ("a.sh", host, &[])],
    );
}

#[test]
fn mesa_of_the_distribution() {
    let text = |base: &str, line: &str| format!("FROM docker.io/library/{base}@sha256:1\n{line}");
    let install = "RUN apt-get update && apt-get install -y mesa-vulkan-drivers\n";
    let backports =
        "RUN apt-get update && apt-get install -y -t bookworm-backports mesa-vulkan-drivers\n";
    let old = text("python:3.12-slim-bookworm", install);
    let new = text("debian:trixie-slim", install);
    let node = text("node:12", install);
    let newer = text("debian:bookworm", backports);
    expect(
        "mesa-too-old",
        NONE,
        &[
            ("Dockerfile", &old, &["1 information"]),
            ("Dockerfile", &new, &[]),
            ("Dockerfile", &node, &[]),
            ("Dockerfile", &newer, &[]),
        ],
    );
}

#[test]
fn the_sdk_is_needed_where_something_is_compiled() {
    let text = |last: &str, line: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1 AS build\nRUN make app\nFROM {last} AS server\n{line}COPY --from=build /app /app\n"
        )
    };
    let sdk = "docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1";
    let whole = text(sdk, "RUN apt-get install -y curl\n");
    let compiles = text(sdk, "RUN make other\n");
    let slim = text("docker.io/rocm/dev-ubuntu-24.04:7.2.1@sha256:1", "");
    expect(
        "sdk-in-image",
        NONE,
        &[
            ("Dockerfile", &whole, &["3 information"]),
            ("Dockerfile", &compiles, &[]),
            ("Dockerfile", &slim, &[]),
        ],
    );
}

#[test]
fn the_release_of_the_base_is_written_again() {
    let text = |base: &str| {
        format!("ARG ROCM_VERSION=7.2.1\nFROM {base}\nENV ROCM_VERSION=7.2.1\nRUN make\n")
    };
    let twice = text("docker.io/rocm/dev-ubuntu-24.04:7.2.1@sha256:1");
    let once = "ARG ROCM_VERSION=7.2.1\nFROM docker.io/rocm/dev-ubuntu-24.04:${ROCM_VERSION}\n";
    let other = "FROM docker.io/rocm/dev-ubuntu-24.04:7.2\nENV ROCM_VERSION=7.2.1\n";
    expect(
        "release-repeated",
        NONE,
        &[
            ("Dockerfile", &twice, &["1 information"]),
            ("Dockerfile", once, &[]),
            ("Dockerfile", other, &[]),
        ],
    );
}

#[test]
fn variables_and_folders_that_are_gone() {
    let flags = rocm("ENV HIPCC_COMPILE_FLAGS=-O3 HIPCC_COMPILE_FLAGS_APPEND=-O3\n");
    expect("variable-unknown", NONE, &[("Dockerfile", &flags, &["2 warning"])]);
    let folder = |release: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-22.04:{release}@sha256:1\nENV LD_LIBRARY_PATH=/opt/rocm/hipfft/lib:/opt/rocm/lib\n"
        )
    };
    let (new, old) = (folder("6.4"), folder("5.7"));
    expect(
        "rocm-package-gone",
        NONE,
        &[("Dockerfile", &new, &["2 information"]), ("Dockerfile", &old, &[])],
    );
}

#[test]
fn a_pod_with_the_device_plugin_selects_no_gpu() {
    let pod = |name: &str, limit: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/b@sha256:1\n      env:\n        - name: {name}\n          value: \"1\"\n      resources:\n        limits:\n          {limit}: 1\n"
        )
    };
    let selects = pod("ROCR_VISIBLE_DEVICES", "amd.com/gpu");
    let other = pod("ROCR_VISIBLE_DEVICES", "cpu");
    let plain = pod("OMP_NUM_THREADS", "amd.com/gpu");
    // The only GPU has this number.
    let first = selects.replace("\"1\"", "\"0\"");
    let second = first.replace("gpu: 1", "gpu: 2");
    expect(
        "kubernetes-device-twice",
        NONE,
        &[
            ("a.yaml", &selects, &["8 information"]),
            ("a.yaml", &other, &[]),
            ("a.yaml", &plain, &[]),
            ("a.yaml", &first, &[]),
            ("a.yaml", &second, &["8 information"]),
        ],
    );
}

#[test]
fn a_container_whose_gpu_is_hidden() {
    let run = |options: &str| {
        format!("docker run --device=/dev/kfd --device=/dev/dri {options} docker.io/a/b@sha256:1\n")
    };
    let hidden = run("-e CUDA_VISIBLE_DEVICES=-1");
    let chosen = run("-e CUDA_VISIBLE_DEVICES=-1 -e HIP_VISIBLE_DEVICES=0");
    expect(
        "visible-devices-form",
        NONE,
        &[("a.sh", &hidden, &["1 warning"]), ("a.sh", &chosen, &[])],
    );
}

#[test]
fn a_group_without_a_number_gets_the_next_free_one() {
    let text = |group: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN apt-get install -y mesa-va-drivers\nRUN {group} && useradd -G video,render app\nUSER app\n"
        )
    };
    let free = text("groupadd -f render");
    expect("render-group-missing", NONE, &[("Dockerfile", &free, &["3 information"])]);
}

#[test]
fn polaris_has_no_rocblas_in_rocm_6() {
    let text = |line: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:6.4-complete@sha256:1\nRUN cmake -B build -DAMDGPU_TARGETS=gfx803\n{line}"
        )
    };
    let (plain, built) = (text(""), text("RUN git clone https://github.com/ROCm/rocBLAS\n"));
    expect(
        "gpu-without-rocblas",
        NONE,
        &[("Dockerfile", &plain, &["1 warning"]), ("Dockerfile", &built, &[])],
    );
}

#[test]
fn a_variable_for_the_group_can_be_set() {
    let run = |group: &str| {
        format!("docker run --device=/dev/kfd --group-add {group} docker.io/a/b@sha256:1\n")
    };
    let fixed = run("993");
    let asked = run("\"${RENDER_GID:-993}\"");
    expect("group-number", NONE, &[("a.sh", &fixed, &["1 information"]), ("a.sh", &asked, &[])]);
}
