//! Defects that two people found in 144 previously unseen files from 88 repositories on 2026-11-26.
//! They had labelled the problems of these files before they read what `lint` says.

use std::collections::BTreeSet;

use lint::Context;

use super::{Gpus, NONE, PROJECT, expect};
use crate::{defined, findings_in, shown};

#[test]
fn a_file_that_a_script_sources_may_set_its_pins() {
    let script = "source ../common.sh \"rocm\"\ndocker build -t \"$BASE_IMAGE:$ROCM_VERSION\" .\n";
    let defined = defined("a.sh", &format!("TAG=1\n{script}"));
    // Only this file is known, so nothing is known about the other one.
    let context = Context { defined: Some(&defined), ..Context::default() };
    assert_eq!(shown(&findings_in("a.sh", &format!("TAG=1\n{script}"), context)), [""; 0]);
    let others = BTreeSet::from(["OTHER".to_owned()]);
    let context = Context { defined: Some(&others), ..Context::default() };
    let found = findings_in("a.sh", script, context);
    let found: Vec<&str> = found.iter().map(|one| one.severity.name()).collect();
    assert_eq!(found, ["information"]);
}

#[test]
fn a_rocm_release_of_a_stage_is_reported_once() {
    let twice = "FROM docker.io/rocm/dev-ubuntu-24.04:6.4.1@sha256:1\nRUN pip install https://repo.radeon.com/rocm/manylinux/rocm-rel-6.4.1/a-1-cp312-cp312-linux_x86_64.whl\n# gfx1151\n";
    let other = format!("{twice}FROM docker.io/rocm/dev-ubuntu-24.04:6.4.1@sha256:1\n");
    let several = "docker run docker.io/rocm/pytorch:rocm7.1_a@sha256:1 a\ndocker run docker.io/rocm/pytorch:rocm7.1_a@sha256:1 b # gfx1151\n";
    let image = "podman run docker.io/vllm/vllm-openai-rocm:v0.14.1@sha256:1 # gfx1151\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", twice, &["1 error"]),
        ("Dockerfile", &other, &["1 error"]),
        ("a.sh", several, &["1 error"]),
        ("a.sh", image, &["1 warning"]),
    ];
    expect("rocm-too-old", NONE, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "Dockerfile",
            "FROM docker.io/rocm/pytorch:rocm7.2@sha256:1\nRUN pip install torch==2.9.1+rocm7.2.0\n# gfx1151\n",
            &["1 warning"],
        ),
        ("Dockerfile", "# RX 9070 XT\nFROM docker.io/rocm/pytorch:rocm7.2@sha256:1\n", &[]),
        (
            "Dockerfile",
            "# Strix Halo\nFROM docker.io/rocm/pytorch:rocm7.2@sha256:1\n",
            &["2 warning"],
        ),
    ];
    expect("rocm-7-2-0", NONE, cases);
}

#[test]
fn a_url_with_a_commit_names_its_content() {
    let commit = "01efc7ef781391e744ed08c3292817a773d654e6";
    let variable = format!(
        "FROM docker.io/a/b@sha256:1\nARG COMMIT={commit}\nRUN curl -fsSL \"https://codeload.example/a/b/tar.gz/${{COMMIT}}\" | tar xz\n"
    );
    let install = format!("pip install https://h.example/a/archive/{commit}.zip\n");
    let added = format!("FROM scratch\nADD https://h.example/{commit}/a.tar.gz /\n");
    let piped = format!("curl https://h.example/{commit}/install.sh | bash\n");
    let plain = format!("curl http://h.example/{commit}/install.sh | bash\n");
    let digest = format!("curl -O https://h.example/{commit}{}/a.tar.gz\n", &commit[..24]);
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", &variable, &[]),
        ("a.sh", &install, &[]),
        ("Dockerfile", &added, &[]),
        ("a.sh", &piped, &[]),
        ("a.sh", &plain, &["1 warning"]),
        ("a.sh", &digest, &["1 warning"]),
        ("a.sh", "curl https://h.example/v1/install.sh | bash\n", &["1 warning"]),
    ];
    expect("download-unchecked", NONE, cases);
}

