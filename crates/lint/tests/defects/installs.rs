//! Files that are close to a problem of `wrong/installs.rs`, but are right.

use super::{NONE, expect};

#[test]
fn variables_of_a_stage_end_with_it() {
    // The targets belong to another stage, so this one builds nothing for them.
    let text = "FROM docker.io/a/b@sha256:1 AS one\nARG V=7.2\nRUN X=1 && echo $X > /x\nFROM docker.io/a/b@sha256:1\nARG V\nRUN git clone --branch v$V https://h.example/a\n";
    expect("branch-instead-of-tag", NONE, &[("Dockerfile", text, &[])]);
    // The base image gets the argument, and can set it for the stage.
    let base = "ARG ROCM_VERSION=7.2.1\nARG BASE=docker.io/rocm/dev-ubuntu-24.04:${ROCM_VERSION}\nFROM $BASE\nENV A=$ROCM_VERSION\n";
    let again = "ARG PYTORCH_ROCM_ARCH=gfx1151\nFROM docker.io/a/b@sha256:1\nARG PYTORCH_ROCM_ARCH\nENV PYTORCH_ROCM_ARCH=$PYTORCH_ROCM_ARCH\n";
    let own = "ARG PYTORCH_ROCM_ARCH=gfx1151\nFROM docker.io/a/b@sha256:1\nRUN PYTORCH_ROCM_ARCH=gfx1100 && echo $PYTORCH_ROCM_ARCH\n";
    for one in [base, again, own] {
        expect("argument-out-of-scope", NONE, &[("Dockerfile", one, &[])]);
    }
}

#[test]
fn two_lists_of_gpus_can_be_intended() {
    let service = |outer: &str, inner: &str| {
        format!(
            "services:\n  a:\n    build: .\n    environment:\n      ROCR_VISIBLE_DEVICES: {outer}\n      HIP_VISIBLE_DEVICES: {inner}\n"
        )
    };
    for text in [service("'2,3'", "'0,1'"), service("GPU-1", "'0'"), service("$A", "$B")] {
        expect("visible-devices-twice", NONE, &[("compose.yml", &text, &[])]);
    }
}

#[test]
fn a_default_for_an_empty_value_can_be_intended() {
    let service = |comment: &str, value: &str| {
        format!(
            "services:\n  a:\n    build: .\n    environment:\n      # {comment}\n      A_B: {value}\n"
        )
    };
    for text in [
        service("leave empty to disable", "${A_B:-}"),
        service("leave empty to disable", "${A_B-1}"),
        service("leave empty for the default", "${A_B:-1}"),
        service("set to 0 to disable; empty is not allowed", "${A_B:-1}"),
    ] {
        expect("default-replaces-empty", NONE, &[("compose.yml", &text, &[])]);
    }
}

#[test]
fn torchvision_can_require_another_torch() {
    let file = |packages: &str| {
        format!(
            "FROM docker.io/library/python:3.12\nRUN pip install openai-whisper\nRUN pip install {packages} --index-url https://download.pytorch.org/whl/rocm7.2\n"
        )
    };
    expect(
        "torch-kept",
        NONE,
        &[
            ("Dockerfile", &file("torch"), &["3 error"]),
            ("Dockerfile", &file("torch torchvision"), &["3 warning"]),
            ("Dockerfile", &file("torch torchaudio"), &["3 warning"]),
        ],
    );
}

