//! Advice that did not fit the file, and remarks on what the file does right.

use lint::{Context, Exists, check};

use super::remarks::said;
use super::{NONE, expect};

/// Returns a Dockerfile with some commands.
fn image(commands: &str) -> String {
    format!("FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN {commands}\n")
}

/// Checks the help of a finding.
fn helps(rule: &str, file: &str, text: &str, part: &str) {
    let (_, help) = said(rule, file, text, Context::default());
    assert!(help.contains(part), "{help}");
}

#[test]
fn builds_that_are_gone_are_not_kept() {
    let install = |index: &str, version: &str| {
        image(&format!("pip install torch=={version} \\\n  --extra-index-url {index}"))
    };
    let index = "https://download.pytorch.org/whl/nightly/rocm6.2";
    let gone = install(index, "2.6.0.dev20241113+rocm6.2");
    let today = Context { today: Some("2026-11-30"), ..Context::default() };
    let found = |text: &str| {
        let all = crate::findings_in("Dockerfile", text, today);
        all.into_iter().map(|one| one.rule.id.clone()).collect::<Vec<_>>()
    };
    let rules = found(&gone);
    assert!(rules.contains(&"nightly-removed".to_owned()), "{rules:?}");
    assert!(!rules.contains(&"index-moved".to_owned()), "{rules:?}");
    let kept = install(index, "2.6.0+rocm6.2");
    assert!(found(&kept).contains(&"index-moved".to_owned()));
    helps("index-moved", "Dockerfile", &kept, "mirror the wheels");
    let variable = "FROM docker.io/library/ubuntu:24.04@sha256:1\nARG IDX=https://rocm.nightlies.amd.com/v2/gfx1151/\nRUN pip install 'torch==2.9.1+rocm7.13.0a20260513' --index-url ${IDX}\n";
    expect("index-moved", NONE, &[("Dockerfile", variable, &["2 information"])]);
    helps("index-moved", "Dockerfile", variable, "mirror the wheels");
    helps("index-moved", "Dockerfile", variable, "device-gfx1151");
    let open = variable.replace("==2.9.1+rocm7.13.0a20260513", "");
    expect("index-moved", NONE, &[("Dockerfile", &open, &["2 warning"])]);
}

#[test]
fn an_old_vllm_reads_its_variables() {
    let set = "ENV VLLM_USE_TRITON_FLASH_ATTN=0";
    let clone =
        |tag: &str| format!("git clone -b {tag} https://github.com/vllm-project/vllm.git\n{set}");
    let list = image(&format!("pip install -r requirements-rocm.txt\n{set}"));
    let comment = |release: &str| {
        format!(
            "# https://github.com/vllm-project/vllm/blob/{release}/Dockerfile.rocm\n{}",
            image(&format!("true\n{set}"))
        )
    };
    expect(
        "variable-without-effect",
        NONE,
        &[
            ("Dockerfile", &list, &[]),
            ("Dockerfile", &image(&clone("v0.6.5")), &[]),
            ("Dockerfile", &image(&clone("v0.19.0")), &["3 warning"]),
            ("Dockerfile", &image(&clone("main")), &["3 warning"]),
            ("Dockerfile", &comment("v0.6.5"), &[]),
            ("Dockerfile", &comment("main"), &["4 warning"]),
        ],
    );
}

#[test]
fn a_release_that_is_only_printed_chooses_nothing() {
    let script = |rest: &str| format!("#!/bin/bash\nROCM_VERSION=6.1.0\n{rest}\n");
    let prints = script("echo \"Required: $ROCM_VERSION\"");
    let compares = script(
        "if [ \"$(cat /opt/rocm/.info/version)\" != \"$ROCM_VERSION\" ]; then\n  exit 1\nfi",
    );
    let chooses =
        script("echo $ROCM_VERSION\ndocker pull docker.io/rocm/dev-ubuntu-22.04:$ROCM_VERSION");
    let writes = script(
        "echo \"deb https://repo.radeon.com/rocm/apt/$ROCM_VERSION jammy main\" > /etc/apt/sources.list.d/rocm.list",
    );
    expect(
        "rocm-outdated",
        NONE,
        &[
            ("a.sh", &prints, &[]),
            ("a.sh", &compares, &[]),
            ("a.sh", &chooses, &["2 information"]),
            ("a.sh", &writes, &["2 information"]),
        ],
    );
}

