//! Settings that are close to a problem of `wrong/readers.rs`, but are right.

use super::{NONE, PROJECT, expect};

#[test]
fn a_name_that_something_reads_is_known() {
    expect(
        "variable-unknown",
        NONE,
        &[
            // Old releases, tools and scripts read these.
            (
                "a.env",
                "HSA_EMULATE_AQL=1\nHSA_LOG_LEVEL=1\nHSA_TOOLS_LIB=/a.so\nHSA_VEN_AMD_AQLPROFILE_LOG=1\n",
                &[],
            ),
            ("a.sh", "export HSA_HOST_FILE=/a\ncat \"$HSA_HOST_FILE\"\n", &[]),
            ("a.sh", "HSA_ENABLE_OWN=1\necho \"$HSA_ENABLE_OWN\"\n", &[]),
            ("a.env", "HSA_PATH=/opt/rocm/hsa\nHIP_PATH=/opt/rocm\nHIP_CLANG_PATH=/a\n", &[]),
            ("a.env", "HSA_OVERRIDE_GFX_VERSION_0=10.3.0\n", &[]),
            ("a.env", "GGML_CUDA_NO_PINNED=1\nGGML_VK_VISIBLE_DEVICES=0\n", &[]),
            (
                "a.env",
                "FLASH_ATTENTION_TRITON_AMD_REF=1\nFLASH_ATTENTION_USE_TRITON_ROCM=TRUE\n",
                &[],
            ),
            // A fork of llama.cpp.
            ("a.sh", "export GGML_HIP_MXFP4_F32=1\n./llama-server -m a\n", &[]),
            ("Dockerfile", "FROM docker.io/a/b@sha256:1\nARG HSA_ENABLE_X=1\n", &[]),
            // The container's own script reads them.
            (
                "compose.yml",
                "services:\n  a:\n    image: docker.io/vllm/vllm-openai-rocm:v0.25.0@sha256:1\n    entrypoint: [/run.sh]\n    environment:\n      - VLLM_MODEL=a\n",
                &[],
            ),
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/vllm-openai\n    environment:\n      - VLLM_MODEL=a\n",
                &[],
            ),
        ],
    );
}

#[test]
fn an_option_of_a_fork_or_another_project_is_not_reported() {
    let build = |before: &str, option: &str| {
        format!("FROM docker.io/a/b@sha256:1\nRUN {before}\nRUN cmake -B build {option}\n")
    };
    let upstream = "git clone https://github.com/ggml-org/llama.cpp";
    let fork = "git clone https://github.com/a/llama.cpp";
    let patched = format!("{upstream} && cd llama.cpp && git apply /a.diff");
    let option = "-DGGML_HIP_FORCE_MMQ=ON";
    for text in [
        build(fork, option),
        build(&patched, option),
        build(upstream, "-DGGML_HIP_NO_VMM:BOOL=ON -DGGML_HIP=ON"),
        build(upstream, "-DLLAMA_BUILD_TESTS=OFF -DAMDGPU_TARGETS=gfx1151"),
    ] {
        expect("build-option-unknown", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn one_release_is_not_mixed() {
    let stage = |base: &str, index: &str| {
        format!(
            "FROM docker.io/{base}@sha256:1\nRUN pip install --index-url {index} torch==2.9.1\n"
        )
    };
    let pytorch = "https://download.pytorch.org/whl/rocm6.4";
    for text in [
        stage("rocm/dev-ubuntu-24.04:6.4.4-complete", pytorch),
        stage("library/ubuntu:24.04", pytorch),
        stage("rocm/dev-ubuntu-24.04:7.2-complete", "https://download.pytorch.org/whl/cpu"),
    ] {
        expect("rocm-mixed", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn a_gpu_with_its_own_rocblas_is_not_reported() {
    let file = |base: &str, lines: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:{base}@sha256:1\nENV AMDGPU_TARGETS={lines}\n"
        )
    };
    for text in [
        file("6.3.4-complete", "gfx906"),
        file("7.0-complete", "gfx906\nCOPY rocblas/ /opt/rocm/lib/rocblas/library/"),
        file("7.0-complete", "gfx906;gfx1100"),
        file("7.0-complete", "gfx908"),
    ] {
        expect("gpu-without-rocblas", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn an_override_may_select_what_is_built() {
    let file = |targets: &str, version: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN cmake -B build -DAMDGPU_TARGETS=\"{targets}\"\nENV HSA_OVERRIDE_GFX_VERSION={version}\n"
        )
    };
    for text in [
        file("gfx1030", "10.3.0"),
        file("gfx1030;gfx1031", "10.3.0"),
        file("gfx103X", "10.3.0"),
        file("$TARGETS", "10.3.0"),
    ] {
        expect("hsa-override-other", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn a_comment_may_speak_of_another_release() {
    let base = "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\n";
    for comment in [
        "# ROCm 7.2",
        "# ROCm 7.2.1 instead of ROCm 6.4",
        "# needs a kernel driver of ROCm 6.4 or newer",
        "# The images.\n# ROCm 6.4 has its own file",
    ] {
        let text = format!("{comment}\n{base}");
        expect("comment-contradicts", NONE, &[("Dockerfile", &text, &[])]);
    }
}

#[test]
fn a_list_or_a_comparison_is_not_a_choice() {
    expect(
        "rocm-too-old",
        NONE,
        &[
            (
                "a.sh",
                "# gfx1151\ncase $v in\n  6.4) image=a/b:rocm-6.4 ;;\n  7.2) image=a/b:rocm-7.2 ;;\nesac\n",
                &[],
            ),
            ("a.sh", "# gfx1151\nif [ -d /opt/rocm-6.4.0 ]; then exit 1; fi\n", &[]),
            ("a.sh", "# gfx1151\necho 'ROCm 6.4 is too old'\n", &[]),
            ("a.sh", "# gfx1151\nexport ROCM_PATH=/opt/rocm-7.2.1\n", &[]),
            ("a.sh", "# gfx1151\nexport ROCM_PATH=/opt/rocm\n", &[]),
        ],
    );
}

#[test]
fn an_old_rocm_in_a_kubernetes_manifest_is_found() {
    let text = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: docker.io/x/app:rocm5.7@sha256:1\n";
    expect("rocm-too-old", PROJECT, &[("a.yaml", text, &["6 warning"])]);
}
