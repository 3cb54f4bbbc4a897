//! Files on which `lint` once gave wrong advice, or none. Each test covers one class of defects.

mod absent;
mod advice;
mod amd;
mod breadth;
mod builds;
mod chosen;
mod classes;
mod contents;
mod debian;
mod dependencies;
mod exposed;
mod failures;
mod fresh;
mod growth;
mod guarded;
mod held;
mod heldout;
mod hosts;
mod image;
mod installs;
mod judged;
mod labelled;
mod layers;
mod machines;
mod manifests;
mod measured;
mod missed;
mod moving;
mod once;
mod options;
mod origins;
mod owners;
mod probed;
mod readers;
mod registry;
mod rejudged;
mod relations;
mod remarked;
mod remarks;
mod reviewed;
mod rows;
mod safety;
mod scripts;
mod steps;
mod structure;
mod together;
mod units;
mod unseen;
mod usual;
mod whole;
mod worth;

use lint::{Context, Severity};

use crate::findings_in;

/// The GPU that the caller names, and the project's default target.
#[derive(Debug, Clone, Copy, Default)]
struct Gpus<'a> {
    asked: Option<&'a str>,
    project: Option<&'a str>,
}

const NONE: Gpus<'_> = Gpus { asked: None, project: None };
const PROJECT: Gpus<'_> = Gpus { asked: None, project: Some("gfx1151") };

/// Returns the findings of a rule as `LINE severity`.
fn of(rule: &str, file: &str, text: &str, gpus: Gpus<'_>) -> Vec<String> {
    let parse = |gpu: Option<&str>| gpu.map(|gpu| gpu.parse().unwrap());
    let (gpu, project_gpu) = (parse(gpus.asked), parse(gpus.project));
    let context =
        Context { gpu: gpu.as_ref(), project_gpu: project_gpu.as_ref(), ..Context::default() };
    findings_in(file, text, context)
        .iter()
        .filter(|one| one.rule.id == rule)
        .map(|one| format!("{} {}", one.line, one.severity.name()))
        .collect()
}

/// Checks that a rule has these findings in each file.
fn expect(rule: &str, gpus: Gpus<'_>, cases: &[(&str, &str, &[&str])]) {
    for (file, text, expected) in cases {
        assert_eq!(of(rule, file, text, gpus), *expected, "{rule} in {file}:\n{text}");
    }
}

#[test]
fn d5_variables_of_ollama_are_those_that_ollama_gets() {
    expect(
        "variable-does-not-exist",
        PROJECT,
        &[
            // Build arguments, unexported names, other programs, names for the compose file itself.
            (
                "Dockerfile",
                "FROM docker.io/library/golang:1\nARG OLLAMA_FAST_BUILD\nARG OLLAMA_SKIP=1\nENV OLLAMA_SRC=/s\n",
                &[],
            ),
            (
                "a.sh",
                "OLLAMA_MODEL=x\nOLLAMA_URL=http://localhost\nexport OLLAMA_MODEL\ncurl $OLLAMA_URL\n",
                &[],
            ),
            (
                "compose.yml",
                "services:\n  ui:\n    image: ghcr.io/open-webui/open-webui:ollama\n    environment:\n      - OLLAMA_BASE_URL=http://ollama\n",
                &[],
            ),
            (".env", "OLLAMA_PORT=11434\nOLLAMA_DATA=/x\n", &[]),
            (
                "compose.yml",
                "services:\n  ollama:\n    image: ollama/ollama:rocm\n    entrypoint: [/start.sh]\n    environment:\n      OLLAMA_PULL: x\n",
                &[],
            ),
            (
                "compose.yml",
                "services:\n  ollama:\n    image: ollama/ollama:rocm\n    environment:\n      OLLAMA_MAX_VRAM: 1\n",
                &[],
            ),
            // Variables that Ollama does get.
            (
                "compose.yml",
                "services:\n  ollama:\n    image: ollama/ollama:rocm\n    environment:\n      OLLAMA_NUM_PARALEL: 1\n      OLLAMA_GPU_MEMORY: 96GB\n      OLLAMA_PULL_MODELS: x\n",
                &["5 error", "6 error", "7 warning"],
            ),
            ("a.sh", "export OLLAMA_GPU_MEMORY=1\nollama serve\n", &["1 error"]),
            ("a.sh", "OLLAMA_GPU_MEMORY=1 ollama serve\n", &["1 error"]),
            (
                "a.sh",
                "docker run --restart always -e OLLAMA_GPU_MEMORY=1 ollama/ollama:rocm\n",
                &["1 error"],
            ),
            (
                "ollama.service",
                "[Service]\nEnvironment=\"OLLAMA_GPU_MEMORY=1\"\nExecStart=/usr/bin/ollama serve\n",
                &["2 error"],
            ),
            (
                "ollama.container",
                "[Container]\nImage=docker.io/ollama/ollama:rocm\nEnvironment=OLLAMA_GPU_MEMORY=1\n",
                &["3 error"],
            ),
        ],
    );
}