#[test]
fn the_archive_of_a_branch_has_no_fixed_hash() {
    let get = |path: &str| {
        image(&format!(
            "curl -L -o /tmp/a.tar.gz https://github.com/a/b/archive/{path} && tar xzf /tmp/a.tar.gz"
        ))
    };
    for path in ["refs/heads/next.tar.gz", "main.tar.gz"] {
        helps("download-unchecked", "Dockerfile", &get(path), "archive/COMMIT.tar.gz");
    }
    let pip = image("pip install https://github.com/a/b/archive/main.zip");
    helps("download-unchecked", "Dockerfile", &pip, "archive/COMMIT.tar.gz");
    let add = "FROM docker.io/a/b@sha256:1\nADD https://github.com/a/b/archive/refs/heads/main.zip /a.zip\n";
    helps("download-unchecked", "Dockerfile", add, "archive/COMMIT.tar.gz");
    helps("download-unchecked", "Dockerfile", &get("refs/tags/v1.zip"), "sha256sum --check`");
    let (message, _) =
        said("download-unchecked", "Dockerfile", &get("refs/tags/v1.zip"), Context::default());
    assert!(!message.contains("branch"), "{message}");
}

#[test]
fn what_hides_a_failure_is_removed() {
    let echo = image("pip install bitsandbytes \\\n  || echo 'WARNING: failed'");
    let ignored = image("pip install bitsandbytes || true");
    for text in [&echo, &ignored] {
        helps("build-status-lost", "Dockerfile", text, "remove the `||");
    }
    // The copy stops the build.
    let tee = |rest: &str| image(&format!("cargo build --release 2>&1 | tee /tmp/log{rest}"));
    expect(
        "build-status-lost",
        NONE,
        &[
            ("Dockerfile", &tee(" && cp target/release/a /a"), &["2 information"]),
            ("Dockerfile", &tee(" && echo done"), &["2 warning"]),
            ("Dockerfile", &format!("{}RUN cp a b\n", tee("")), &["2 warning"]),
        ],
    );
}

#[test]
fn advice_is_what_the_file_still_lacks() {
    let base = "docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0@sha256:1";
    let torch = "pip install torch --index-url https://download.pytorch.org/whl/rocm6.2";
    let compiled = format!("FROM {base}\nRUN {torch}\nRUN python3 setup.py develop\n");
    helps("rocm-twice", "Dockerfile", &compiled, "without torch, such as");
    helps(
        "rocm-twice",
        "Dockerfile",
        &format!("FROM {base}\nRUN {torch}\n"),
        "without ROCm or torch",
    );
    let extra = image("pip install 'huggingface-hub[cli]'");
    helps("extra-removed", "Dockerfile", &extra, "write `huggingface-hub` without this extra");
    let both = format!("{extra}RUN pip install 'huggingface-hub[hf_transfer]'\n");
    let found = crate::merged("Dockerfile", &both, Context::default());
    assert_eq!(found.iter().filter(|one| one.rule.id == "extra-removed").count(), 1);
    let old = "services:\n  a:\n    image: docker.io/a/b:1@sha256:1\n    environment:\n      - HUGGING_FACE_HUB_TOKEN=${HF_TOKEN:?}\n";
    let new = format!("{old}      - HF_TOKEN=${{HF_TOKEN:?}}\n");
    let other = format!(
        "{old}  b:\n    image: docker.io/a/b:1@sha256:1\n    environment:\n      - HF_TOKEN=${{HF_TOKEN:?}}\n"
    );
    helps("variable-renamed", "compose.yml", &new, "remove it");
    for text in [old, &other] {
        helps("variable-renamed", "compose.yml", text, "write `HF_TOKEN`");
    }
    let device = |option: &str| {
        format!(
            "# AMD GPU\nservices:\n  a:\n    image: docker.io/a/rocm:1@sha256:1\n    privileged: true\n{option}"
        )
    };
    helps(
        "privileged-container",
        "compose.yml",
        &device("    devices: [/dev/kfd, /dev/dri]\n"),
        "remove it",
    );
    helps("privileged-container", "compose.yml", &device(""), "under `devices`");
}

#[test]
fn the_last_release_for_rocm_may_be_pinned() {
    let install = |package: &str| {
        image(&format!("pip install \\\n  'numpy<3' \\\n  {package} \\\n  opencv-python"))
    };
    for package in
        ["onnxruntime-rocm==1.22.*", "onnxruntime-rocm==1.22.2.post1", "'onnxruntime-rocm<1.23'"]
    {
        expect("package-ended", NONE, &[("Dockerfile", &install(package), &[])]);
    }
    for package in ["onnxruntime-rocm", "'onnxruntime-rocm>=1.20'"] {
        expect("package-ended", NONE, &[("Dockerfile", &install(package), &["4 information"])]);
    }
}

