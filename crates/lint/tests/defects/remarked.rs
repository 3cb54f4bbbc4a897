//! Findings that a judge of files which nobody had seen before called wrong or of little use, and
//! the same defects where they matter.

use lint::Context;

use super::together;
use super::{NONE, expect};
use crate::findings_in;

/// Returns the help of the findings of a rule.
fn helps(rule: &str, file: &str, text: &str) -> Vec<String> {
    let found = findings_in(file, text, Context::default());
    found.into_iter().filter(|one| one.rule.id == rule).map(|one| one.help).collect()
}

#[test]
fn a_script_beside_the_image_passes_the_group() {
    const VIDEO: &str =
        "FROM docker.io/a/rocm:1\nRUN useradd -m -G sudo,video app && ls /dev/kfd\n";
    let rule = "render-group-missing";
    let found = &["2 a user gets the group `video`, but not `render`"];
    together::expect(
        rule,
        &[("run.sh", "docker run --group-add=video --group-add=\"${GID}\" a\n")],
        "Dockerfile",
        VIDEO,
        &[],
    );
    together::expect(
        rule,
        &[("run.sh", "docker run --group-add 109 a\n")],
        "Dockerfile",
        VIDEO,
        &[],
    );
    together::expect(
        rule,
        &[("run.sh", "# --group-add 109\ndocker run --group-add video a\n")],
        "Dockerfile",
        VIDEO,
        found,
    );
    together::expect(rule, &[], "Dockerfile", VIDEO, found);
}

#[test]
fn help_has_the_words_of_the_file() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/rocm:1\n      securityContext:\n        privileged: true\n";
    let compose = "services:\n  a:\n    image: docker.io/a/rocm:1\n    privileged: true\n";
    let script = "docker run --privileged docker.io/a/rocm:1\n";
    let rule = "privileged-container";
    assert!(helps(rule, "pod.yaml", pod)[0].contains("resources.limits"));
    assert!(helps(rule, "compose.yml", compose)[0].contains("under `devices`"));
    assert!(helps(rule, "a.sh", script)[0].contains("--device /dev/kfd"));
    let state = "sudo apt-get install -y rocm\nsource ~/.bashrc\n";
    let help = helps("shell-state-lost", "setup.sh", &format!("#!/bin/bash\n{state}"));
    assert!(help.iter().all(|one| one.contains("`export`")), "{help:?}");
    let run = helps("shell-state-lost", "Dockerfile", "FROM docker.io/a/b:1\nRUN cd /a\n");
    assert!(run[0].contains("WORKDIR"), "{run:?}");
}

#[test]
fn shared_memory_is_a_gap_only_in_an_isolated_container() {
    let service = |more: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b:1\n    devices: [/dev/kfd]\n    ipc: host\n{more}"
        )
    };
    let cases: [(&str, &[&str]); 5] = [
        ("", &[]),
        ("    read_only: false\n", &[]),
        ("    read_only: true\n", &["5 information"]),
        ("    cap_drop: [ALL]\n", &["5 information"]),
        ("    security_opt: [\"no-new-privileges:true\"]\n", &["5 information"]),
    ];
    for (more, expected) in cases {
        expect("ipc-shared", NONE, &[("compose.yml", &service(more), expected)]);
    }
}

#[test]
fn a_small_download_may_stay_in_its_layer() {
    let text = |name: &str, more: &str| {
        format!("FROM docker.io/a/b:1\nRUN wget https://e.org/{name}\nRUN unzip {name}\n{more}")
    };
    let cases: [(&str, &str, &[&str]); 3] = [
        ("installer.zip", "", &[]),
        ("therock-dist.zip", "", &["3 information"]),
        ("installer.zip", "RUN rm installer.zip\n", &["4 information"]),
    ];
    for (name, more, expected) in cases {
        expect("removed-later", NONE, &[("Dockerfile", &text(name, more), expected)]);
    }
}

#[test]
fn an_image_for_one_processor_may_be_native() {
    let text = |gpu: &str| {
        format!(
            "FROM docker.io/a/b:1\nRUN cmake -B build -DGGML_HIP=ON -DGPU_TARGETS={gpu} && cmake --build build\n"
        )
    };
    let cases: [(&str, &[&str]); 3] = [
        ("gfx1151", &[]),
        ("gfx1100", &["2 information"]),
        ("'gfx1100;gfx1151'", &["2 information"]),
    ];
    for (gpu, expected) in cases {
        expect("build-native", NONE, &[("Dockerfile", &text(gpu), expected)]);
    }
}

#[test]
fn an_old_release_is_old_for_every_gpu() {
    let text = |release: &str| {
        format!(
            "FROM docker.io/a/b:1\nARG HSA_OVERRIDE_GFX_VERSION=11.0.0\nARG ROCM_VERSION={release}\n"
        )
    };
    let rules: [(&str, &str, &[&str]); 4] = [
        ("rocm-too-old", "5.7", &[]),
        ("rocm-outdated", "5.7", &["3 information"]),
        ("rocm-too-old", "7.0", &[]),
        ("rocm-outdated", "7.0", &[]),
    ];
    for (rule, release, expected) in rules {
        expect(rule, NONE, &[("Dockerfile", &text(release), expected)]);
    }
}

