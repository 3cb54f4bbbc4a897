//! Settings that are close to a problem of `wrong/breadth.rs`, but are right.

use super::{NONE, PROJECT, expect};

#[test]
fn a_group_or_network_of_another_kind_is_fine() {
    let compose = |lines: &str| format!("services:\n  a:\n    build: .\n{lines}");
    let number = compose("    group_add: ['992']\n    devices: [/dev/kfd]\n");
    let none = compose("    group_add: [render]\n");
    expect("group-by-name", NONE, &[("compose.yml", &number, &[]), ("compose.yml", &none, &[])]);
    let bridge = compose("    network_mode: bridge\n    devices: [/dev/kfd]\n");
    let cluster = compose(
        "    network_mode: host\n    environment: [NCCL_SOCKET_IFNAME=eth0]\n    devices: [/dev/kfd]\n",
    );
    expect(
        "network-shared",
        NONE,
        &[("compose.yml", &bridge, &[]), ("compose.yml", &cluster, &[])],
    );
}

#[test]
fn a_server_with_a_key_or_without_a_gpu_is_not_reported() {
    let service = |name: &str, lines: &str| {
        format!("services:\n  {name}:\n    build: .\n    ports: ['8080:8080']\n{lines}")
    };
    let gpu = "    devices: [/dev/kfd, /dev/dri]\n";
    let key = format!("{gpu}    environment: [LLAMA_API_KEY=1]\n");
    for text in [service("llama", &key), service("llama", ""), service("open-webui", gpu)] {
        expect("service-open", NONE, &[("compose.yml", &text, &[])]);
    }
}

#[test]
fn names_can_be_defined_elsewhere() {
    let volumes = "    build: .\n    volumes: ['models:/m', './a:/a', '/b:/b']\n";
    let defined = format!("services:\n  a:\n{volumes}volumes:\n  models:\n");
    let extended = format!("services:\n  a:\n    extends: {{file: b.yml, service: b}}\n{volumes}");
    let partial = format!("services:\n  a:\n{volumes}");
    let others = "services:\n  a:\n    build: .\n    networks: [default]\n    depends_on: {b: {condition: service_started}}\n  b:\n    build: .\n";
    expect(
        "compose-reference",
        NONE,
        &[
            ("compose.yml", &defined, &[]),
            ("compose.yml", &extended, &[]),
            ("compose.rocm.yml", &partial, &[]),
            ("compose.yml", &partial, &["4 error"]),
            ("compose.yml", others, &[]),
        ],
    );
}

#[test]
fn keys_of_services_are_known() {
    let text = "x-a: &a\n  restart: always\nservices:\n  a:\n    <<: *a\n    x-b: 1\n    pull_policy: always\n    gpus: all\n";
    expect("compose-key", NONE, &[("compose.yml", text, &[])]);
    let paths = "services:\n  a:\n    build: .\n    volumes: ['a:/a:ro', 'C:\\a:/a', '${A}:/b', '/c']\nvolumes: {a: {}}\n";
    expect("mount-path", NONE, &[("compose.yml", paths, &[])]);
}

#[test]
fn keys_of_units_are_in_their_sections() {
    let text = "[Unit]\nAfter=a.service\nStartLimitIntervalSec=0\n[Service]\nStartLimitBurst=3\nExecStart=/a\nRestart=always\n[Install]\nWantedBy=multi-user.target\n";
    expect("unit-section", NONE, &[("a.service", text, &[])]);
    expect("user-target", NONE, &[("etc/systemd/system/a.service", text, &[])]);
    let both = "[Container]\nImage=a\n[Install]\nWantedBy=multi-user.target default.target\n";
    let place = ".config/containers/systemd/a.container";
    expect("user-target", NONE, &[(place, both, &[])]);
}

#[test]
fn a_container_that_may_open_a_mounted_device_is_fine() {
    let start = "services:\n  a:\n    build: .\n    volumes: ['/dev/dri:/dev/dri']\n";
    let allowed = format!("{start}    device_cgroup_rules: ['c 226:* rmw']\n");
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", start, &["4 error"]),
        ("compose.yml", &allowed, &[]),
        ("a.sh", "docker run -v /dev/dri:/dev/dri localhost/a\n", &["1 error"]),
        ("a.sh", "podman run -v /dev/dri:/dev/dri localhost/a\n", &[]),
    ];
    expect("device-path", NONE, cases);
}

#[test]
fn a_value_that_flash_attention_accepts_is_fine() {
    let text = "ENV FLASH_ATTENTION_TRITON_AMD_ENABLE=1 FLASH_ATTENTION_TRITON_AMD_AUTOTUNE=1\n";
    let text = format!("FROM docker.io/a/b@sha256:1\n{text}");
    expect("value-unknown", NONE, &[("Dockerfile", &text, &["2 warning"])]);
}