#[test]
fn torch_can_be_replaced() {
    let file = |first: &str, second: &str| {
        format!("FROM docker.io/library/python:3.12\nRUN {first}\nRUN {second}\n")
    };
    let index = "--index-url https://download.pytorch.org/whl/rocm7.2";
    let plain = format!("pip install torch {index}");
    for text in [
        file(&plain, "pip install openai-whisper"),
        file("pip install openai-whisper", &format!("pip install --upgrade torch {index}")),
        file("pip install openai-whisper", &format!("pip install --force-reinstall torch {index}")),
        file("pip install openai-whisper", &format!("pip install torch==2.9.1+rocm7.2 {index}")),
        file("pip install openai-whisper && pip uninstall -y torch", &plain),
        file("pip install --no-deps openai-whisper", &plain),
        file(&format!("pip install accelerate {index}"), &plain),
        file("pip install torch-tb-profiler numpy", &plain),
        file("/a/bin/pip install openai-whisper", &plain),
        format!("FROM docker.io/rocm/pytorch@sha256:1\nRUN pip install accelerate\nRUN {plain}\n"),
    ] {
        expect("torch-kept", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn lists_and_packages_for_other_systems_can_be_chosen() {
    let file = |base: &str, run: &str| format!("FROM docker.io/{base}\nRUN {run}\n");
    let choice = "if [ $GPU = cuda ]; then pip install -r requirements-cuda.txt; fi";
    for text in [
        file("rocm/dev-ubuntu-24.04:7.2.1", choice),
        file("rocm/dev-ubuntu-24.04:7.2.1", "pip install -r requirements-rocm.txt"),
        file("nvidia/cuda:13.0", "pip install -r requirements-cuda.txt"),
        file(
            "rocm/dev-ubuntu-24.04:7.2.1",
            "sed -i /torch/d requirements-cuda.txt && pip install -r requirements-cuda.txt",
        ),
    ] {
        expect("cuda-package", NONE, &[("Dockerfile", &text, &[])]);
    }
    let marked = file("library/ubuntu:24.04", "pip install \"pywin32; sys_platform == 'win32'\"");
    expect("package-other-system", NONE, &[("Dockerfile", &marked, &[])]);
    let nightly = |version: &str, index: &str| {
        file(
            "library/ubuntu:24.04",
            &format!("pip install --pre torch=={version} --index-url {index}"),
        )
    };
    for text in [
        nightly("2.12.0.dev20261101", "https://download.pytorch.org/whl/nightly/rocm7.2"),
        nightly("2.5.0.dev20240726", "https://h.example/own"),
        nightly("2.9.1", "https://download.pytorch.org/whl/nightly/rocm7.2"),
    ] {
        expect("nightly-removed", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn a_base_image_can_have_the_libraries_and_its_path() {
    let file = |tag: &str, before: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:{tag}\n{before}RUN cmake -B build -DGGML_HIP=ON -DGPU_TARGETS=gfx1151\n"
        )
    };
    for text in [
        file("7.2.1-complete", ""),
        file("7.14.1-full", ""),
        file("7.2.1", "RUN apt-get update && apt-get install -y hipblas-dev rocblas-dev\n"),
        file("7.2.1", "RUN apt-get update && apt-get install -y rocm-libs\n"),
        file("7.2.1", "RUN apt-get update && apt-get install -y rocm\n"),
        file("7.2.1", "COPY --from=a /opt/rocm /opt/rocm\n"),
        file("7.2.1", "RUN ./install-deps.sh\n"),
        file("$TAG", ""),
    ] {
        expect("math-libraries-missing", NONE, &[("Dockerfile", &text, &[])]);
    }
    let path = |base: &str, value: &str| format!("FROM docker.io/{base}\nENV PATH={value}\n");
    for text in [
        path("rocm/pytorch@sha256:1", "/a/bin:$PATH"),
        path("rocm/pytorch@sha256:1", "\"${PATH}:/a/bin\""),
        path("rocm/pytorch@sha256:1", "/opt/venv/bin:/usr/bin:/bin"),
        path("library/ubuntu:24.04", "/a/bin:/usr/bin:/bin"),
    ] {
        expect("path-replaced", NONE, &[("Dockerfile", &text, &[])]);
    }
    let label = |text: &str| {
        format!("FROM docker.io/rocm/pytorch:rocm7.2.1_ubuntu24.04_py3.12\nLABEL a=\"{text}\"\n")
    };
    for text in [
        label("ROCm 7.2 on Ubuntu 24.04"),
        label("needs a host with ROCm 6.4"),
        label("for Ubuntu"),
        label("ROCm 7.0 or newer"),
    ] {
        expect("comment-contradicts", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn javascript_packages_can_be_fixed_in_other_ways() {
    let file = |lines: &str| format!("FROM docker.io/library/node:24\nWORKDIR /app\n{lines}");
    for text in [
        file("RUN npm install -g pnpm@10.1.0 @a/b@1.2.3\n"),
        file("RUN npm install -g .\n"),
        file("RUN npm install -g ./a.tgz\n"),
        file("RUN corepack enable\n"),
    ] {
        expect("javascript-unpinned", NONE, &[("Dockerfile", &text, &[])]);
    }
    for text in [
        file("COPY package*.json ./\nRUN npm install\n"),
        file("COPY . .\nRUN yarn install\n"),
        file("COPY package.json bun.lock* ./\nRUN bun install\n"),
        file("COPY package.json pnpm-lock.yaml ./\nRUN pnpm install\n"),
        file("COPY frontend/ ./\nRUN npm install\n"),
        file("COPY package.json ./\nCOPY --from=a /app/yarn.lock ./\nRUN yarn\n"),
        file(
            "COPY package.json ./\nRUN --mount=type=bind,source=yarn.lock,target=yarn.lock yarn install\n",
        ),
        file("RUN git clone https://h.example/a . && npm install\n"),
    ] {
        expect("lock-file-missing", NONE, &[("Dockerfile", &text, &[])]);
    }
    let own = "FROM docker.io/a/b@sha256:1 AS a\nCOPY . .\nFROM a\nCOPY package.json ./\nRUN yarn install\n";
    expect("lock-file-missing", NONE, &[("Dockerfile", own, &[])]);
    let only = file("COPY package.json ./\nRUN npm install\n");
    expect("lock-file-missing", NONE, &[("Dockerfile", &only, &["4 warning"])]);
}

#[test]
fn quoted_bounds_and_named_refs_are_fine() {
    let pip = |line: &str| {
        format!(
            "FROM docker.io/library/ubuntu:24.04\nRUN pip install \\\n    {line} \\\n    b > /log\n"
        )
    };
    for text in [pip("'a>=1'"), pip("\"a<2\""), pip("a==1"), pip("a")] {
        expect("version-redirected", NONE, &[("Dockerfile", &text, &[])]);
    }
    let hub = |name: &str| {
        format!(
            "FROM docker.io/rocm/pytorch@sha256:1\nRUN python -c \"import torch; torch.hub.load('{name}', 'x')\"\n"
        )
    };
    for name in ["a/b:v1.0", "/models/a", "./a/b"] {
        expect("clone-unpinned", NONE, &[("Dockerfile", &hub(name), &[])]);
    }
    let gone = "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete\nRUN git clone --branch b3000 https://github.com/ggml-org/llama.cpp . && cmake -B build -DLLAMA_HIPBLAS=ON -DGPU_TARGETS=gfx1151\n";
    expect("build-option-gone", NONE, &[("Dockerfile", gone, &[])]);
}

#[test]
fn charts_and_optional_devices_of_other_kinds_are_fine() {
    let values = |tag: &str| format!("a:\n  image:\n    repository: a/b\n    tag: {tag}\n");
    for text in [values("1.2.3"), values("\"\""), values("latest\n    digest: sha256:1")] {
        expect("image-latest", NONE, &[("values.yaml", &text, &[])]);
    }
    let other = "a:\n  image:\n    repository: a/b\n    tag: latest\n";
    expect(
        "image-latest",
        NONE,
        &[("other.yaml", other, &[]), ("values.yaml", other, &["4 warning"])],
    );
    let quadlet = |image: &str, kfd: &str| {
        format!(
            "[Container]\nImage=docker.io/a/{image}@sha256:1\nAddDevice={kfd}\nAddDevice=-/dev/dri\n"
        )
    };
    for text in [quadlet("rocm", "/dev/kfd"), quadlet("any", "-/dev/kfd")] {
        expect("device-optional", NONE, &[("a.container", &text, &[])]);
    }
    let system = "[Container]\nImage=docker.io/a/b@sha256:1\nAddDevice=/dev/kfd\n# WantedBy=default.target\n[Install]\nWantedBy=multi-user.target\n";
    expect("rootless-groups", NONE, &[("a.container", system, &[])]);
    let installer = "FROM docker.io/library/ubuntu:24.04\nRUN apt-get update && apt-get install -y curl pciutils && curl -fsSL https://ollama.com/install.sh | sh\nENV ROCM=1\n";
    let other =
        "FROM docker.io/library/ubuntu:24.04\nRUN curl -fsSL https://ollama.com/install.sh | sh\n";
    for text in [installer, other] {
        expect("ollama-without-rocm", NONE, &[("Dockerfile", text, &[])]);
    }
    let built = |user: &str| {
        format!(
            "services:\n  a:\n    build: .{user}\n    devices: [/dev/kfd]\n    group_add: [render]\n"
        )
    };
    let quadlet_of = |user: &str| {
        format!(
            "[Container]\nImage=docker.io/a/b@sha256:1\nGroupAdd=render\n{user}AddDevice=/dev/kfd\n"
        )
    };
    let user = |user: &str| built(&format!("\n    user: {user}"));
    expect(
        "group-by-name",
        NONE,
        &[
            // Root needs no group.
            ("compose.yml", &built(""), &[]),
            ("compose.yml", &user("root"), &[]),
            ("compose.yml", &user("\"0:0\""), &[]),
            ("compose.yml", &user("\"1000:1000\""), &["6 information"]),
            ("compose.yml", &user("app"), &["6 information"]),
            ("a.container", &quadlet_of(""), &[]),
            ("a.container", &quadlet_of("User=1000\n"), &["3 information"]),
        ],
    );
    let group =
        "FROM docker.io/rocm/pytorch@sha256:1\n# start it with group_add for /dev/kfd\nUSER app\n";
    expect("render-group-missing", NONE, &[("Dockerfile", group, &[])]);
}