#[test]
fn a_name_of_one_part_is_an_official_image_or_was_built_here() {
    let service = |image: &str| format!("services:\n  a:\n    image: {image}\n");
    for (image, latest, unpinned) in [
        ("ubuntu", 1, 0),
        ("ubuntu:24.04", 0, 0),
        ("comfyui-rocm", 0, 0),
        ("llama.cpp-rocm:7.2", 0, 0),
        ("hello-world", 0, 0),
        ("a/comfyui-rocm", 1, 0),
        ("a/base/comfyui-rocm", 0, 0),
        ("ghcr.io/a/base/comfyui-rocm", 1, 0),
        // Placeholders.
        ("CI_REGISTRY/git/rocm-base:1", 0, 0),
        ("YOUR_NAME/rocm", 0, 0),
    ] {
        let found = findings_in("compose.yml", &service(image), Context::default());
        let of = |rule: &str| found.iter().filter(|one| one.rule.id == rule).count();
        assert_eq!((of("image-latest"), of("image-unpinned")), (latest, unpinned), "{image}");
        // One finding about an image is enough.
        assert_eq!(of("image-short-name"), 0, "{image}");
    }
}

#[test]
fn an_extra_is_kept_by_an_old_release() {
    let stage = |install: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN pip install {install}\nRUN pip install 'huggingface_hub[hf_transfer]'\n"
        )
    };
    for (install, expected) in [
        ("transformers==4.57.1", &[][..]),
        ("'transformers<5'", &[]),
        ("'huggingface-hub<1'", &[]),
        ("huggingface-hub==0.36.0", &[]),
        ("transformers==5.0.0", &["3 information"]),
        ("'transformers>=4.50'", &["3 information"]),
    ] {
        expect("extra-removed", NONE, &[("Dockerfile", &stage(install), expected)]);
    }
    let limited = "huggingface_hub[cli]>=0.34,<1.0\n";
    expect("extra-removed", NONE, &[("requirements.txt", limited, &[])]);
}

#[test]
fn a_log_of_errors_is_no_debugging() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.env", "AMD_LOG_LEVEL=1\n", &[]),
        ("a.env", "AMD_LOG_LEVEL=0\n", &[]),
        ("a.env", "AMD_LOG_LEVEL=4\n", &["1 warning"]),
    ];
    expect("debug-variable-baked", NONE, cases);
}

#[test]
fn gpus_before_vega_need_their_variable() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.env", "ROC_ENABLE_PRE_VEGA=1\nPYTORCH_ROCM_ARCH=gfx803\n", &[]),
        ("a.env", "# RX 580\nROC_ENABLE_PRE_VEGA=1\n", &[]),
        ("a.env", "# gfx1030\nROC_ENABLE_PRE_VEGA=1\n", &["2 information"]),
    ];
    expect("pre-vega", NONE, cases);
}

#[test]
fn a_product_says_which_gpu_a_file_is_about() {
    let wrong = "# Radeon AI PRO R9700 (gfx1151)\nFROM docker.io/rocm/pytorch:rocm7.1_a@sha256:1\nENV HSA_OVERRIDE_GFX_VERSION=11.5.1\n";
    expect("rocm-too-old", NONE, &[("Dockerfile", wrong, &[])]);
    expect("hsa-override-identity", NONE, &[("Dockerfile", wrong, &[])]);
    let gpu = |asked| Gpus { asked: Some(asked), project: None };
    for (text, gpus, expected) in [
        // The text names both GPUs, so it may target both.
        (wrong, NONE, &["3 warning"][..]),
        ("# RX 9070 XT\nHSA_OVERRIDE_GFX_VERSION=11.5.1\n", NONE, &["2 error"]),
        ("# RX 9070 XT\nHSA_OVERRIDE_GFX_VERSION=12.0.0\n", NONE, &["2 warning"]),
        ("# RX 9070 XT\nHSA_OVERRIDE_GFX_VERSION=12.0.1\n", NONE, &[]),
        ("# RX 9060 XT and RX 9070 XT\nHSA_OVERRIDE_GFX_VERSION=12.0.0\n", NONE, &[]),
        ("# RX 6700 XT\nHSA_OVERRIDE_GFX_VERSION=10.3.0\n", NONE, &[]),
        ("# gfx1103\nHSA_OVERRIDE_GFX_VERSION=11.0.0\n", NONE, &[]),
        ("# Strix Halo with an R9700\nHSA_OVERRIDE_GFX_VERSION=11.5.1\n", NONE, &[]),
        ("HSA_OVERRIDE_GFX_VERSION=10.3.0\n", NONE, &[]),
        ("HSA_OVERRIDE_GFX_VERSION=10.3.0\n", gpu("gfx1100"), &["1 error"]),
    ] {
        let file = if text.contains("FROM") { "Dockerfile" } else { "a.env" };
        expect("hsa-override-other", gpus, &[(file, text, expected)]);
    }
    // Such a script chooses between several GPUs.
    let script = "# gfx1031\ncase $GPU in\n a) export HSA_OVERRIDE_GFX_VERSION=10.3.0 ;;\n b) export HSA_OVERRIDE_GFX_VERSION=11.0.0 ;;\nesac\n";
    expect("hsa-override-other", NONE, &[("a.sh", script, &[])]);
    let monitor = "HSA_OVERRIDE_GFX_VERSION=11.0.0 rocm-smi\n";
    expect("hsa-override-gfx1151", PROJECT, &[("a.sh", monitor, &[])]);
}