#[test]
fn d9_only_the_nightly_tag_of_vllm_dev_is_discontinued() {
    expect(
        "vllm-dev-discontinued",
        PROJECT,
        &[
            ("Dockerfile", "FROM docker.io/rocm/vllm-dev:nightly\n", &["1 error"]),
            ("Dockerfile", "FROM docker.io/rocm/vllm-dev:base\n", &[]),
            ("Dockerfile", "FROM docker.io/rocm/vllm-dev@sha256:1\n", &["1 information"]),
        ],
    );
}

#[test]
fn d10_an_extra_is_missing_only_in_releases_without_it() {
    expect(
        "extra-removed",
        PROJECT,
        &[
            ("requirements.txt", "huggingface_hub[cli]\n", &["1 information"]),
            ("requirements.txt", "huggingface_hub[cli]==0.34.4\n", &[]),
            ("requirements.txt", "huggingface_hub[hf_xet]\n", &[]),
        ],
    );
    let no_release = of("no-such-version", "requirements.txt", "huggingface_hub[cli]\n", PROJECT);
    assert!(no_release.is_empty());
}

#[test]
fn d11_packages_match_within_a_stage_and_pre_releases_are_not_judged() {
    expect(
        "packages-do-not-match",
        PROJECT,
        &[
            (
                "a.sh",
                "pip install -i https://download.pytorch.org/whl/cu128 torch==2.8.0+cu128 torchvision==0.23.0\n",
                &[],
            ),
            (
                "requirements.txt",
                "torch==2.11.0a0+rocm7.14.0\ntorchvision==0.24.0+rocm7.14.0\n",
                &[],
            ),
            (
                "requirements.txt",
                "torch==2.9.1+rocm7.2.1.lw.git1\ntorchvision==0.24.0+rocm7.2.1.git2\n",
                &[],
            ),
            (
                "Dockerfile",
                "FROM scratch AS a\nRUN pip install torch==2.11.0\nFROM scratch\nRUN pip install torchvision==0.24.0\n",
                &[],
            ),
            (
                "a.sh",
                "if a; then pip install torch==2.11.0 torchvision==0.26.0; else pip install torch==2.9.1 torchvision==0.24.0; fi\n",
                &[],
            ),
            (
                "Dockerfile",
                "FROM scratch\nRUN pip install --index-url https://repo.amd.com/rocm/whl-multi-arch/ torch==2.11.0+rocm7.14.0 torchvision==0.26.0\n",
                &[],
            ),
            (
                "Dockerfile",
                "FROM scratch\nRUN pip install torch==2.11.0+rocm7.14.0 torchvision==0.26.0\n",
                &["2 error"],
            ),
            (
                "Dockerfile",
                "FROM scratch\nRUN pip install torch==2.11.0 torchvision==0.24.0\n",
                &["2 error"],
            ),
        ],
    );
}

