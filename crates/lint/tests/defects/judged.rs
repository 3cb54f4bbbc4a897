//! Defects that the judgement of 36 previously unseen files revealed on 2026-11-30.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

/// The files in the folder of the file that is checked.
#[derive(Debug)]
struct Beside(&'static [(&'static str, &'static str)]);

impl Exists for Beside {
    fn exists(&self, file: &str, path: &str) -> Option<bool> {
        Some(self.text(file, path).is_some())
    }

    fn compose_files(&self, _: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(name, _)| name.contains("compose"))
            .map(|(_, text)| (*text).to_owned())
            .collect()
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        let path = path.trim_start_matches("./");
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }
}

/// Returns the lines of a rule's findings in a file with other files beside it.
fn lines(
    rule: &str,
    others: &'static [(&'static str, &'static str)],
    file: &str,
    text: &str,
) -> Vec<usize> {
    let folder = Beside(others);
    let context = Context { exists: Some(&folder), ..Context::default() };
    let found = findings_in(file, text, context);
    found.iter().filter(|one| one.rule.id == rule).map(|one| one.line).collect()
}

#[test]
fn the_advice_for_a_moved_index_selects_the_gpu() {
    let text = |url: &str| format!("FROM docker.io/a/b@sha256:1\nRUN pip install -i {url} torch\n");
    for (url, expected) in [
        ("https://rocm.nightlies.amd.com/v2/gfx1151/", "torch[device-gfx1151]"),
        ("https://rocm.nightlies.amd.com/v2/gfx110X-all/", "torch[device-TARGET]"),
        ("https://repo.amd.com/rocm/whl/gfx1100/", "torch[device-gfx1100]"),
    ] {
        let found = findings_in("Dockerfile", &text(url), Context::default());
        let moved = found.iter().find(|one| one.rule.id == "index-moved").unwrap();
        assert!(moved.help.contains(expected), "{}", moved.help);
    }
}

#[test]
fn an_option_of_an_old_llama_cpp_may_exist_in_the_copied_or_pinned_source() {
    let build = "RUN cmake -B build -DLLAMA_CURL=ON\n";
    let text = |source: &str| format!("FROM docker.io/a/b@sha256:1\n{source}\n{build}");
    for (source, expected) in [
        ("RUN git clone https://github.com/ggml-org/llama.cpp", &["3 information"][..]),
        ("COPY llama.cpp /llama.cpp", &[]),
        ("RUN git clone https://github.com/ggml-org/llama.cpp && git checkout b3900", &[]),
        ("RUN git submodule update --init # github.com/ggml-org/llama.cpp", &[]),
    ] {
        expect("build-option-gone", NONE, &[("Dockerfile", &text(source), expected)]);
    }
}

#[test]
fn the_lists_of_an_image_decide_about_a_variable_of_its_service() {
    let compose =
        "services:\n  a:\n    build: .\n    environment:\n      - HF_HUB_ENABLE_HF_TRANSFER=1\n";
    let rule = "variable-without-effect";
    const DOCKERFILE: (&str, &str) = (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nCOPY requirements-rocm.txt .\nRUN pip install -r requirements-rocm.txt\n",
    );
    const OLD: &[(&str, &str)] =
        &[DOCKERFILE, ("requirements-rocm.txt", "transformers==4.46.3\nhf-transfer==0.1.9\n")];
    const OLD_HUB: &[(&str, &str)] =
        &[DOCKERFILE, ("requirements-rocm.txt", "huggingface_hub==0.34.0\n")];
    const NEW: &[(&str, &str)] = &[DOCKERFILE, ("requirements-rocm.txt", "transformers==5.1.0\n")];
    assert_eq!(lines(rule, OLD, "compose.yml", compose), [0; 0]);
    assert_eq!(lines(rule, OLD_HUB, "compose.yml", compose), [0; 0]);
    assert_eq!(lines(rule, NEW, "compose.yml", compose), [5]);
}