#[test]
fn a_suggested_name_is_similar() {
    let text = "[Service]\nEnvironment=OLLAMA_NUM_GPU=99\nEnvironment=OLLAMA_NUM_PARALEL=1\nExecStart=/usr/bin/ollama serve\n";
    let found = findings_in("ollama.service", text, Context::default());
    let help: Vec<&str> = found.iter().map(|one| one.help.as_str()).collect();
    assert!(help[0].starts_with("remove it"), "{help:?}");
    assert!(help[1].starts_with("did you mean `OLLAMA_NUM_PARALLEL`?"), "{help:?}");
}

#[test]
fn an_override_for_any_gpu_is_information() {
    let image = "FROM docker.io/a/b@sha256:1\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", image, &["2 information"]),
        ("a.env", "HSA_OVERRIDE_GFX_VERSION=11.0.0\n", &["1 information"]),
        ("a.env", "# for an RX 6700 XT\nHSA_OVERRIDE_GFX_VERSION=10.3.0\n", &[]),
        // A single command, and a variable that no program sees.
        ("a.sh", "HSA_OVERRIDE_GFX_VERSION=10.3.0 rocminfo\n", &[]),
        ("a.sh", "HSA_OVERRIDE_GFX_VERSION=10.3.0\n", &[]),
    ];
    expect("hsa-override-any-gpu", NONE, cases);
    expect("hsa-override-any-gpu", PROJECT, &[("Dockerfile", image, &[])]);
}

#[test]
fn lists_of_gpus_contain_numbers() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.env", "HIP_VISIBLE_DEVICES=all\n", &["1 error"]),
        ("a.env", "ROCR_VISIBLE_DEVICES=ALL\n", &["1 error"]),
        ("a.env", "HIP_VISIBLE_DEVICES=0,1\n", &[]),
        ("a.env", "ROCR_VISIBLE_DEVICES=GPU-4b2c1a9f8d3e6f7a\n", &[]),
        // Container toolkits read these.
        ("a.env", "AMD_VISIBLE_DEVICES=all\nNVIDIA_VISIBLE_DEVICES=all\n", &[]),
        ("a.sh", "HIP_VISIBLE_DEVICES=all\n", &[]),
    ];
    expect("visible-devices-form", NONE, cases);
}

#[test]
fn variables_without_a_reader_are_found() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.env", "# gfx1151\nHSA_XNACK=1\n", &["2 warning"]),
        ("a.env", "# MI300X\nHSA_XNACK=1\n", &[]),
        ("a.env", "HSA_XNACK=1\n", &[]),
        ("a.sh", "cmake -B build -DGGML_HIP_GRAPHS=ON\n", &[]),
        ("a.sh", "docker run -e GGML_HIP_GRAPHS=0 docker.io/a/b@sha256:1\n", &["1 warning"]),
    ];
    expect("variable-without-effect", NONE, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.env", "COMFYUI_ENABLE_MIOPEN=1\nVLLM_LOGGING_LEVEL=INFO\n", &[]),
        ("a.env", "PYTORCH_TUNABLEOP_FILENAME=/m/t.csv\nRAY_ADDRESS=auto\n", &[]),
        ("a.env", "ROCBLAS_TENSILE_LIB_PATH=/opt/x\n", &["1 warning"]),
    ];
    expect("variable-unknown", NONE, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.env", "HSA_ENABLE_SDMA=1\n", &[]),
        ("a.sh", "HSA_ENABLE_SDMA=0 rocm-bandwidth-test\n", &[]),
    ];
    expect("workaround-baked", NONE, cases);
}