#[test]
fn d12_options_with_values_do_not_hide_the_image() {
    expect(
        "image-latest",
        PROJECT,
        &[
            ("a.sh", "docker run --restart always --gpus all docker.io/a/b\n", &["1 warning"]),
            (
                "a.sh",
                "docker run --health-cmd x --log-opt a=b docker.io/a/b:latest\n",
                &["1 warning"],
            ),
            ("a.sh", "docker network create backend\ndocker volume create data\n", &[]),
        ],
    );
    expect(
        "image-short-name",
        PROJECT,
        &[("a.sh", "docker run --restart always docker.io/a/b\ndocker network create back\n", &[])],
    );
}

#[test]
fn d14_a_base_image_may_set_a_variable() {
    expect(
        "undefined-pin",
        PROJECT,
        &[
            ("Dockerfile", "FROM docker.io/a/b@sha256:1\nRUN git checkout $VLLM_COMMIT\n", &[]),
            ("Dockerfile", "FROM scratch\nRUN git checkout $VLLM_COMMIT\n", &["2 error"]),
            (
                "Dockerfile",
                "FROM docker.io/library/debian@sha256:1 AS a\nFROM a\nRUN git checkout $VLLM_COMMIT\n",
                &["3 error"],
            ),
            ("Dockerfile", "FROM docker.io/a/b:$BASE_TAG\n", &["1 error"]),
            ("a.sh", "git checkout $VLLM_COMMIT\n", &["1 information"]),
            ("a.sh", "git checkout ${VLLM_COMMIT:-main} ${VLLM_TAG:?x} ${VLLM_REF%%x}\n", &[]),
            // The file tests whether it is set.
            ("a.sh", "if [ -n \"${BASE_URL:-}\" ]; then curl \"$BASE_URL\"; fi\n", &[]),
            // A file of the image sets it.
            (
                "Dockerfile",
                "FROM docker.io/library/fedora:44@sha256:1\nRUN echo export PT_INDEX_URL=x > /tmp/e\nRUN source /tmp/e && pip install a==1 --index-url ${PT_INDEX_URL}\n",
                &[],
            ),
        ],
    );
}

#[test]
fn a_trial_of_pip_installs_nothing() {
    let command = |option: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN pip install {option} torch==2.9.1 torchvision==0.20.0 requests\n"
        )
    };
    for (option, is_real) in [("--dry-run", false), ("--no-deps", true)] {
        let found = of("index-unpinned", "Dockerfile", &command(option), PROJECT);
        assert_eq!(!found.is_empty(), is_real, "{option}: {found:?}");
    }
}

#[test]
fn a_request_for_headers_downloads_nothing() {
    expect(
        "download-unchecked",
        PROJECT,
        &[
            ("a.sh", "if curl -fsIL https://h.example/a.deb; then echo yes; fi\n", &[]),
            ("a.sh", "wget --spider https://h.example/a.deb\n", &[]),
            ("a.sh", "curl -fsSLO https://h.example/a.deb\napt install ./a.deb\n", &["1 warning"]),
        ],
    );
}

#[test]
fn d15_an_empty_override_counts_where_a_program_sees_it() {
    expect(
        "hsa-override-empty",
        PROJECT,
        &[
            ("a.sh", "HSA_OVERRIDE_GFX_VERSION=\"${HSA_OVERRIDE_GFX_VERSION:-}\"\n", &[]),
            ("a.sh", "HSA_OVERRIDE_GFX_VERSION=\nexport HSA_OVERRIDE_GFX_VERSION\n", &["1 error"]),
            ("a.sh", "set -a\nHSA_OVERRIDE_GFX_VERSION=\n", &["2 error"]),
            ("a.sh", "HSA_OVERRIDE_GFX_VERSION= python3 a.py\n", &["1 error"]),
            ("Dockerfile", "FROM scratch\nARG HSA_OVERRIDE_GFX_VERSION=\n", &[]),
            (
                "compose.yml",
                "services:\n  a:\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION=${GFX:-}\n      - HSA_OVERRIDE_GFX_VERSION\n",
                &["4 error"],
            ),
            (
                "compose.yml",
                "services:\n  a:\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION=${GFX}\n",
                &["4 warning"],
            ),
            (".env", "HSA_OVERRIDE_GFX_VERSION=\n", &["1 warning"]),
        ],
    );
}