#[test]
fn the_old_address_of_open_webui_is_renamed() {
    let service = |variable: &str| {
        format!(
            "services:\n  ollama:\n    image: docker.io/ollama/ollama:0.1\n    ports: [\"11434:11434\"]\n  ui:\n    image: ghcr.io/open-webui/open-webui:main\n    environment:\n      - {variable}=http://localhost:11434\n"
        )
    };
    let old = service("OLLAMA_API_BASE_URL");
    let help = helps("variable-without-effect", "compose.yml", &old);
    assert!(help[0].contains("rename it to `OLLAMA_BASE_URL`"), "{help:?}");
    expect("service-address", NONE, &[("compose.yml", &old, &[])]);
    let new = service("OLLAMA_BASE_URL");
    expect("service-address", NONE, &[("compose.yml", &new, &["8 warning"])]);
    assert!(helps("variable-without-effect", "compose.yml", &new).is_empty());
    // A proxy passes on what the container itself may serve.
    let behind = new.replace("docker.io/ollama/ollama:0.1", "docker.io/library/nginx:1.27");
    expect("service-address", NONE, &[("compose.yml", &behind, &[])]);
}

#[test]
fn tags_with_onnx_runtime_follow_the_scheme() {
    let from = |tag: &str| format!("FROM docker.io/rocm/pytorch:{tag}@sha256:1\n");
    for (tag, expected) in [
        ("rocm7.2.4_ubuntu24.04_py3.12_pytorch_2.10.0_ORT_1.23.2", &[][..]),
        ("rocm7.2.4_ubuntu24.04_py3.12_pytorch_2.10.0", &["1 warning"]),
    ] {
        expect("image-tag-scheme", NONE, &[("Dockerfile", &from(tag), expected)]);
    }
}

#[test]
fn help_for_a_build_option_follows_its_value() {
    let service = |variable: &str| {
        format!(
            "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-rocm\n    environment:\n      - {variable}\n"
        )
    };
    let of = |variable: &str| {
        helps("variable-without-effect", "compose.yml", &service(variable)).join("\n")
    };
    assert!(of("GGML_HIP_GRAPHS=0").contains("GGML_CUDA_DISABLE_GRAPHS=1"));
    assert!(of("GGML_HIP_GRAPHS=1").contains("on by default"));
    assert!(of("GGML_VULKAN=1").contains("CMake"));
}

#[test]
fn a_unit_is_for_one_machine() {
    let unit = "[Service]\nEnvironment=HSA_ENABLE_SDMA=0\nExecStart=/usr/bin/llama-server\n";
    expect("workaround-baked", NONE, &[("a.service", unit, &[])]);
    let image =
        |gpu: &str| format!("FROM docker.io/rocm/a:1\nENV GPU={gpu}\nENV HSA_ENABLE_SDMA=0\n");
    let cases: [(&str, &[&str]); 2] = [("gfx1103", &[]), ("gfx1100", &["3 information"])];
    for (gpu, expected) in cases {
        expect("workaround-baked", NONE, &[("Dockerfile", &image(gpu), expected)]);
    }
}

#[test]
fn a_finding_names_the_values_of_messages_with_the_same_words() {
    let text = "FROM docker.io/a/b@sha256:1\nRUN pip install numpy\nRUN pip install pandas\nRUN git clone https://github.com/a/b && pip install -r b/requirements.txt\n";
    let found = findings_in("Dockerfile", text, Context::default());
    for one in found.iter().filter(|one| one.rule.id == "index-unpinned") {
        let is_mixed = one.message.contains("requirements.txt") && one.message.contains("pandas");
        assert!(!is_mixed, "{}", one.message);
    }
}

#[test]
fn packages_after_a_redirected_one_are_reported() {
    let text = "FROM docker.io/a/b@sha256:1\nRUN pip install \\\n    transformers>=4.48.0 \\\n    accelerate \\\n    gradio\n";
    expect("index-unpinned", NONE, &[("Dockerfile", text, &["4 information"])]);
    expect("version-redirected", NONE, &[("Dockerfile", text, &["3 warning"])]);
    // Nothing else is open.
    let only = "FROM docker.io/a/b@sha256:1\nRUN pip install transformers>=4.48.0 gradio==5.1.0\n";
    expect("index-unpinned", NONE, &[("Dockerfile", only, &[])]);
    let quoted = "FROM docker.io/a/b@sha256:1\nRUN pip install 'transformers>=4.48.0'\n";
    expect("index-unpinned", NONE, &[("Dockerfile", quoted, &["2 information"])]);
}