#[test]
fn words_about_the_host_and_drivers_are_found() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "AMD_VULKAN_ICD=RADV llama-server\n", &[]),
        ("a.sh", "dnf remove -y amdvlk\n", &[]),
        ("a.sh", "podman run docker.io/a/toolboxes:vulkan-amdvlk\n", &["1 warning"]),
        ("a.sh", "podman run docker.io/a/toolboxes:vulkan-radv\n", &[]),
    ];
    expect("amdvlk", NONE, cases);
    let cases: &[(&str, &str, &[&str])] =
        &[("cmdline", "iommu=pt amdgpu.cwsr_enable=1\n", &[]), ("cmdline", "amd_iommu=on\n", &[])];
    expect("iommu-parameter", NONE, cases);
    expect("cwsr-off", NONE, cases);
    let install = "https://repo.radeon.com/amdgpu-install";
    let cases = [
        (
            format!("wget {install}/latest/ubuntu/noble/amdgpu-install_7.2.4.70204-1_all.deb\n"),
            &["1 error"][..],
        ),
        (format!("URL=\"{install}/latest/ubuntu/noble/\"\n"), &["1 warning"]),
        (
            "echo 'deb https://repo.radeon.com/rocm/apt/latest noble main' > l\n".to_owned(),
            &["1 warning"],
        ),
        (format!("wget {install}/7.2.4/ubuntu/noble/amdgpu-install_7.2.4.70204-1_all.deb\n"), &[]),
    ];
    for (text, expected) in &cases {
        expect("rocm-latest", NONE, &[("a.sh", text, expected)]);
    }
    let ollama = "https://ollama.com/download/ollama-linux-amd64";
    let cases = [
        (format!("curl -L {ollama}.tgz -o o.tgz\n"), &["1 warning"][..]),
        (format!("curl -L \"{ollama}.tgz?version=0.13.5\" -o o.tgz\n"), &[]),
        (format!("curl -L {ollama}.tar.zst -o o.tar.zst\n"), &[]),
    ];
    for (text, expected) in &cases {
        expect("ollama-archive", NONE, &[("a.sh", text, expected)]);
    }
}

/// Returns a compose file with one service that has these lines.
fn service(lines: &[&str]) -> String {
    let start = "services:\n  a:\n    image: docker.io/a/rocm-b@sha256:1\n";
    lines.iter().fold(start.to_owned(), |text, line| format!("{text}    {line}\n"))
}

#[test]
fn options_of_containers_are_compared_in_every_file() {
    let kfd = "devices: [/dev/kfd, /dev/dri]";
    let seccomp = "security_opt: ['seccomp:unconfined']";
    let debugger = "cap_add: [SYS_PTRACE]";
    let quadlet =
        "[Container]\nImage=localhost/a\nAddDevice=-/dev/kfd\nPodmanArgs=--cap-add SYS_PTRACE\n";
    let toolbox = "distrobox create --image docker.io/a/b@sha256:1 \\\n  --additional-flags '--device /dev/kfd --security-opt seccomp=unconfined --cap-add SYS_ADMIN'\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &service(&[kfd, seccomp, debugger]), &["5 information", "6 information"]),
        ("compose.yml", &service(&[kfd, debugger]), &["5 information"]),
        // Without a GPU device, the unconfined options have nothing to do with ROCm.
        ("compose.yml", &service(&[seccomp]), &[]),
        ("compose.yml", &service(&[kfd, "security_opt: ['label:disable']"]), &[]),
        ("a.container", quadlet, &["4 information"]),
        ("a.sh", toolbox, &["2 information"]),
    ];
    expect("container-unconfined", NONE, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "docker run --ipc=host --shm-size 8g localhost/a\n", &["1 warning"]),
        ("a.sh", "docker run --ipc host --shm-size=8g localhost/a\n", &["1 warning"]),
        ("a.sh", "docker run --ipc private --shm-size=8g localhost/a\n", &[]),
        ("a.sh", "docker run --ipc=host localhost/a --shm-size 8g\n", &[]),
        ("compose.yml", &service(&["shm_size: 8g"]), &[]),
    ];
    expect("shm-size-ignored", NONE, cases);
}