#[test]
fn advice_for_one_gpu_needs_a_file_for_it() {
    let image = "FROM docker.io/rocm/dev-ubuntu-24.04:7.0-complete@sha256:1\n";
    for (reason, expected) in [
        ("", &[][..]),
        ("# for data centers\n", &[]),
        ("ENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n", &[]),
        ("ENV HSA_OVERRIDE_GFX_VERSION=11.0.0\n", &[]),
        ("# for gfx115X\n", &[]),
        ("# for an APU\n", &[]),
        ("# for a Ryzen\n", &[]),
        ("# for a Strix Halo\n", &["1 error"]),
    ] {
        let text = format!("{image}{reason}");
        expect("rocm-too-old", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn the_groups_of_the_compose_file_beside_it_count() {
    let text = "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1@sha256:1\nUSER app\n";
    let rule = "render-group-missing";
    const NUMBERS: &[(&str, &str)] = &[(
        "compose.yml",
        "services:\n  a:\n    build: .\n    group_add:\n      - 44\n      - 993\n",
    )];
    const VIDEO: &[(&str, &str)] =
        &[("compose.yml", "services:\n  a:\n    build: .\n    group_add:\n      - video\n")];
    assert_eq!(lines(rule, NUMBERS, "Dockerfile", text), [0; 0]);
    assert_eq!(lines(rule, VIDEO, "Dockerfile", text), [2]);
    assert_eq!(lines(rule, &[], "Dockerfile", text), [2]);
}

#[test]
fn apt_brings_the_driver_with_the_vulkan_sdk() {
    let text = |option: &str| {
        format!(
            "FROM docker.io/library/ubuntu:22.04@sha256:1\nRUN apt-get install -y {option}vulkan-sdk\nRUN cmake -B b -DGGML_VULKAN=ON\n"
        )
    };
    let without = text("--no-install-recommends ");
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", &text(""), &[]), ("Dockerfile", &without, &["3 warning"])];
    expect("vulkan-driver-missing", NONE, cases);
}

#[test]
fn an_open_service_that_runs_code_or_has_an_administrator_is_a_warning() {
    let ui = |port: &str| {
        format!(
            "services:\n  a:\n    image: ghcr.io/open-webui/open-webui:v0.6.5\n    ports:\n      - \"{port}\"\n    environment:\n      - WEBUI_AUTH=False\n"
        )
    };
    let start = |host: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nCMD [\"jupyter\", \"lab\", \"--ip={host}\", \"--ServerApp.token=''\"]\n"
        )
    };
    let variable = "FROM docker.io/a/b@sha256:1\nENV JUPYTER_TOKEN=\"\"\nCMD jupyter lab --ip=0.0.0.0 --ServerApp.token=\"${JUPYTER_TOKEN}\"\n";
    let required = variable.replace("TOKEN=\"\"", "TOKEN=\"a\"");
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &ui("3000:8080"), &["7 warning"]),
        ("compose.yml", &ui("127.0.0.1:3000:8080"), &["7 information"]),
        ("Dockerfile", &start("0.0.0.0"), &["2 warning"]),
        ("Dockerfile", &start("localhost"), &["2 information"]),
        ("Dockerfile", variable, &["3 warning"]),
        ("Dockerfile", &required, &[]),
    ];
    expect("service-open", NONE, cases);
}

#[test]
fn a_placeholder_is_no_token() {
    let text = |value: &str| {
        format!(
            "services:\n  a:\n    image: localhost/a\n    environment:\n      - HF_TOKEN={value}\n"
        )
    };
    for (value, expected) in [
        ("YOUR_TOKEN_HERE", &["5 information"][..]),
        ("hf_xxxxxxxx", &["5 information"]),
        ("${HF_TOKEN}", &[]),
        ("", &[]),
    ] {
        expect("token-placeholder", NONE, &[("compose.yml", &text(value), expected)]);
    }
    expect("token-placeholder", NONE, &[(".env.example", "HF_TOKEN=your_token_here\n", &[])]);
}

#[test]
fn sources_and_packages_that_ended_are_reported() {
    let text = |base: &str, run: &str| format!("FROM {base}@sha256:1\nRUN {run}\n");
    let ppa = "add-apt-repository -y ppa:deadsnakes/ppa";
    let python = "apt-get update && apt-get install -y git python";
    let key = "curl -O https://h.example/7fa2af80.pub";
    for (rule, base, run, expected) in [
        ("package-gone", "docker.io/library/ubuntu:20.04", ppa, &["2 warning"][..]),
        ("package-gone", "docker.io/library/ubuntu:22.04", ppa, &[]),
        ("package-gone", "docker.io/rocm/rocm-terminal", python, &["2 error"]),
        ("package-gone", "docker.io/rocm/rocm-terminal", "apt-get install -y python3", &[]),
        ("package-ended", "docker.io/a/b", "pip install torch torchtext", &["2 information"]),
        ("package-ended", "docker.io/a/b", "pip install torch==2.3.1 torchtext", &[]),
        ("signing-key-replaced", "docker.io/a/b", key, &["2 error"]),
        // An installer's own repository on the disk still has its own key.
        ("signing-key-replaced", "docker.io/a/b", "apt-key add /var/cuda-repo/7fa2af80.pub", &[]),
        ("signing-key-replaced", "docker.io/a/b", "curl -O https://h.example/3bf863cc.pub", &[]),
    ] {
        expect(rule, NONE, &[("Dockerfile", &text(base, run), expected)]);
    }
}

#[test]
fn pushd_is_a_feature_of_bash() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "#!/bin/sh\npushd /opt/a\n", &["2 warning"]),
        ("a.sh", "#!/bin/bash\npushd /opt/a\n", &[]),
        ("a.sh", "#!/bin/sh\necho pushd /opt/a\n", &[]),
    ];
    expect("shell-feature", NONE, cases);
}

#[test]
fn servers_without_a_login_and_devices_of_wsl() {
    let tgi = |port: &str| {
        format!(
            "services:\n  a:\n    image: ghcr.io/huggingface/text-generation-inference:3.3.4-rocm\n    ports:\n      - \"{port}\"\n"
        )
    };
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &tgi("8080:80"), &["5 information"]),
        ("compose.yml", &tgi("127.0.0.1:8080:80"), &[]),
    ];
    expect("service-open", NONE, cases);
    let dxg = "services:\n  a:\n    image: localhost/a\n    devices:\n      - /dev/dxg\n";
    let wsl = format!("{dxg}    volumes:\n      - /usr/lib/wsl:/usr/lib/wsl\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("compose.yml", dxg, &["5 information"]), ("compose.yml", &wsl, &[])];
    expect("kfd-missing", NONE, cases);
}