#[test]
fn a_pod_with_devices_of_its_node_chooses_the_node() {
    let pod = |spec: &str, limits: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n{spec}  containers:\n    - name: a\n      image: docker.io/a/b:1\n      securityContext:\n        privileged: true\n      resources:\n        limits:\n          {limits}\n      volumeMounts:\n        - name: kfd\n          mountPath: /dev/kfd\n  volumes:\n    - name: kfd\n      hostPath:\n        path: /dev/kfd\n"
        )
    };
    let rule = "kubernetes-node";
    let cases: [(&str, &str, &[&str]); 4] = [
        ("", "memory: 8Gi", &["15 information"]),
        ("", "amd.com/gpu: 1", &[]),
        ("  nodeSelector:\n    gpu: amd\n", "memory: 8Gi", &[]),
        ("  nodeName: a\n", "memory: 8Gi", &[]),
    ];
    for (spec, limits, expected) in cases {
        expect(rule, NONE, &[("pod.yaml", &pod(spec, limits), expected)]);
    }
    let other = pod("", "memory: 8Gi").replace("/dev/kfd", "/dev/ttyUSB0");
    expect(rule, NONE, &[("pod.yaml", &other, &[])]);
}

#[test]
fn a_list_names_its_index_itself() {
    let index = "https://download.pytorch.org/whl/rocm7.2";
    let list = |line: &str, packages: &str| format!("{line} {index}\n{packages}");
    let cases: [(&str, &str, &[&str]); 5] = [
        ("# first: pip install torch --index-url", "openai-whisper\n", &["2 information"]),
        ("# first: pip install torch --index-url", "openai-whisper\ntorch==2.9.0\n", &[]),
        ("# first: pip install torch --index-url", "fastapi\n", &[]),
        ("--extra-index-url", "openai-whisper\n", &[]),
        ("# see https://pypi.org and", "fastapi\n", &[]),
    ];
    for (line, packages, expected) in cases {
        let text = list(line, packages);
        expect("torch-for-cuda", NONE, &[("requirements.txt", &text, expected)]);
    }
}

#[test]
fn a_script_takes_the_token_from_the_environment() {
    let script =
        |value: &str| format!("#!/bin/bash\nHF_TOKEN={value}\ndocker run -e HF_TOKEN a/b:1\n");
    let cases: [(&str, &[&str]); 4] = [
        ("\"hf_xyz\"", &["2 information"]),
        ("\"${HF_TOKEN:-}\"", &[]),
        ("\"$(cat ~/.token)\"", &[]),
        ("\"\"", &[]),
    ];
    for (value, expected) in cases {
        expect("token-placeholder", NONE, &[("a.sh", &script(value), expected)]);
    }
}

#[test]
fn kubernetes_knows_only_variables_of_the_pod() {
    let pod = |more: &str, value: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/b:1\n{more}      env:\n        - name: FIRST\n          value: a\n        - name: SECOND\n          value: \"{value}\"\n"
        )
    };
    let from = "      envFrom:\n        - configMapRef:\n            name: a\n";
    let cases: [(&str, &str, &[&str]); 7] = [
        ("", "/app/lib:$(LD_LIBRARY_PATH)", &["11 warning"]),
        ("", "$(SECOND)", &["11 warning"]),
        ("", "$(FIRST)/lib", &[]),
        ("", "$$(LD_LIBRARY_PATH)", &[]),
        ("", "$(ollama list)", &[]),
        ("", "http://$(OLLAMA_SERVICE_HOST)", &[]),
        (from, "$(OTHER)", &[]),
    ];
    for (more, value, expected) in cases {
        expect("kubernetes-variable", NONE, &[("pod.yaml", &pod(more, value), expected)]);
    }
}

#[test]
fn a_script_that_the_kernel_starts_names_its_interpreter() {
    let (plain, named): (together::Texts, together::Texts) =
        (&[("run.sh", "python3 main.py\n")], &[("run.sh", "#!/bin/sh\npython3 main.py\n")]);
    let image = |start: &str| format!("FROM docker.io/a/b:1\nCOPY run.sh /app/\n{start}\n");
    let exec = image("ENTRYPOINT [\"/app/run.sh\", \"--listen\"]");
    let message = "3 `/app/run.sh` has no first line such as `#!/bin/sh`, and no shell starts it";
    together::expect("shebang", plain, "Dockerfile", &exec, &[message]);
    together::expect("shebang", named, "Dockerfile", &exec, &[]);
    for start in ["ENTRYPOINT /app/run.sh", "CMD [\"sh\", \"/app/run.sh\"]"] {
        together::expect("shebang", plain, "Dockerfile", &image(start), &[]);
    }
    let written = exec.replace("ENTRYPOINT", "RUN sed -i '1i#!/bin/sh' /app/run.sh\nENTRYPOINT");
    together::expect("shebang", plain, "Dockerfile", &written, &[]);
}

#[test]
fn paddle_for_gpus_is_for_cuda() {
    let script =
        |name: &str| format!("#!/bin/bash\n# ROCm\npip install \\\n    {name}\nrocm-smi\n");
    let cases: [(&str, &[&str]); 2] = [("paddlepaddle-gpu", &["4 warning"]), ("paddlepaddle", &[])];
    for (name, expected) in cases {
        expect("cuda-package", NONE, &[("a.sh", &script(name), expected)]);
    }
}