#[test]
fn d16_fedora_43_matters_with_an_old_rocm_in_the_same_stage() {
    let old = "RUN dnf install -y https://repo.radeon.com/amdgpu-install/6.4.1/rhel/9.5/a.rpm\n";
    let stages =
        format!("FROM registry.fedoraproject.org/fedora:43\nFROM docker.io/a/b@sha256:1\n{old}");
    let same = format!("FROM registry.fedoraproject.org/fedora:43\n{old}");
    expect(
        "fedora-release",
        PROJECT,
        &[
            (
                "Dockerfile",
                "FROM registry.fedoraproject.org/fedora:43\nRUN dnf install -y gcc\n",
                &[],
            ),
            ("Dockerfile", &stages, &[]),
            ("Dockerfile", &same, &["1 warning"]),
        ],
    );
}

#[test]
fn d17_an_override_of_one_node_is_known() {
    expect(
        "hsa-override-gfx1151",
        PROJECT,
        &[
            ("a.sh", "export HSA_OVERRIDE_GFX_VERSION_1=11.0.0\n", &["1 warning"]),
            ("a.sh", "export HSA_OVERRIDE_GFX_VERSION_MODE=x\n", &[]),
        ],
    );
    let form = of("hsa-override-form", "a.sh", "export HSA_OVERRIDE_GFX_VERSION_0=gfx1100\n", NONE);
    assert_eq!(form, ["1 error"]);
    let fact = &lint::rule("hsa-override-identity").unwrap().fact;
    assert!(fact.contains("HSA_OVERRIDE_GFX_VERSION_N"), "{fact}");
}

#[test]
fn d21_the_slower_attention_is_that_of_one_model() {
    let fact = &lint::rule("flash-attention-branch").unwrap().fact;
    assert!(fact.contains("up to") && fact.contains("one model"), "{fact}");
}

#[test]
fn d22_reading_an_answer_and_restoring_a_file_are_no_violations() {
    expect(
        "download-unchecked",
        PROJECT,
        &[
            ("a.sh", "curl -s http://localhost:8000/v1/models | python3 -m json.tool\n", &[]),
            ("a.sh", "curl -s https://h.example/x.json | python3 -c 'import json'\n", &[]),
            ("a.sh", "curl -s http://127.0.0.1/a | sh\n", &[]),
            ("a.sh", "curl -fsSkL https://h.example/a.json -o a.json\n", &["1 warning"]),
            ("a.sh", "wget https://h.example/a.deb\napt install ./a.deb\n", &["1 warning"]),
            ("a.sh", "wget https://h.example/a.deb\nsha256sum -c a.sha256\n", &[]),
            ("a.sh", "curl -fsSL https://h.example/a.gguf -o a.gguf\n", &[]),
            ("a.sh", "curl -s https://h.example/x | jq .\n", &[]),
            ("a.sh", "curl -s https://h.example/x.py | python3\n", &["1 warning"]),
            ("a.sh", "curl -s https://h.example/x.sh | sudo -E bash -\n", &["1 warning"]),
            ("a.sh", "bash -c \"$(curl -fsSL https://h.example/x.sh)\"\n", &["1 warning"]),
            (
                "Dockerfile",
                "FROM scratch\nRUN curl -L https://h.example/a.tgz \\\n    | tar xz\n",
                &["2 warning"],
            ),
        ],
    );
    expect(
        "branch-as-commit",
        PROJECT,
        &[
            ("a.sh", "git clone https://h.example/a\ngit checkout HEAD -- setup.py\n", &[]),
            ("a.sh", "git clone https://h.example/a\ncd a && git checkout rocm\n", &["2 warning"]),
            ("a.sh", "git clone https://h.example/a\ncd a && git checkout setup.py\n", &[]),
            ("a.sh", "git clone https://h.example/a\ncd a && git checkout FETCH_HEAD\n", &[]),
            ("a.sh", "git clone -b mtp-fp4-strix https://h.example/a\n", &["1 warning"]),
            ("a.sh", "git clone -b release/0.24 https://h.example/a\n", &["1 warning"]),
            ("a.sh", "git clone -b v0.24.0 https://h.example/a\n", &[]),
            ("a.sh", "git clone -b rocm-7.2.1 https://h.example/a\n", &[]),
            ("a.sh", "pip install git+https://h.example/a.git@main#egg=a\n", &["1 warning"]),
            ("a.sh", "git clone https://h.example/a\ncd a && git checkout main\n", &["2 warning"]),
        ],
    );
    let built = "services:\n  a:\n    image: mine:dev\n    build: .\n";
    assert!(of("image-short-name", "compose.yml", built, PROJECT).is_empty());
}

