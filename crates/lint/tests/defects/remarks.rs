//! Findings that a judge called wrong or of little use: the file has the answer.

use lint::{Context, Exists};

use super::{NONE, PROJECT, expect};
use crate::findings_in;

/// A build of an image.
fn image(run: &str) -> String {
    format!("FROM docker.io/a/b@sha256:1\nRUN {run}\n")
}

/// A service with some variables.
fn service(name: &str, variables: &str) -> String {
    format!("services:\n  a:\n    image: {name}\n    environment:\n{variables}")
}

/// Returns the message and the help of the first finding of a rule.
pub(super) fn said(rule: &str, file: &str, text: &str, context: Context<'_>) -> (String, String) {
    let found = findings_in(file, text, context);
    let one = found.into_iter().find(|one| one.rule.id == rule);
    assert!(one.is_some(), "{rule} in {file}:\n{text}");
    let one = one.unwrap();
    (one.message, one.help)
}

#[test]
fn what_git_describe_prints_is_a_commit() {
    let text = |target: &str| {
        image(&format!("git clone https://h.example/a.git && cd a && git checkout {target}"))
    };
    for (target, expected) in [
        ("heads/main-0-gce608712cbb", &[][..]),
        ("v1.2-14-g2414721b", &[]),
        ("feature-gfx1151", &["2 warning"]),
        ("feature-glowing", &["2 warning"]),
    ] {
        expect("branch-as-commit", NONE, &[("Dockerfile", &text(target), expected)]);
        expect("tag-not-commit", NONE, &[("Dockerfile", &text(target), &[])]);
    }
}

#[test]
fn any_comparison_of_a_digest_is_a_check() {
    let text = |check: &str| {
        image(&format!(
            "curl -sSLo a.tar.gz https://h.example/a.tar.gz && {check}tar -xzf a.tar.gz"
        ))
    };
    for (check, expected) in [
        (
            "H=$(cksum -a sha256 --untagged a.tar.gz | awk '{print $1}') && [ \"$H\" = 1 ] && ",
            &[][..],
        ),
        ("[ \"$(openssl dgst -sha256 -r a.tar.gz)\" = 1 ] && ", &[]),
        ("openssl sha256 a.tar.gz | grep -q 1 && ", &[]),
        ("H=$(sha256sum a.tar.gz) && [ \"$H\" = 1 ] && ", &[]),
        ("H=$(cksum a.tar.gz) && [ \"$H\" = 1 ] && ", &["2 warning"]),
        ("cksum a.tar.gz && ", &["2 warning"]),
        ("openssl version && ", &["2 warning"]),
    ] {
        expect("download-unchecked", NONE, &[("Dockerfile", &text(check), expected)]);
    }
}

#[test]
fn the_start_script_of_an_image_of_others_may_read_more() {
    let rule = "variable-does-not-exist";
    let text = |image: &str, name: &str| service(image, &format!("      - {name}=1\n"));
    for (image, name, expected) in [
        ("quay.io/a/vulkan-ollama:1", "OLLAMA_PULL_ON_START", &[][..]),
        ("docker.io/ollama/ollama:1", "OLLAMA_PULL_ON_START", &["5 warning"]),
        // A slip of the pen, and a name that people believe in.
        ("quay.io/a/vulkan-ollama:1", "OLLAMA_KEEP_ALVE", &["5 error"]),
        ("quay.io/a/vulkan-ollama:1", "OLLAMA_GPU_MEMORY", &["5 error"]),
    ] {
        expect(rule, NONE, &[("compose.yml", &text(image, name), expected)]);
    }
}

#[test]
fn a_variable_of_hipcc_does_not_need_a_wheel() {
    let text = service("docker.io/a/b:1", "      - HCC_AMDGPU_TARGET=gfx1103\n");
    let (message, help) = said("variable-build-only", "compose.yml", &text, Context::default());
    assert!(message.contains("hipcc") && help.contains("`GPU_TARGETS`"), "{message}: {help}");
    let other = service("docker.io/a/b:1", "      - PYTORCH_ROCM_ARCH=gfx1103\n");
    expect("variable-build-only", NONE, &[("compose.yml", &other, &["5 warning"])]);
}