#[test]
fn the_devices_of_a_container_are_those_that_rocm_needs() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &service(&["devices: [/dev/dri]"]), &["4 error"]),
        ("compose.yml", &service(&["devices: [/dev/dri, /dev/kfd]"]), &[]),
        ("compose.yml", &service(&["devices: [/dev/dri, '${KFD}']"]), &[]),
        ("compose.yml", &service(&["devices: [/dev/dri]", "privileged: true"]), &[]),
        ("compose.yml", &service(&["devices: [/dev/dri]", "extends: {service: b}"]), &[]),
        ("compose.yml", &service(&["devices: [/dev/dri]", "volumes: ['/dev:/dev']"]), &[]),
        ("compose.yml", &service(&[]), &[]),
        ("a.sh", "docker run --device /dev/dri localhost/llama:rocm-vulkan\n", &[]),
        ("a.sh", "docker run --device /dev/dri docker.io/ollama/ollama@sha256:1\n", &[]),
    ];
    expect("kfd-missing", NONE, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &service(&["devices: [/dev/kfd, /mdev/dri]"]), &["4 error"]),
        ("compose.yml", &service(&["devices: ['amd.com/gpu=all', '/dev/dri:/dev/dri']"]), &[]),
        ("compose.yml", &service(&["devices: ['${DRI:-/dev/dri}']"]), &[]),
        ("a.sh", "docker run --device /dev:/dev localhost/a\n", &[]),
    ];
    expect("device-path", NONE, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &service(&["group_add: [render]"]), &[]),
        ("a.sh", "docker run --group-add 992 docker.io/ollama/ollama:rocm\n", &[]),
        ("a.sh", "docker run --group-add video docker.io/ollama/ollama:rocm\n", &[]),
    ];
    expect("group-unknown", NONE, cases);
    let socket = "volumes: ['/var/run/docker.sock:/var/run/docker.sock:ro']";
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &service(&["devices: [/dev/dri]", socket]), &["5 warning"]),
        ("compose.yml", &service(&[socket]), &["4 information"]),
    ];
    expect("engine-socket", NONE, cases);
    let check = "services:\n  a:\n    image: docker.io/ollama/ollama:rocm\n    healthcheck:\n      test: ollama list\n";
    expect("healthcheck-fails", NONE, &[("compose.yml", check, &[])]);
}

#[test]
fn releases_of_distributions_end_and_have_packages_of_their_own() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", "FROM docker.io/library/ubuntu:22.04@sha256:1\n", &[]),
        ("Dockerfile", "FROM docker.io/library/fedora:44@sha256:1\n", &[]),
        ("Dockerfile", "FROM registry.fedoraproject.org/fedora:42@sha256:1\n", &["1 warning"]),
        ("Dockerfile", "FROM docker.io/library/debian:bullseye-slim@sha256:1\n", &["1 warning"]),
        ("Dockerfile", "FROM docker.io/library/debian:12@sha256:1\n", &[]),
        ("Dockerfile", "FROM docker.io/rocm/dev-ubuntu-20.04:6.2@sha256:1\n", &["1 warning"]),
        ("Dockerfile", "FROM docker.io/a/ubuntu:20.04@sha256:1\n", &[]),
    ];
    expect("base-end-of-life", NONE, cases);
    let with = |base: &str, run: &str| format!("FROM {base}@sha256:1\nRUN {run}\n");
    let apt = "echo 'deb https://repo.radeon.com/rocm/apt/7.2.4 noble main' > /a.list";
    let deb = "wget https://repo.radeon.com/amdgpu-install/7.2.4/ubuntu/jammy/amdgpu-install_7.2.4.70204-1_all.deb";
    let both =
        "for name in jammy noble; do curl https://repo.radeon.com/rocm/apt/7.2.4/$name; done";
    for (base, run, expected) in [
        ("docker.io/library/ubuntu:24.04", apt, &[][..]),
        ("docker.io/rocm/dev-ubuntu-24.04:7.2.4-complete", apt, &[]),
        ("docker.io/rocm/dev-ubuntu-22.04:7.2.4-complete", apt, &["2 warning"]),
        ("docker.io/library/ubuntu:24.04", deb, &["2 warning"]),
        // Debian uses packages for Ubuntu, and nothing is known about another image.
        ("docker.io/library/debian:12", apt, &[]),
        ("docker.io/a/b:1", apt, &[]),
        ("docker.io/library/ubuntu:26.04", both, &[]),
    ] {
        expect("other-distribution", NONE, &[("Dockerfile", &with(base, run), expected)]);
    }
}