#[test]
fn arguments_reach_the_stages_that_declare_them() {
    let text = "ARG A=1\nARG B=2\nFROM docker.io/a/b@sha256:1 AS one\nARG A\nRUN echo $A ${B:-3}\nFROM one\nRUN echo $A\nRUN B=4 && echo $B\n";
    expect("argument-out-of-scope", NONE, &[("Dockerfile", text, &[])]);
}

#[test]
fn builds_that_need_no_answer_are_fine() {
    let text = "FROM docker.io/a/b@sha256:1\nRUN apt-get install -y a && apt-get -qqy install b && DEBIAN_FRONTEND=noninteractive apt install --yes c\nRUN dnf -y install a && pacman -S --noconfirm b\n";
    expect("build-waits", NONE, &[("Dockerfile", text, &[])]);
    expect("build-waits", NONE, &[("a.sh", "apt-get install a\n", &[])]);
}

#[test]
fn a_search_path_with_a_default_is_fine() {
    let strict = "#!/bin/bash\nset -eu\n";
    let cases = [
        format!("{strict}export LD_LIBRARY_PATH=/a${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n"),
        format!("{strict}export PYTHONPATH=/a\nexport PYTHONPATH=/b:$PYTHONPATH\n"),
        format!("{strict}cat > a <<'EOF'\nexport CPATH=/a:$CPATH\nEOF\n"),
        format!("{strict}echo 'export CPATH=/a:$CPATH' >> ~/.bashrc\n"),
        "#!/bin/bash\nset -e\nexport CPATH=/a:$CPATH\n".to_owned(),
    ];
    for text in &cases {
        expect("unset-variable", NONE, &[("a.sh", text, &[])]);
    }
    let features = "#!/bin/bash\nsource a\nif [[ -n $A ]]; then ls; fi\n";
    expect("shell-feature", NONE, &[("a.sh", features, &[])]);
    expect("shebang", NONE, &[("a.sh", features, &[])]);
    let written = [
        "#!/bin/sh\necho \"if [[ a == b ]]; then source a; fi\" > b\n",
        "#!/bin/sh\n[ \"$A\" = b ] && test \"$(jq '.a == 1' c)\" = d 2>&1 > /dev/null\n",
        "#!/bin/sh\ncat > b <<EOF\n#!/bin/bash\nif [[ a ]]; then ls; fi\nEOF\n",
    ];
    for text in written {
        expect("shell-feature", NONE, &[("a.sh", text, &[])]);
    }
    let text = "FROM ubuntu\nRUN echo '#!/bin/bash\\n\\\nif [[ a ]]; then ls; fi' > /a\n";
    expect("shell-feature", NONE, &[("Dockerfile", text, &[])]);
}

#[test]
fn packages_for_amd_gpus_are_fine() {
    let base = "FROM rocm/dev-ubuntu-24.04@sha256:1\n";
    let cases = [
        format!("{base}RUN pip install vllm==0.33.0 --index-url https://wheels.vllm.ai/rocm/\n"),
        format!(
            "{base}RUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/rocm6.4\n"
        ),
        format!("{base}RUN pip install -e ./vllm --no-build-isolation\n"),
        "FROM docker.io/a/b@sha256:1\nRUN pip install vllm==0.33.0\n".to_owned(),
    ];
    for text in &cases {
        expect("cuda-package", NONE, &[("Dockerfile", text, &[])]);
    }
    let pinned = "# vllm==0.8.0\npip install vllm==0.8.0\nvllm serve a --disable-log-requests\n";
    expect("option-gone", NONE, &[("a.sh", pinned, &[])]);
    // The image of another publisher may contain an older vLLM.
    let list = |image: &str| {
        format!(
            "services:\n  a:\n    image: {image}\n    command:\n      - --num-scheduler-steps\n"
        )
    };
    let other = list("docker.io/x/vllm-rocm@sha256:1");
    let own = list("docker.io/vllm/vllm-openai-rocm@sha256:1");
    let cases: &[(&str, &str, &[&str])] =
        &[("compose.yml", &other, &[]), ("compose.yml", &own, &["5 warning"])];
    expect("option-gone", NONE, cases);
}

