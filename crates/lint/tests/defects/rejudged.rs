//! Wrong and doubtful findings in files that experts judged, as classes, on 2026-12-01.

use lint::{Context, Exists};

use super::{NONE, expect, of};
use crate::findings_in;

/// The files around the file that is checked, by their relative paths.
#[derive(Debug)]
struct Around(&'static [(&'static str, &'static str)]);

impl Exists for Around {
    fn exists(&self, file: &str, path: &str) -> Option<bool> {
        Some(self.text(file, path).is_some())
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        let path = path.trim_start_matches("./");
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }
}

fn lines(
    rule: &str,
    around: &'static [(&'static str, &'static str)],
    file: &str,
    text: &str,
) -> Vec<usize> {
    let folder = Around(around);
    let context = Context { exists: Some(&folder), ..Context::default() };
    let found = findings_in(file, text, context);
    found.iter().filter(|one| one.rule.id == rule).map(|one| one.line).collect()
}

/// Returns the help of the only finding of a rule.
fn help(rule: &str, file: &str, text: &str) -> String {
    let found = findings_in(file, text, Context::default());
    found.into_iter().find(|one| one.rule.id == rule).unwrap().help
}

#[test]
fn a_router_answers_before_it_loads_a_model() {
    let text = |own: &str| {
        format!(
            "services:\n  a:\n    image: a/b:1.0.0\n    depends_on:\n      llama:\n        condition: service_healthy\n  llama:\n    image: ghcr.io/ggml-org/llama.cpp:server-rocm\n{own}    healthcheck:\n      test: curl -f http://localhost:8080/health\n"
        )
    };
    for (own, expected) in [
        ("    environment:\n      LLAMA_ARG_MODELS_DIR: /m\n", &[][..]),
        ("    environment:\n      - LLAMA_ARG_MODELS_PRESET=/m.ini\n", &[]),
        ("    command: --models-dir /m\n", &[]),
        ("    command: [\"--models-dir\", \"/m\"]\n", &[]),
        ("    command: --models-dir /m -m /m/a.gguf\n", &["10 information"]),
        ("    command: -m /m/a.gguf\n", &["10 information"]),
    ] {
        expect("healthcheck-early", NONE, &[("compose.yml", &text(own), expected)]);
    }
}

#[test]
fn an_index_from_which_a_command_takes_nothing_is_not_merged() {
    let index = "https://download.pytorch.org/whl/rocm6.2";
    for (packages, expected) in [
        ("--no-build-isolation flash-attn", &[][..]),
        ("--no-deps diffusers", &[]),
        ("--no-build-isolation torchao", &["1 warning"]),
        ("--no-build-isolation -r requirements.txt", &["1 warning"]),
        ("diffusers", &["1 warning"]),
    ] {
        let text = format!("pip install {packages} --extra-index-url {index}\n");
        expect("extra-index-url", NONE, &[("a.sh", &text, expected)]);
        let old = of("rocm-outdated", "a.sh", &text, NONE);
        assert_eq!(old.is_empty(), expected.is_empty(), "{text}");
    }
}

#[test]
fn one_defect_is_said_by_the_rule_with_the_better_help() {
    let unit = "[Unit]\nDescription=a\n[Service]\nExecStart=/opt/llama/llama-server -m /m\n[Install]\nWantedBy=multi-user.target\n";
    let root = |rule: &str| of(rule, "a.service", unit, NONE).len();
    assert_eq!(root("user-unused") + root("unit-as-root"), 1);
    let image = "FROM rocm/dev-ubuntu-22.04:6.3\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm6.2\n";
    assert_eq!(of("rocm-mixed", "Dockerfile", image, NONE), ["2 information"]);
    expect("rocm-outdated", NONE, &[("Dockerfile", image, &[])]);
}

#[test]
fn an_empty_part_at_the_end_of_a_search_path_is_the_last_place() {
    let text = |value: &str| format!("FROM docker.io/a/b@sha256:1\nENV LD_LIBRARY_PATH={value}\n");
    for (value, expected) in [
        ("/opt/rocm/lib:", &[][..]),
        ("\"/opt/rocm/lib:${LD_LIBRARY_PATH:-}\"", &[]),
        (":/opt/rocm/lib", &["2 information"]),
        ("/opt/rocm/lib::/usr/lib", &["2 information"]),
    ] {
        expect("search-path-open", NONE, &[("Dockerfile", &text(value), expected)]);
    }
}

#[test]
fn a_build_may_print_what_torch_says() {
    let text = |code: &str| format!("FROM docker.io/a/b@sha256:1\nRUN python -c \"{code}\"\n");
    for (code, expected) in [
        ("import torch; print('ROCm:', torch.cuda.is_available())", &[][..]),
        ("import torch; ok = torch.cuda.is_available()", &["2 information"]),
        ("import torch; print(1 if torch.cuda.is_available() else 2)", &["2 information"]),
        ("import torch; assert torch.cuda.is_available()", &["2 warning"]),
    ] {
        let found = of("gpu-during-build", "Dockerfile", &text(code), NONE);
        assert_eq!(found.len(), expected.len(), "{code}: {found:?}");
    }
}

#[test]
fn a_variable_can_switch_the_cache_of_pip_off_as_well() {
    let text = |own: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\n{own}RUN --mount=type=cache,target=/root/.cache/pip pip install --no-cache-dir numpy==1.26.4\n"
        )
    };
    let rule = "cache-mount-unused";
    assert!(
        help(rule, "Dockerfile", &text("ENV PIP_NO_CACHE_DIR=1\n")).contains("PIP_NO_CACHE_DIR")
    );
    assert!(!help(rule, "Dockerfile", &text("")).contains("PIP_NO_CACHE_DIR"));
}