#[test]
fn d24_the_gpu_comes_from_the_caller_the_file_or_the_project() {
    let text = "docker run -e HSA_OVERRIDE_GFX_VERSION=11.0.0 docker.io/a/b@sha256:1\n";
    let other = format!("# RX 7600, gfx1102\n{text}");
    let several = format!("# gfx1103 gfx1151\n{text}");
    let asked = |gpu| Gpus { asked: Some(gpu), project: Some("gfx1151") };
    for (text, gpus, expected) in [
        (text, NONE, &[][..]),
        (text, PROJECT, &["1 error"]),
        (text, asked("gfx1100"), &[]),
        (text, Gpus { asked: Some("gfx1151"), project: None }, &["1 error"]),
        (&other, PROJECT, &[]),
        (&other, asked("gfx1151"), &["2 error"]),
        (&several, NONE, &["2 warning"]),
        (&several.replace("11.0.0", "11.5.1"), NONE, &[]),
    ] {
        assert_eq!(of("hsa-override-gfx1151", "a.sh", text, gpus), expected, "{gpus:?}\n{text}");
    }
    // The same holds for a ROCm that is too old for one GPU.
    let image = "FROM docker.io/rocm/dev-ubuntu-22.04:6.4.1-complete\n";
    for (text, gpus, expected) in [
        (image.to_owned(), NONE, &[][..]),
        (format!("{image}# for an APU\n"), NONE, &[]),
        (format!("{image}# for gfx1151\n"), NONE, &["1 error"]),
        (image.to_owned(), PROJECT, &["1 error"]),
        (format!("{image}ENV PYTORCH_ROCM_ARCH=gfx90a\n"), PROJECT, &[]),
        (format!("{image}ENV HSA_OVERRIDE_GFX_VERSION=gfx1100\n"), PROJECT, &["1 error"]),
    ] {
        assert_eq!(of("rocm-too-old", "Dockerfile", &text, gpus), expected, "{gpus:?}\n{text}");
    }
}