#[test]
fn values_that_programs_know_are_fine() {
    let text = "FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE\nTORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1\nHSA_ENABLE_SDMA=0\nOLLAMA_KV_CACHE_TYPE=q8_0\n";
    expect("value-unknown", NONE, &[("a.env", text, &[])]);
    let secrets = "services:\n  a:\n    image: localhost/a\n    environment:\n      A_PASSWORD: ${A_PASSWORD}\n      B_PASSWORD: changeme\n      C_PASSWORD: ''\n";
    expect("password-in-file", NONE, &[("compose.yml", secrets, &[])]);
    expect("ttm-limit", PROJECT, &[("a.conf", "options ttm pages_limit=32505856\n", &[])]);
}

#[test]
fn an_image_that_compiles_needs_its_targets() {
    let text = "FROM docker.io/a/b@sha256:1\nENV PYTORCH_ROCM_ARCH=gfx1100\nRUN python3 setup.py install\nCMD [\"a\"]\n";
    let shell = "FROM docker.io/a/b@sha256:1\nENV PYTORCH_ROCM_ARCH=gfx1100\nCMD [\"/bin/bash\"]\n";
    expect("variable-build-only", NONE, &[("Dockerfile", text, &[]), ("Dockerfile", shell, &[])]);
    let lines =
        "# gfx1101: RX 7800 XT\n# RX 6700 XT (gfx1031): the override is 10.3.0\nFROM scratch\n";
    expect("silicon-mixup", NONE, &[("Dockerfile", lines, &[])]);
}

#[test]
fn data_and_users_that_fit_are_fine() {
    let service = |image: &str, volume: &str| {
        format!("services:\n  a:\n    image: {image}@sha256:1\n    volumes: ['{volume}']\n")
    };
    for text in [
        service("docker.io/ollama/ollama", "/srv/a:/root/.ollama"),
        service("ghcr.io/open-webui/open-webui", "/srv/a:/app/backend/data"),
        service("localhost/a", "/srv/a:/b"),
    ] {
        expect("data-lost", NONE, &[("compose.yml", &text, &[])]);
    }
    let root = "FROM docker.io/rocm/pytorch@sha256:1\nUSER a\nUSER root\n";
    let group = "FROM docker.io/rocm/pytorch@sha256:1\n# Run it with --group-add.\nUSER a\n";
    let other = "FROM docker.io/a/b@sha256:1\nUSER a\n";
    for text in [root, group, other] {
        expect("render-group-missing", NONE, &[("Dockerfile", text, &[])]);
    }
    let prose = "# With docker run, the GPU needs --device.\nFROM scratch\n";
    expect("container-unconfined", NONE, &[("Dockerfile", prose, &[])]);
}

#[test]
fn what_a_here_document_writes_is_not_run() {
    let start = "ARG WORD=a\nFROM docker.io/a/b@sha256:1\nARG WORD\n";
    let python = "RUN python3 <<EOF\nfrom x import y\nEOF\nRUN echo $WORD\n";
    expect("argument-out-of-scope", NONE, &[("Dockerfile", &format!("{start}{python}"), &[])]);
    let profile = "#!/bin/sh\ncat >> ~/.bashrc <<EOF\nsource x\nEOF\n";
    let own = "#!/bin/sh\ncat >> ~/.bashrc <<EOF\nx\nEOF\nsource x\n";
    expect("shell-feature", NONE, &[("a.sh", profile, &[]), ("a.sh", own, &["5 warning"])]);
    let script = "cat > x <<EOF\n#!/bin/bash\nEOF\n";
    expect("shebang", NONE, &[("a.sh", script, &[]), ("a.sh", "\n#!/bin/bash\n", &["2 warning"])]);
    let strict = "#!/bin/bash\nset -u\n# cat <<EOF\nN=$((1 << 20))\nLD_LIBRARY_PATH=a\n";
    let text = format!("{strict}export LIBRARY_PATH=/a:$LIBRARY_PATH\n");
    expect("unset-variable", NONE, &[("a.sh", &text, &["6 warning"])]);
}

#[test]
fn all_instructions_that_expand_arguments_are_checked() {
    for (instruction, expected) in [
        ("ENV A=$WORD", &["3 warning"][..]),
        ("COPY a-$WORD /a", &["3 warning"]),
        ("USER ${WORD}", &["3 warning"]),
        ("CMD [\"$WORD\"]", &[]),
    ] {
        let text = format!("ARG WORD=a\nFROM docker.io/a/b@sha256:1\n{instruction}\n");
        expect("argument-out-of-scope", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn an_optional_service_need_not_exist() {
    let start = "services:\n  a:\n    image: localhost/a\n    depends_on:\n      b:\n";
    for (required, expected) in [("false", &[][..]), ("true", &["5 error"])] {
        let text = format!("{start}        required: {required}\n");
        expect("compose-reference", NONE, &[("compose.yml", &text, expected)]);
    }
}