#[test]
fn a_later_test_of_the_result_stops_the_build() {
    let text = |next: &str| {
        format!("FROM docker.io/a/b@sha256:1\nRUN pip install . 2>&1 | tee /a.log\n{next}\n")
    };
    for (next, expected) in [
        ("RUN python -c 'import vllm'", &["2 information"][..]),
        ("RUN vllm --version", &["2 information"]),
        ("RUN echo done", &["2 warning"]),
    ] {
        expect("build-status-lost", NONE, &[("Dockerfile", &text(next), expected)]);
    }
}

#[test]
fn the_reason_of_a_setting_can_be_above_its_instruction() {
    let text = |comment: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\n{comment}\nENV A=1 \\\n    HSA_ENABLE_SDMA=0 \\\n    HSA_OVERRIDE_GFX_VERSION=11.5.1\nRUN echo gfx1151\n"
        )
    };
    for (comment, workaround, own) in [
        ("# HSA_ENABLE_SDMA=0 avoids GPU-ring timeouts (hang).", 0, 1),
        ("# HSA_OVERRIDE_GFX_VERSION=11.5.1 is a SELF-PIN, not spoofing.", 1, 0),
        ("# ENV HSA_ENABLE_SDMA=0", 1, 1),
        ("# Settings", 1, 1),
    ] {
        let text = text(comment);
        let count = |rule: &str| of(rule, "Dockerfile", &text, NONE).len();
        assert_eq!(count("workaround-baked"), workaround, "{comment}");
        assert_eq!(count("hsa-override-identity"), own, "{comment}");
    }
}

#[test]
fn a_project_that_accepts_every_torch_keeps_the_installed_one() {
    let text = |packages: &str, project: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN pip install {packages} --index-url https://download.pytorch.org/whl/rocm6.4\nRUN git clone https://github.com/a/{project}\nRUN pip install -r {project}/requirements.txt\n"
        )
    };
    let all = "torch torchvision torchaudio";
    for (packages, project, expected) in [
        (all, "ComfyUI", &[][..]),
        ("torch", "ComfyUI", &["4 information"]),
        (all, "InvokeAI", &["4 information"]),
    ] {
        let text = text(packages, project);
        expect("torch-not-held", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn sglang_needs_its_own_build() {
    let text = "FROM rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0\nRUN pip install sglang\n";
    assert!(help("torch-replaced", "Dockerfile", text).contains("SGLang's image for ROCm"));
}

#[test]
fn a_compose_file_in_the_folder_above_can_choose_the_address() {
    const IMAGE: &str =
        "FROM docker.io/library/ubuntu:24.04\nEXPOSE 8080\nENTRYPOINT [\"llama-server\"]\n";
    let rule = "server-unreachable";
    let own: &[(&str, &str)] = &[(
        "../compose.yml",
        "services:\n  a:\n    build: ./llama\n    command: [\"--host\", \"0.0.0.0\"]\n",
    )];
    assert_eq!(lines(rule, own, "Dockerfile", IMAGE), [0; 0]);
    let other: &[(&str, &str)] =
        &[("../compose.yml", "services:\n  a:\n    build: ./llama\n    command: [\"-v\"]\n")];
    assert_eq!(lines(rule, other, "Dockerfile", IMAGE), [3]);
}

#[test]
fn a_comment_shows_how_an_image_is_started() {
    let text =
        "# docker run --device=/dev/kfd -p 8000:8000 own/app:1.0.0\nFROM docker.io/a/b@sha256:1\n";
    expect("service-open", NONE, &[("Dockerfile", text, &[])]);
    let run = |own: &str| format!("docker run --device=/dev/kfd -p 8000:8000 {own} a/app:1.0.0\n");
    expect("service-open", NONE, &[("a.sh", &run("--env-file .env"), &[])]);
    expect("service-open", NONE, &[("a.sh", &run("-d"), &["1 information"])]);
}

#[test]
fn a_group_number_of_one_machine_may_be_known_to_its_owner() {
    let compose = |head: &str| {
        format!(
            "{head}services:\n  a:\n    image: a/b@sha256:1\n    devices: [/dev/kfd]\n    group_add:\n      - \"990\"\n"
        )
    };
    expect("group-number", NONE, &[("compose.yml", &compose(""), &["6 information"])]);
    let head = "# This host: render=990, video=44\n";
    expect("group-number", NONE, &[("compose.yml", &compose(head), &[])]);
    let unit =
        "[Service]\nExecStart=/usr/bin/docker run --device /dev/kfd --group-add 992 a/b:1.0.0\n";
    expect("group-number", NONE, &[("a.service", unit, &[])]);
}

#[test]
fn the_folder_of_a_cd_may_be_named_with_extras() {
    let text = |next: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN git clone https://github.com/a/x && cd x\nRUN pip install {next}\n"
        )
    };
    for (next, expected) in [("-e ./x[dev,test]", 0), ("-e .", 1)] {
        let found = of("shell-state-lost", "Dockerfile", &text(next), NONE);
        assert_eq!(found.len(), expected, "{next}");
    }
}

#[test]
fn a_file_that_shells_load_needs_no_interpreter() {
    let text = "#/bin/bash\nexport A=1\n";
    expect("shebang", NONE, &[("env.sh", text, &["1 information"])]);
    expect("shebang", NONE, &[("run.sh", text, &["1 warning"])]);
}