#[test]
fn file_kinds_that_nobody_looked_at_are_read() {
    expect(
        "hsa-override-gfx1151",
        PROJECT,
        &[
            (
                "a.container",
                "[Container]\nEnvironment=HSA_OVERRIDE_GFX_VERSION=11.0.0\n",
                &["2 error"],
            ),
            ("a.service", "[Service]\nEnvironment=HSA_OVERRIDE_GFX_VERSION=11.0.0\n", &["2 error"]),
            (
                "ollama.service.d/override.conf",
                "[Service]\nEnvironment=\"HSA_OVERRIDE_GFX_VERSION=11.0.0\"\n",
                &["2 error"],
            ),
            ("env.example", "HSA_OVERRIDE_GFX_VERSION=11.0.0\n", &["1 error"]),
            ("vllm.env.sample", "HSA_OVERRIDE_GFX_VERSION=11.0.0\n", &["1 error"]),
        ],
    );
    expect(
        "ollama-without-rocm",
        PROJECT,
        &[
            (
                "a.container",
                "[Container]\nImage=docker.io/ollama/ollama:latest\nAddDevice=/dev/kfd\n",
                &["2 error"],
            ),
            // The other service gets the device.
            (
                "compose.yml",
                "services:\n  a:\n    image: ollama/ollama:latest\n  b:\n    image: x/y\n    devices: [/dev/kfd]\n",
                &[],
            ),
        ],
    );
    expect(
        "privileged-container",
        PROJECT,
        &[
            (
                "compose.yml",
                "services:\n  a:\n    privileged: true\n    devices: [/dev/kfd]\n",
                &["3 warning"],
            ),
            (
                "a.sh",
                "distrobox create --image localhost/rocm --additional-flags '--privileged --ipc=host'\n",
                &["1 warning"],
            ),
            ("compose.yml", "services:\n  a:\n    privileged: false\n", &[]),
            (
                "a.container",
                "[Container]\nPodmanArgs=--privileged --device=/dev/kfd\n",
                &["2 warning"],
            ),
        ],
    );
}

#[test]
fn build_arguments_and_urls_of_packages_are_read() {
    let arguments = "services:\n  a:\n    build:\n      args:\n        VLLM_COMMIT: main\n";
    expect("branch-as-commit", PROJECT, &[("compose.yml", arguments, &["5 warning"])]);
    expect(
        "rocm-too-old",
        PROJECT,
        &[
            ("requirements.txt", "torchvision==0.22.1+rocm7.0.0rc20250826\n", &["1 warning"]),
            ("requirements.txt", "torchvision==0.22.1+rocm7.0.2\n", &["1 error"]),
            (
                "Dockerfile",
                "FROM scratch\nRUN printf 'deb https://repo.radeon.com/rocm/apt/7.0.2 noble main\\n' > x\n",
                &["2 error"],
            ),
            (
                "Dockerfile",
                "FROM scratch\nARG V=6.4.1\nRUN echo \"deb https://repo.radeon.com/rocm/apt/$V noble main\" > x\n",
                &["3 error"],
            ),
            (
                "Dockerfile",
                "FROM scratch\nRUN pip install https://repo.radeon.com/rocm/manylinux/rocm-rel-6.4/torch-2.6.0%2Brocm6.4.0-cp312-cp312-linux_x86_64.whl\n",
                &["2 error"],
            ),
            (
                "a.sh",
                "pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/rocm6.4\n",
                &["1 error"],
            ),
            (
                "a.sh",
                "pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/rocm7.2\n",
                &[],
            ),
            (
                "compose.yml",
                "services:\n  a:\n    build:\n      args:\n        - BASE_IMAGE=rocm/dev-ubuntu-22.04:6.3.2\n",
                &["5 error"],
            ),
            (
                "compose.yml",
                "services:\n  a:\n    build:\n      args: [ROCM_VERSION=6.3]\n",
                &["4 error"],
            ),
        ],
    );
}

#[test]
fn stale_indexes_and_wheels_for_another_python_are_found() {
    expect(
        "index-moved",
        PROJECT,
        &[
            (
                "a.sh",
                "pip install a==1 -i https://d2awnip2yjpvqn.cloudfront.net/v2/gfx1151/\n",
                &["1 warning"],
            ),
            (
                "a.sh",
                "curl -O https://therock-nightly-tarball.s3.amazonaws.com/x.tar.gz\n",
                &["1 warning"],
            ),
            (
                "a.sh",
                "pip install a==1 -i https://rocm.nightlies.amd.com/v2-staging/gfx1151/\n",
                &["1 warning"],
            ),
            (
                "a.sh",
                "pip install a==1 -i https://repo.amd.com/rocm/whl/gfx1151/\n",
                &["1 warning"],
            ),
            ("a.sh", "pip install a==1 -i https://repo.amd.com/rocm/whl-multi-arch/\n", &[]),
        ],
    );
    expect(
        "wheel-python",
        PROJECT,
        &[
            (
                "a.sh",
                "uv pip install --python 3.13 vllm==0.33.0 --index https://wheels.vllm.ai/rocm/\n",
                &["1 warning"],
            ),
            (
                "a.sh",
                "uv pip install --python 3.12 vllm==0.33.0 --index https://wheels.vllm.ai/rocm/\n",
                &[],
            ),
            (
                "a.sh",
                "uv venv --python 3.13 x\nuv pip install vllm==0.33.0 --index https://wheels.vllm.ai/rocm/\n",
                &["2 warning"],
            ),
            ("a.sh", "uv venv --python 3.13 x\nuv pip install vllm==0.33.0\n", &[]),
        ],
    );
}