#[test]
fn an_extra_that_does_nothing_is_a_remark() {
    let text = image("pip install 'huggingface-hub[cli]==2.4.0'");
    expect("extra-removed", NONE, &[("Dockerfile", &text, &["2 information"])]);
}

#[test]
fn builds_for_one_release_stay_on_their_index() {
    let text = |packages: &str| {
        image(&format!(
            "pip install --extra-index-url https://repo.amd.com/rocm/whl/gfx1151/ \\\n    {packages}"
        ))
    };
    let pinned = text("torch 'jax_rocm7_plugin==0.9.1+rocm7.13.0'");
    let other = format!("{}RUN pip install 'torch==2.9.1+rocm7.13.0'\n", text("torch"));
    expect("index-moved", NONE, &[("Dockerfile", &pinned, &["2 information"])]);
    expect("index-moved", NONE, &[("Dockerfile", &text("torch"), &["2 warning"])]);
    expect("index-moved", NONE, &[("Dockerfile", &other, &["2 warning"])]);
    let (_, help) = said("index-moved", "Dockerfile", &pinned, Context::default());
    assert!(help.starts_with("keep it for these versions"), "{help}");
}

#[test]
fn an_old_name_with_the_default_value_changes_nothing() {
    let text = |variables: &str| format!("FROM docker.io/a/b@sha256:1\nENV {variables}\n");
    for (variables, expected) in [
        ("HF_HOME=/m/hf \\\n    HUGGINGFACE_HUB_CACHE=/m/hf/hub", &[][..]),
        ("HUGGINGFACE_HUB_CACHE=/root/.cache/huggingface/hub", &[]),
        ("HF_HOME=/m/hf \\\n    HUGGINGFACE_HUB_CACHE=/m/other/hub", &["3 information"]),
        ("HUGGINGFACE_HUB_CACHE=/m/hf/hub", &["2 information"]),
    ] {
        expect("variable-renamed", NONE, &[("Dockerfile", &text(variables), expected)]);
    }
}

#[test]
fn seccomp_alone_is_as_in_amds_own_commands() {
    let run = |options: &str| {
        format!(
            "docker run -d --device=/dev/kfd --security-opt seccomp=unconfined {options} a/b:1\n"
        )
    };
    let rule = "container-unconfined";
    expect(rule, NONE, &[("a.sh", &run("--group-add video"), &[])]);
    expect(rule, NONE, &[("a.sh", &run("--cap-add SYS_PTRACE"), &["1 information"])]);
    expect(rule, NONE, &[("a.sh", &run("--pid=host"), &["1 information"])]);
}

#[test]
fn two_lists_of_the_first_gpus_select_the_same() {
    let text = |outer: &str, inner: &str| {
        service(
            "docker.io/a/b:1",
            &format!("      ROCR_VISIBLE_DEVICES: {outer}\n      HIP_VISIBLE_DEVICES: {inner}\n"),
        )
    };
    for (outer, inner, expected) in [
        ("'0'", "'0'", &[][..]),
        ("'0,1'", "'0,1'", &[]),
        ("${GPU:-0}", "${GPU:-0}", &["6 information"]),
        ("'1,0'", "'1,0'", &["6 information"]),
    ] {
        expect("visible-devices-twice", NONE, &[("compose.yml", &text(outer, inner), expected)]);
    }
}

#[test]
fn a_person_answers_the_questions_of_a_host_script() {
    let key = "curl https://h.example/a.key | sudo gpg --dearmor -o /usr/share/keyrings/a.gpg\n";
    let plain = key.replace("sudo ", "");
    expect("build-waits", NONE, &[("a.sh", key, &[]), ("a.sh", &plain, &["1 information"])]);
}

#[test]
fn torch_is_named_first() {
    for (packages, expected) in [("numpy torch", "`torch`"), ("numpy scipy", "`numpy`")] {
        let text = image(&format!("pip install {packages}"));
        let (message, _) = said("index-unpinned", "Dockerfile", &text, Context::default());
        assert!(message.starts_with(expected), "{message}");
    }
}