#[test]
fn a_file_for_vulkan_has_no_device_of_rocm() {
    let service = |device: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/library/ubuntu:24.04@sha256:1\n    devices: [{device}]\n    group_add: [render]\n"
        )
    };
    helps("group-unknown", "compose.yml", &service("/dev/dri"), "/dev/dri/renderD128");
    helps("group-unknown", "compose.yml", &service("/dev/dri, /dev/kfd"), "/dev/kfd");
}

#[test]
fn an_index_in_a_list_is_for_the_whole_list() {
    let list = |index: &str, others: &str| format!("{others}\n{index}\ntorch\ntorchvision\n");
    let only = "--index-url https://download.pytorch.org/whl/rocm6.4";
    let both = format!("{only}\n--extra-index-url https://pypi.org/simple");
    let extra = only.replace("--index-url", "--extra-index-url");
    let own = "--index-url https://mirror.example/simple";
    expect(
        "requirement-option",
        NONE,
        &[
            ("requirements-rocm.txt", &list(only, "fastapi>=0.100\nmonai"), &["3 warning"]),
            (
                "requirements.txt",
                &list(&only.replace("--index-url", "-i"), "flask"),
                &["2 warning"],
            ),
            ("requirements.txt", &list(only, "numpy\npillow"), &[]),
            ("requirements.txt", &list(&both, "fastapi"), &[]),
            ("requirements.txt", &list(&extra, "fastapi"), &[]),
            ("requirements.txt", &list(own, "fastapi"), &[]),
        ],
    );
}

#[test]
fn packages_for_nvidia_in_a_list_for_rocm() {
    let list = |torch: &str, other: &str| format!("numpy==1.24.2\n{other}\n{torch}\n");
    let rocm = "torch==1.13.1+rocm5.2";
    expect(
        "cuda-package",
        NONE,
        &[
            (
                "rocm.requirements.txt",
                &list(rocm, "nvidia-cublas-cu11==11.10.3.66"),
                &["2 warning"],
            ),
            ("requirements.txt", &list(rocm, "onnxruntime-gpu"), &["2 warning"]),
            ("requirements.txt", &list(rocm, "onnxruntime"), &[]),
            ("requirements.txt", &list(rocm, "nvidia-ml-py"), &[]),
            ("requirements.txt", &list("torch==1.13.1", "nvidia-cublas-cu11==11.10.3.66"), &[]),
        ],
    );
}

#[test]
fn an_override_is_three_numbers_and_not_a_part_of_a_name() {
    let export = |value: &str| {
        format!(
            "#!/bin/bash\nGPU=$(rocminfo | grep -o gfx1100)\nexport HSA_OVERRIDE_GFX_VERSION=\"{value}\"\n"
        )
    };
    expect(
        "hsa-override-form",
        NONE,
        &[
            ("a.sh", &export("${GPU#gfx}"), &["3 error"]),
            ("a.sh", &export("${GPU}"), &[]),
            ("a.sh", &export("${VERSION:-11.0.0}"), &[]),
        ],
    );
    // The comments say which value is for which GPU.
    let compose = |value: &str| {
        format!(
            "# RDNA 3.5 (gfx1151): 11.5.1\n# RX 6800 (gfx1030): 10.3.0\n# RX 7900 XTX (gfx1100): 11.0.0\nservices:\n  a:\n    image: docker.io/a/b:1@sha256:1\n    devices: [/dev/kfd, /dev/dri]\n    environment:\n      HSA_OVERRIDE_GFX_VERSION: \"{value}\"\n"
        )
    };
    let value = "${HSA_OVERRIDE_GFX_VERSION:-11.0.0}";
    let same_generation = compose(value).replace("# RX 6800 (gfx1030): 10.3.0\n", "");
    let one = same_generation.replace("# RDNA 3.5 (gfx1151): 11.5.1\n", "");
    expect(
        "hsa-override-any-gpu",
        NONE,
        &[
            ("compose.yml", &compose("${HSA_OVERRIDE_GFX_VERSION:-11.0.0}"), &["9 information"]),
            ("compose.yml", &compose("${HSA_OVERRIDE_GFX_VERSION:?}"), &[]),
            ("compose.yml", &same_generation, &["8 information"]),
            ("compose.yml", &one, &[]),
        ],
    );
}

#[test]
fn the_installer_of_uv_has_another_folder() {
    let install = |rest: &str| {
        image(&format!(
            "curl -LsSf https://astral.sh/uv/install.sh | sh \\\n && ln -s {rest} /usr/local/bin/uv"
        ))
    };
    let chosen =
        install("/root/.cargo/bin/uv").replace("| sh", "| UV_INSTALL_DIR=/root/.cargo/bin sh");
    expect(
        "path-moved",
        NONE,
        &[
            ("Dockerfile", &install("/root/.cargo/bin/uv"), &["3 warning"]),
            ("Dockerfile", &install("/root/.local/bin/uv"), &[]),
            ("Dockerfile", &chosen, &[]),
            (
                "Dockerfile",
                &image("cargo install uv && ln -s /root/.cargo/bin/uv /usr/bin/uv"),
                &[],
            ),
        ],
    );
}