#[test]
fn a_checkout_settles_only_its_own_clone() {
    let checkout = "cd b && git checkout 01efc7ef781391e744ed08c3292817a773d654e6\n";
    expect(
        "clone-unpinned",
        PROJECT,
        &[
            (
                "a.sh",
                &format!(
                    "git clone https://h.example/a\ngit clone https://h.example/b\n{checkout}"
                ),
                &["1 warning"],
            ),
            ("a.sh", &format!("git clone https://h.example/b.git\n{checkout}"), &[]),
            ("a.sh", &format!("git clone https://h.example/x b\n{checkout}"), &[]),
            ("a.sh", "pip install git+https://h.example/a.git\n", &["1 warning"]),
            ("a.sh", "pip install git+https://h.example/a.git@01efc7ef\n", &[]),
            (
                "a.sh",
                "git clone https://h.example/a \"$DIR\"\ngit -C \"$DIR\" checkout \"$REF\"\n",
                &[],
            ),
            (
                "a.sh",
                "git clone https://h.example/a\ngit clone https://h.example/b\ngit -C a checkout v1\n",
                &["2 warning"],
            ),
            (
                "Dockerfile",
                "FROM scratch\nRUN git clone https://h.example/a /src\nWORKDIR /src\nRUN git checkout v1.2\n",
                &[],
            ),
            (
                "Dockerfile",
                "FROM scratch AS x\nRUN git clone https://h.example/a\nFROM scratch\nRUN git clone https://h.example/b && cd b && git checkout v1\n",
                &["2 warning"],
            ),
        ],
    );
}

#[test]
fn a_severity_is_never_higher_than_that_of_the_rule() {
    let text = "# gfx1103 gfx1151\nFROM docker.io/rocm/dev-ubuntu-22.04:7.2.0\n";
    assert_eq!(of("rocm-7-2-0", "Dockerfile", text, NONE), ["2 warning"]);
    assert_eq!(lint::rule("rocm-7-2-0").unwrap().severity, Severity::Warning);
}

#[test]
fn a_comment_that_warns_is_no_advice() {
    expect(
        "flash-attention-branch",
        PROJECT,
        &[
            ("Dockerfile", "# flash-attention: SKIPPED, main_perf is slower\nFROM scratch\n", &[]),
            ("README.md", "Do not build flash-attention from main_perf.\n", &[]),
            ("README.md", "Build flash-attention from main_perf.\n", &["1 warning"]),
        ],
    );
    expect("large-carve-out", PROJECT, &[("README.md", "Avoid a VRAM carve-out of 96 GB.\n", &[])]);
}

#[test]
fn a_list_of_gpus_is_edited_in_other_ways_too() {
    expect(
        "vllm-allowlist-sed",
        PROJECT,
        &[
            (
                "a.sh",
                "cd vllm\nsed -i 's/gfx1200;gfx1201/gfx1151;&/' CMakeLists.txt\n",
                &["2 warning"],
            ),
            ("a.sh", "cd llama.cpp\nsed -i 's/gfx1200/gfx1151/' CMakeLists.txt\n", &[]),
        ],
    );
    let debug = "export AMD_SERIALIZE_KERNEL=3\nllama-server\n";
    expect("debug-variable-baked", PROJECT, &[("a.sh", debug, &["1 warning"])]);
}