#[test]
fn a_checkout_pins_what_it_names() {
    let after = |checkout: &str| format!("git clone https://h.example/a\ncd a\n{checkout}\n");
    for (checkout, expected) in [
        ("git checkout -b v1.2.0", &["3 error"][..]),
        ("git switch -c v1.2.0", &["3 error"]),
        ("git checkout -b v1.2.0 origin/v1.2.0", &[]),
        ("git checkout -b mine", &[]),
        ("git checkout v1.2.0", &[]),
    ] {
        expect("branch-instead-of-tag", NONE, &[("a.sh", &after(checkout), expected)]);
    }
    let tag = "git clone -b v1.2.0 https://h.example/a\ncd a\ngit checkout -b v1.2.0\n";
    expect("branch-instead-of-tag", NONE, &[("a.sh", tag, &[])]);
    for (checkout, expected) in [
        ("git checkout v1.2.0-fixes", &["3 information"][..]),
        ("git checkout b9010", &[]),
        ("git checkout 1234567", &[]),
        ("git checkout -- v1.2.0", &[]),
        ("git checkout main", &[]),
    ] {
        expect("tag-not-commit", NONE, &[("a.sh", &after(checkout), expected)]);
    }
    for (checkout, expected) in [
        ("git checkout fix-gfx12", &["3 warning"][..]),
        ("git checkout rocm-5.5.x", &["3 warning"]),
        ("git checkout 01efc7e", &[]),
        ("git checkout v1.2.0", &[]),
        ("git checkout docs/a1.md", &[]),
        ("git checkout \"$REF\"", &[]),
    ] {
        expect("branch-as-commit", NONE, &[("a.sh", &after(checkout), expected)]);
    }
}

#[test]
fn a_patch_of_a_pull_request_moves() {
    let checked =
        "curl -fsSLo a.patch https://github.com/a/b/pull/12.patch\nsha256sum --check a.sum\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "wget https://github.com/a/b/pull/12.diff\n", &["1 warning"]),
        ("a.sh", checked, &[]),
        ("a.sh", "curl https://github.com/a/b/pull/12\n", &[]),
        (
            "a.sh",
            "curl https://github.com/a/b/commit/01efc7ef781391e744ed08c3292817a773d654e6.patch\n",
            &[],
        ),
    ];
    expect("pull-request-patch", NONE, cases);
}

#[test]
fn an_option_of_llama_cpp_needs_a_value() {
    let list = |image: &str| {
        format!(
            "services:\n  a:\n    image: {image}@sha256:1\n    command:\n      - --flash-attn\n      - --jinja\n"
        )
    };
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "llama-server -m a.gguf -fa on\n", &[]),
        ("a.sh", "/opt/bin/llama-server -m a.gguf -fa\n", &["1 warning"]),
        ("a.sh", "whisper-server --flash-attn\n", &[]),
        ("compose.yml", &list("docker.io/a/llama.cpp:1"), &["5 warning"]),
        ("compose.yml", &list("docker.io/a/whisper:1"), &[]),
        ("compose.yml", &list("docker.io/ollama/ollama:rocm"), &[]),
    ];
    expect("flash-attn-value", NONE, cases);
}