#[test]
fn expandable_segments_on_rocm() {
    let set = |name: &str, base: &str| {
        format!("FROM {base}@sha256:1\nENV {name}=expandable_segments:True\n")
    };
    let hip = "PYTORCH_HIP_ALLOC_CONF";
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", &set(hip, "docker.io/rocm/pytorch:latest"), &["2 information"]),
        ("Dockerfile", &set(hip, "docker.io/rocm/dev-ubuntu-24.04:6.4"), &[]),
        ("Dockerfile", &set("PYTORCH_CUDA_ALLOC_CONF", "docker.io/a/b:1"), &[]),
        ("Dockerfile", &set(hip, "docker.io/a/b:1").replace("True", "False"), &[]),
    ];
    expect("allocator-conflict", NONE, cases);
}

#[test]
fn what_is_meant_to_be_old_stays() {
    let old = "FROM docker.io/rocm/dev-ubuntu-22.04:5.6.1@sha256:1\n";
    expect(
        "rocm-outdated",
        NONE,
        &[
            ("rocm-5.6.1/Dockerfile", old, &[]),
            ("legacy/Dockerfile", old, &[]),
            ("docker/Dockerfile", old, &["1 information"]),
            ("rocm-6.4/Dockerfile", old, &["1 information"]),
        ],
    );
    let fork = |base: &str| {
        format!(
            "FROM {base}@sha256:1\nRUN git clone https://github.com/arlo-phoenix/bitsandbytes-rocm-5.6\n"
        )
    };
    let (before, now) = (
        "docker.io/rocm/pytorch:rocm5.6_ubuntu22.04",
        "docker.io/rocm/pytorch:rocm6.4_ubuntu24.04",
    );
    expect(
        "bitsandbytes-stale",
        NONE,
        &[("Dockerfile", &fork(before), &[]), ("Dockerfile", &fork(now), &["2 information"])],
    );
    let tag = |tag: &str| format!("FROM docker.io/person/elixir:{tag}\n");
    expect(
        "image-unpinned",
        NONE,
        &[
            ("Dockerfile", &tag("1.18.3-noble-20250127"), &[]),
            ("Dockerfile", &tag("1.18.3"), &["1 information"]),
        ],
    );
}

#[test]
fn outputs_of_a_step_are_written_to_a_file() {
    let step = |run: &str| {
        format!(
            "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: {run}\n"
        )
    };
    let file = step("echo \"a=1\" >> \"$GITHUB_OUTPUT\"");
    expect(
        "instruction-deprecated",
        NONE,
        &[
            (
                ".github/workflows/a.yml",
                &step("echo \"::set-output name=a::1\""),
                &["6 information"],
            ),
            (".github/workflows/a.yml", &file, &[]),
        ],
    );
    let git = image("pip install git+https://github.com/a/b.git");
    helps("clone-unpinned", "Dockerfile", &git, "append `@`");
}

/// A folder with a project.
#[derive(Debug)]
struct Folder;

impl Exists for Folder {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        let text = "[project]\nname = \"a\"\ndependencies = [\"click\", \"onnxruntime>=1.20\"]\n";
        (path == "pyproject.toml").then(|| text.to_owned())
    }
}

#[test]
fn the_project_contains_the_same_module() {
    let found = |commands: &str| {
        let text = format!(
            "FROM docker.io/library/python:3.12@sha256:1\nCOPY pyproject.toml uv.lock ./\nRUN {commands}\n"
        );
        let context = Context { exists: Some(&Folder), ..Context::default() };
        let all = check("Dockerfile", &text, context);
        all.iter().filter(|one| one.rule.id == "packages-same-module").count()
    };
    for (commands, expected) in [
        ("uv sync --frozen && uv pip install onnxruntime-rocm==1.22.2", 1),
        ("uv sync --frozen && uv pip install onnxruntime==1.22.2", 0),
        (
            "uv sync --frozen && uv pip uninstall onnxruntime && uv pip install onnxruntime-rocm==1.22.2",
            0,
        ),
        ("uv pip install onnxruntime-rocm==1.22.2", 0),
        ("pip install . --no-deps && pip install onnxruntime-rocm==1.22.2", 0),
    ] {
        assert_eq!(found(commands), expected, "{commands}");
    }
}
