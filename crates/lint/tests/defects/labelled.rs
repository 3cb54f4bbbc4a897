//! Defects that two people found in 144 previously unseen files from 88 repositories on 2026-11-26.
//! They had labelled the problems of these files before they read what `lint` says.

use std::collections::BTreeSet;

use lint::Context;

use super::{Gpus, NONE, PROJECT, expect};
use crate::{findings_in, shown};

#[test]
fn a_file_that_a_script_sources_may_set_its_pins() {
    let script = "source ../common.sh \"rocm\"\ndocker build -t \"$BASE_IMAGE:$ROCM_VERSION\" .\n";
    let defined = lint::defined("a.sh", &format!("TAG=1\n{script}"));
    // Only this file is known, so nothing is known about the other one.
    let context = Context { defined: Some(&defined), ..Context::default() };
    assert_eq!(shown(&findings_in("a.sh", &format!("TAG=1\n{script}"), context)), [""; 0]);
    let others = BTreeSet::from(["OTHER".to_owned()]);
    let context = Context { defined: Some(&others), ..Context::default() };
    let found = findings_in("a.sh", script, context);
    let found: Vec<&str> = found.iter().map(|one| one.severity.name()).collect();
    assert_eq!(found, ["information", "information"]);
}

#[test]
fn a_rocm_release_without_a_gpu_is_information_and_reported_once() {
    let twice = "FROM docker.io/rocm/dev-ubuntu-24.04:6.4.1@sha256:1\nRUN pip install https://repo.radeon.com/rocm/manylinux/rocm-rel-6.4.1/a-1-cp312-cp312-linux_x86_64.whl\n";
    let other = format!("{twice}FROM docker.io/rocm/dev-ubuntu-24.04:6.4.1@sha256:1\n");
    let several = "docker run docker.io/rocm/pytorch:rocm7.1_a@sha256:1 a\ndocker run docker.io/rocm/pytorch:rocm7.1_a@sha256:1 b\n";
    let image = "podman run docker.io/vllm/vllm-openai-rocm:v0.14.1@sha256:1\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", twice, &["1 information"]),
        ("Dockerfile", &other, &["1 information", "3 information"]),
        ("a.sh", several, &["1 information"]),
        ("a.sh", image, &["1 information"]),
    ];
    expect("rocm-too-old", NONE, cases);
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "Dockerfile",
            "FROM docker.io/rocm/pytorch:rocm7.2@sha256:1\nRUN pip install torch==2.9.1+rocm7.2.0\n",
            &["1 information"],
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
fn only_the_old_path_of_the_device_libraries_is_reported() {
    let cases: &[(&str, &str, &[&str])] = &[
        (".env", "HIP_DEVICE_LIB_PATH=/opt/rocm/lib/llvm/amdgcn/bitcode\n", &[]),
        (".env", "HIP_DEVICE_LIB_PATH=/opt/rocm/llvm/amdgcn/bitcode\n", &["1 information"]),
        (".env", "HIP_DEVICE_LIB_PATH=/opt/rocm/amdgcn/bitcode\n", &["1 information"]),
    ];
    expect("device-lib-path", NONE, cases);
}

#[test]
fn a_name_of_one_part_is_an_official_image_or_was_built_here() {
    let service = |image: &str| format!("services:\n  a:\n    image: {image}\n");
    for (image, latest, unpinned) in [
        ("ubuntu", 1, 0),
        ("ubuntu:24.04", 0, 1),
        ("comfyui-rocm", 0, 0),
        ("llama.cpp-rocm:7.2", 0, 0),
        ("hello-world", 0, 0),
        ("a/comfyui-rocm", 1, 0),
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
        ("transformers==5.0.0", &["3 warning"]),
        ("'transformers>=4.50'", &["3 warning"]),
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
        ("a.env", "# gfx1030\nROC_ENABLE_PRE_VEGA=1\n", &["2 warning"]),
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
        // The text names both GPUs, so it may be about two of them.
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
    let toolbox = "distrobox create --image docker.io/a/b@sha256:1 \\\n  --additional-flags '--device /dev/kfd --security-opt seccomp=unconfined'\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &service(&[kfd, seccomp, debugger]), &["6 information"]),
        ("compose.yml", &service(&[kfd, debugger]), &["5 information"]),
        // Without a GPU, it is no matter of ROCm.
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
        ("compose.yml", &service(&[socket]), &[]),
    ];
    expect("engine-socket", NONE, cases);
    let check = "services:\n  a:\n    image: docker.io/ollama/ollama:rocm\n    healthcheck:\n      test: ollama list\n";
    expect("healthcheck-fails", NONE, &[("compose.yml", check, &[])]);
}