/// A folder with a base file and with scripts.
#[derive(Debug)]
struct Folder;

impl Exists for Folder {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        match path.trim_start_matches("./") {
            "docker-compose.yml" => Some(
                "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server\n    ports: ['8080:8080']\n"
                    .to_owned(),
            ),
            "one.sh" | "two.sh" => Some("#!/bin/bash\npip install a\npip install b\npip install c\necho done\n".to_owned()),
            _ => None,
        }
    }
}

#[test]
fn the_ports_of_the_base_file_are_its_own() {
    let context = Context { exists: Some(&Folder), ..Context::default() };
    let over = |ports: &str| {
        format!(
            "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-rocm\n    devices: [/dev/kfd]\n{ports}"
        )
    };
    let of = |text: &str| {
        let found = findings_in("docker-compose.rocm.yml", text, context);
        found.iter().filter(|one| one.rule.id == "service-open").count()
    };
    assert_eq!(of(&over("")), 0);
    assert_eq!(of(&over("    ports: ['8080:8080']\n")), 1);
}

#[test]
fn scripts_that_go_on_are_one_finding() {
    let context = Context { exists: Some(&Folder), ..Context::default() };
    let text = "FROM docker.io/a/b@sha256:1\nCOPY one.sh /\nCOPY two.sh /\nRUN bash /one.sh\nRUN bash /two.sh\n";
    let found = findings_in("Dockerfile", text, context);
    let found: Vec<_> = found.iter().filter(|one| one.rule.id == "errors-ignored").collect();
    let Some(one) = found.first() else { panic!("no finding") };
    assert!(found.iter().all(|other| other.message == one.message), "{found:?}");
    assert_eq!((one.line, one.also.as_slice()), (4, &[5][..]));
    assert!(one.message.contains("a later step may fail"), "{}", one.message);
}

#[test]
fn variants_with_one_port_do_not_both_start() {
    let text = "services:\n  llama-amd:\n    image: docker.io/a/b:1\n    ports: ['8085:8080']\n  llama-cpu:\n    image: docker.io/a/c:1\n    ports: ['8085:8080']\n";
    expect("port-twice", PROJECT, &[("compose.yml", text, &["7 warning"])]);
}

#[test]
fn a_list_of_gpus_in_comments_is_not_the_target() {
    let list = "      # 9.0.6 - gfx906 - Radeon VII\n      # 10.3.0 - gfx1030 - RX 6800\n      # 11.0.0 - gfx1100 - RX 7900, gfx1151\n";
    let own = "      # gfx1151 needs the override to gfx1100\n";
    let set = "      - HSA_OVERRIDE_GFX_VERSION=11.0.0\n";
    let text = |before: &str, after: &str| {
        service("docker.io/a/b:1", &format!("{before}{set}      # Values:\n{after}"))
    };
    let rule = "hsa-override-gfx1151";
    expect(rule, NONE, &[("compose.yml", &text(own, list), &["6 error"])]);
    // The list alone says nothing about this machine, and two lines are no list.
    let two: String = list.lines().take(2).map(|line| format!("{line}\n")).collect();
    expect(rule, NONE, &[("compose.yml", &text("", list), &[])]);
    expect("hsa-override-any-gpu", NONE, &[("compose.yml", &text("", list), &["5 information"])]);
    expect(rule, NONE, &[("compose.yml", &text(own, &two), &["6 warning"])]);
}

#[test]
fn a_shared_ipc_namespace_is_reported_once() {
    let run = |option: &str| {
        format!("docker run --read-only --ipc=host {option} --device=/dev/kfd a/b:1\n")
    };
    expect(
        "ipc-shared",
        NONE,
        &[("a.sh", &run("--shm-size=8g"), &[]), ("a.sh", &run("--rm"), &["1 information"])],
    );
    expect("shm-size-ignored", NONE, &[("a.sh", &run("--shm-size=8g"), &["1 warning"])]);
}