#[test]
fn commands_of_services_and_units_are_read_with_their_lines() {
    let block = "services:\n  a:\n    build: .\n    entrypoint:\n      - sh\n      - -c\n      - |\n        # start\n        export HIP_VISIBLE_DEVICES=all\n        exec llama-server -fa\n";
    let text = "services:\n  a:\n    build: .\n    command: llama-server -fa --jinja\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("compose.yml", block, &["10 warning"]), ("compose.yml", text, &["4 warning"])];
    expect("flash-attn-value", NONE, cases);
    expect("visible-devices-form", NONE, &[("compose.yml", block, &["9 error"])]);
    let unit = "[Service]\nExecStart=/usr/bin/docker run \\\n  # the GPU\n  --device /dev/dri \\\n  docker.io/a/rocm-b@sha256:1\n";
    expect("kfd-missing", NONE, &[("a.service", unit, &["4 error"])]);
}

#[test]
fn releases_of_rocm_are_found_in_more_places() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "Dockerfile",
            "FROM docker.io/a/b@sha256:1\nENV TORCH='pip install torch --index-url https://download.pytorch.org/whl/rocm5.7'\n",
            &["2 error"],
        ),
        (".env", "INDEX=https://download.pytorch.org/whl/rocm6.2\n", &["1 error"]),
        (".env", "BASE_IMAGE=docker.io/rocm/pytorch:rocm6.4_a@sha256:1\n", &["1 error"]),
        ("a.sh", "DEB=amdgpu-install_7.2.4.70204-1_all.deb\napt install ./$DEB\n", &[]),
        ("a.sh", "DEB=amdgpu-install_6.4.60401-1_all.deb\napt install ./$DEB\n", &["2 error"]),
    ];
    expect("rocm-too-old", PROJECT, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        (".env", "IMAGE=docker.io/a/b:1\n", &["1 information"]),
        (".env", "IMAGE_SIZE=1024:768\nIMAGE_DIR=/a:/b\nIMAGE_URL=https://h.example/a:1\n", &[]),
    ];
    expect("image-unpinned", NONE, cases);
    let rows = "torch==2.8.0+rocm6.4\ntorchvision==0.23.0+rocm6.4\ntorchaudio==2.8.0+rocm6.4\n";
    expect("packages-do-not-match", NONE, &[("requirements.txt", rows, &[])]);
}

#[test]
fn an_ollama_image_without_rocm_ignores_its_variables() {
    let stage = |image: &str, variable: &str| format!("FROM {image}@sha256:1\nENV {variable}\n");
    for (image, variable, expected) in [
        ("docker.io/ollama/ollama:0.31.0", "ROCR_VISIBLE_DEVICES=0", &["1 warning"][..]),
        ("docker.io/ollama/ollama:0.31.0-rocm", "ROCR_VISIBLE_DEVICES=0", &[]),
        ("docker.io/ollama/ollama:0.31.0", "OLLAMA_HOST=0.0.0.0", &[]),
    ] {
        let cases: &[(&str, &str, &[&str])] = &[("Dockerfile", &stage(image, variable), expected)];
        expect("ollama-without-rocm", NONE, cases);
    }
}

#[test]
fn variables_in_here_documents_are_replaced_unless_the_word_is_quoted() {
    let with = |word: &str| {
        format!(
            "GFX=11.0.0\n# gfx1151\ncat > compose.yml <<{word}\nservices:\n  a:\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION=${{GFX}}\nEOF\n"
        )
    };
    for (word, expected) in [("EOF", &["7 error"][..]), ("'EOF'", &[]), ("\\EOF", &[])] {
        expect("hsa-override-gfx1151", NONE, &[("a.sh", &with(word), expected)]);
    }
    let escaped = with("EOF").replace("=${GFX}", "=\\${GFX}");
    expect("hsa-override-gfx1151", NONE, &[("a.sh", &escaped, &[])]);
    let unit = "R=11.0.0\n# gfx1151\ncat > a.service <<EOF\n[Service]\nEnvironment=HSA_OVERRIDE_GFX_VERSION=$R\nEOF\n";
    expect("hsa-override-gfx1151", NONE, &[("a.sh", unit, &["5 error"])]);
}

#[test]
fn options_of_run_are_no_commands() {
    let text = "FROM docker.io/a/b@sha256:1\nRUN --security=insecure --network=none git clone https://h.example/a\n";
    expect("clone-unpinned", NONE, &[("Dockerfile", text, &["2 warning"])]);
}

#[test]
fn a_rootless_quadlet_keeps_the_groups_of_its_user() {
    let with = |lines: &str, target: &str| {
        format!(
            "[Container]\nImage=localhost/a\nPodmanArgs=--device=/dev/kfd\n{lines}[Install]\nWantedBy={target}\n"
        )
    };
    for (lines, target, expected) in [
        ("", "default.target", &["3 information"][..]),
        ("GroupAdd=keep-groups\n", "default.target", &[]),
        ("PodmanArgs=--group-add keep-groups\n", "default.target", &[]),
        ("", "multi-user.target", &[]),
    ] {
        expect("rootless-groups", NONE, &[("a.container", &with(lines, target), expected)]);
    }
}

#[test]
fn a_search_and_a_message_are_no_settings() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "a.sh",
            "if grep -q 'amd_iommu=off' /proc/cmdline; then\n  fail 'amd_iommu=off is set'\nfi\n",
            &[],
        ),
        ("a.sh", "print_header \"no amd_iommu=off\"\n", &[]),
        ("a.sh", "if [[ $line == *amd_iommu=off* ]]; then\n  exit\nfi\n", &[]),
        ("a.sh", "if cat /proc/cmdline | grep -q amd_iommu=off; then\n  exit\nfi\n", &[]),
        ("a.sh", "if echo \"$LINE\" | grep -q amd_iommu=off; then\n  exit\nfi\n", &[]),
        ("a.sh", "echo 'amd_iommu=off' | sudo tee -a /etc/cmdline\n", &["1 information"]),
        ("a.sh", "sed -i 's/quiet/quiet amd_iommu=off/' /etc/default/grub\n", &["1 information"]),
        ("a.sh", "PARAMETERS=( \"amd_iommu=off\" )\n", &["1 information"]),
    ];
    expect("iommu-parameter", NONE, cases);
}

#[test]
fn an_empty_default_is_no_branch_and_an_override_is_no_pin() {
    let text = "FROM docker.io/a/b@sha256:1\nARG B=\nRUN if [ -n \"$B\" ]; then git clone --branch \"$B\" https://h.example/a; fi\n";
    expect("branch-as-commit", NONE, &[("Dockerfile", text, &[])]);
    for test in [": \"${A_SHA:?A_SHA is not set}\"", "[ -n \"$A_SHA\" ] || exit 1"] {
        let script = format!("{test}\necho \"$A_SHA\"\n");
        expect("undefined-pin", NONE, &[("a.sh", &script, &[])]);
    }
    let script = "echo \"$HSA_OVERRIDE_GFX_VERSION $ZSH_VERSION $A_VERSION\"\n";
    expect("undefined-pin", NONE, &[("a.sh", script, &["1 information"])]);
}

#[test]
fn the_group_video_alone_opens_no_gpu() {
    let start = "FROM docker.io/rocm/pytorch@sha256:1\n";
    for (run, expected) in [
        ("RUN useradd -m -G video user", &["2 warning"][..]),
        ("RUN usermod -aG video,render user", &[]),
        ("RUN groupadd render && usermod -aG video user && usermod -aG 992 user", &[]),
    ] {
        let text = format!("{start}{run}\n");
        expect("render-group-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
    let other = "FROM docker.io/a/b@sha256:1\nRUN useradd -G video user\n";
    expect("render-group-missing", NONE, &[("Dockerfile", other, &[])]);
}

#[test]
fn the_file_of_a_wheel_is_no_name_of_a_package() {
    for wheel in ["a-1.0-py3-none-any.whl", "a-1.0+rocm7.2.1-py3-none-any.whl"] {
        let text = format!("FROM docker.io/a/b@sha256:1\nRUN pip install {wheel}\n");
        expect("index-unpinned", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn an_image_in_the_same_file_says_which_release_reads_a_variable() {
    for (image, expected) in [
        ("IMAGE=docker.io/rocm/vllm:rocm7.0.0_vllm_0.11.2\n", &[][..]),
        ("IMAGE=docker.io/vllm/vllm-openai-rocm:v0.20.2\n", &["2 warning"]),
        ("IMAGE=docker.io/a/b:1.0\n", &["2 warning"]),
    ] {
        let text = format!("{image}VLLM_USE_V1=0\n");
        expect("variable-without-effect", NONE, &[(".env", &text, expected)]);
    }
}
