//! Defects that 83 previously unseen files from 52 repositories revealed on 2026-11-26.

use lint::Context;

use super::{NONE, expect};
use crate::{defined, findings_in};

#[test]
fn a_person_may_build_in_a_container_with_a_shell() {
    let run = |options: &str, command: &str| {
        format!("docker run {options} -e PYTORCH_ROCM_ARCH=gfx942 localhost/a{command}\n")
    };
    for (options, command, expected) in [
        ("-it", "", &[][..]),
        ("--rm -ti", " /bin/bash", &[]),
        ("--interactive --tty", " bash -l", &[]),
        ("-it", " bash -c 'serve'", &["1 warning"]),
        ("-it", " serve", &["1 warning"]),
        ("-d", "", &["1 warning"]),
    ] {
        expect("variable-build-only", NONE, &[("a.sh", &run(options, command), expected)]);
    }
}

#[test]
fn a_tag_with_a_day_is_one_image() {
    for (tag, rule) in [
        ("nightly_0610_rc2_20250605", "image-unpinned"),
        ("nightly-2025-06-05", "image-unpinned"),
        ("nightly-0123456789abcdef0123456789abcdef01234567", "image-unpinned"),
        ("nightly", "image-latest"),
        ("rocm-nightly-2025", "image-latest"),
        ("7.2-latest", "image-latest"),
    ] {
        let text = format!("FROM docker.io/a/b:{tag}\n");
        let found = findings_in("Dockerfile", &text, Context::default());
        let rules: Vec<&str> = found.iter().map(|one| one.rule.id.as_str()).collect();
        assert_eq!(rules, [rule], "{tag}");
    }
}

#[test]
fn branches_of_tensorflow_are_no_tags() {
    let clone =
        |branch: &str, name: &str| format!("git clone -b {branch} https://h.example/{name}\n");
    let cases = [
        (clone("r2.14-rocm-enhanced", "tensorflow-upstream"), &["1 warning"][..]),
        (clone("v2.14.0", "tensorflow-upstream"), &[]),
        (clone("r2.14", "a"), &[]),
    ];
    for (text, expected) in &cases {
        expect("branch-as-commit", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn an_old_kernel_parameter_is_for_some_gpus() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "# gfx1151\nkernelstub -a amdgpu.cwsr_enable=0\n", &["2 information"]),
        ("a.sh", "kernelstub -a amdgpu.cwsr_enable=0\n", &["1 information"]),
        ("a.sh", "# gfx1103\nkernelstub -a amdgpu.cwsr_enable=0\n", &[]),
    ];
    expect("cwsr-off", NONE, cases);
}

#[test]
fn an_old_rocm_is_old_on_every_gpu_that_newer_ones_support() {
    let base = |gpu: &str, tag: &str| {
        format!("# {gpu}\nFROM docker.io/rocm/dev-ubuntu-22.04:{tag}-complete@sha256:1\n")
    };
    for (gpu, tag, rule, expected) in [
        ("gfx1100", "5.7", "rocm-outdated", &["2 information"][..]),
        ("gfx1100", "6.2.4", "rocm-outdated", &["2 information"]),
        ("gfx1100", "6.3", "rocm-outdated", &[]),
        ("gfx906", "5.7", "rocm-outdated", &[]),
        ("gfx1151", "5.7", "rocm-outdated", &[]),
        ("gfx1151", "5.7", "rocm-too-old", &["2 error"]),
        ("any GPU", "5.7", "rocm-outdated", &["2 information"]),
        ("any GPU", "6.2", "rocm-outdated", &["2 information"]),
        ("any GPU", "6.2", "rocm-too-old", &[]),
        ("any GPU", "6.3", "rocm-outdated", &[]),
        ("any GPU", "6.3", "rocm-too-old", &[]),
        ("an APU", "6.3", "rocm-too-old", &[]),
        ("kokkos", "6.3", "rocm-too-old", &[]),
        ("mpi4py", "6.3", "rocm-too-old", &[]),
        ("HSA_OVERRIDE_GFX_VERSION=10.3.0", "5.7", "rocm-outdated", &["2 information"]),
        ("gfx1201", "6.4", "rocm-before-gpu", &["2 warning"]),
        ("gfx1201", "6.4.1", "rocm-before-gpu", &[]),
    ] {
        expect(rule, NONE, &[("Dockerfile", &base(gpu, tag), expected)]);
    }
}

#[test]
fn the_command_of_a_container_is_read() {
    let serve = "llama-server -m x --flash-attn --port 1";
    let cases = [
        ("a.sh", format!("docker run -d --name x localhost/a /l/{serve}\n")),
        ("a.sh", "docker run ghcr.io/ggml-org/llama.cpp:server -fa -m x\n".to_owned()),
        ("a.sh", "docker run --entrypoint llama-server localhost/a -fa -m x\n".to_owned()),
        ("a.sh", format!("podman run localhost/a bash -c '{serve}'\n")),
        ("a.container", format!("[Container]\nExec={serve}\nImage=localhost/a\n")),
    ];
    for (file, text) in &cases {
        let line = if file.ends_with(".sh") { "1 warning" } else { "2 warning" };
        expect("flash-attn-value", NONE, &[(file, text, &[line])]);
    }
    expect("flash-attn-value", NONE, &[("a.sh", "docker run localhost/a -fa\n", &[])]);
}

#[test]
fn commands_inside_commands_come_to_an_end() {
    let text = "docker run a/b ".repeat(20_000);
    assert!(!findings_in("a.sh", &text, Context::default()).is_empty());
}

#[test]
fn aliases_and_escapes_in_here_documents_are_read() {
    let run = "docker run --device /dev/kfd --cap-add SYS_PTRACE localhost/a";
    let cases = [
        format!("alias drun='sudo {run}'\n"),
        format!("echo 'alias drun=\"{run}\"' >> ~/.bashrc\n"),
        format!("alias drun='{} -v $(pwd):/w'\n", run.trim_end_matches(" localhost/a")),
        format!("sudo bash -c \"cat > $F\" <<EOF\n#!/bin/sh\n{run} -v \\$(pwd):/w\nEOF\n"),
        format!("cat > a.sh <<EOF\ndocker run -v \\$(pwd):/w {}\nEOF\n", &run[11..]),
    ];
    for (text, line) in cases.iter().zip([1, 1, 1, 3, 2]) {
        let expected = format!("{line} information");
        expect("container-unconfined", NONE, &[("a.sh", text, &[&expected])]);
    }
}

#[test]
fn a_drop_in_for_ollama_is_one_wherever_it_is() {
    let conf = |names: &[&str]| {
        let lines = names.iter().map(|name| format!("Environment=\"{name}=1\"\n"));
        format!("[Service]\n{}", lines.collect::<String>())
    };
    for (names, expected) in [
        (&["OLLAMA_HOST", "OLLAMA_KEEP_ALIVE", "OLLAMA_NUM_BATCH"][..], &["4 warning"][..]),
        (&["OLLAMA_HOST", "OLLAMA_NUM_BATCH"], &[]),
        (&["OLLAMA_BASE_URL", "OLLAMA_API_KEYS", "OLLAMA_NUM_BATCH"], &[]),
    ] {
        expect("variable-does-not-exist", NONE, &[("override.conf", &conf(names), expected)]);
    }
}

#[test]
fn groups_by_name_do_not_help_podman_wherever_it_is_called() {
    let toolbox = "toolbox create x --image localhost/a -- --device /dev/kfd --group-add video\n";
    let compose = "services:\n  a:\n    image: localhost/a\n    group_add: [video]\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", toolbox, &["1 information"]),
        ("a.sh", &format!("sudo {toolbox}"), &[]),
        ("a.sh", &toolbox.replace("toolbox", "distrobox"), &[]),
        ("podman-compose.yaml", compose, &["4 information"]),
        ("docker-compose.yaml", compose, &[]),
    ];
    expect("rootless-groups", NONE, cases);
}

#[test]
fn only_open_ports_of_services_without_a_login_are_open() {
    let service = |port: &str| {
        format!(
            "services:\n  a:\n    image: localhost/a\n    devices: [/dev/kfd]\n    ports: [\"{port}\"]\n"
        )
    };
    for (port, expected) in [
        ("8188:8188", &["5 information"][..]),
        ("0.0.0.0:11434:11434", &["5 information"]),
        ("127.0.0.1:11434:11434", &[]),
        ("[::1]:11434:11434", &[]),
        ("localhost:8188:8188", &[]),
        ("${BIND}:11434:11434", &[]),
        ("127.0.0.1:8080:8080", &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &service(port), expected)]);
    }
}

#[test]
fn checks_of_signatures_that_stay_are_fine() {
    let repo = |lines: &str| format!("[rocm]\nbaseurl=https://repo.radeon.com/rocm/el9\n{lines}\n");
    let cases: &[(&str, &str, &[&str])] = &[
        ("rocm.cfg", &repo("gpgcheck=0"), &["3 warning"]),
        ("rocm.cfg", &repo("gpgcheck=1"), &[]),
        ("rocm.cfg", &repo("gpgcheck=0\nrepo_gpgcheck=1"), &[]),
        ("rocm.cfg", &repo("repo_gpgcheck=0"), &[]),
        ("a.cfg", "[a]\nbaseurl=https://h.example\ngpgcheck=0\n", &[]),
        (
            "Dockerfile",
            "FROM docker.io/a/b@sha256:1\nRUN echo 'deb [trusted=yes] https://rocm.nightlies.amd.com/deb/1 stable main' > /etc/apt/a.list\n",
            &[],
        ),
    ];
    expect("packages-unsigned", NONE, cases);
}

#[test]
fn sed_that_prints_on_purpose_is_fine() {
    let run = |command: &str| format!("FROM docker.io/a/b@sha256:1\nRUN {command}\n");
    for (command, expected) in [
        ("sed '/torch/d' r.txt && pip install -r r.txt", &["2 warning"][..]),
        ("sed 's/a/b/g' r.txt", &["2 warning"]),
        ("sed -i '/torch/d' r.txt", &[]),
        ("sed '/torch/d' r.txt > n.txt", &[]),
        ("sed '/torch/d' r.txt | tee n.txt", &[]),
        ("sed 's/a/b/p' r.txt", &[]),
        ("sed -n '/a/p' r.txt", &[]),
        ("cat r.txt | sed '/torch/d' -", &[]),
    ] {
        expect("sed-not-in-place", NONE, &[("Dockerfile", &run(command), expected)]);
    }
    expect("sed-not-in-place", NONE, &[("a.sh", "sed '/a/d' r.txt\n", &[])]);
}

#[test]
fn an_uninstall_that_asks_nobody_is_fine() {
    let run = |command: &str| format!("FROM docker.io/a/b@sha256:1\nRUN {command}\n");
    for (command, expected) in [
        ("pip uninstall a", &["2 warning"][..]),
        ("pip uninstall 'a>=1'", &["2 warning", "2 warning"]),
        ("pip uninstall -y a", &[]),
        ("pip uninstall a --yes", &[]),
        ("uv pip uninstall 'a'", &[]),
        ("yes | pip uninstall a", &[]),
    ] {
        expect("pip-uninstall", NONE, &[("Dockerfile", &run(command), expected)]);
    }
    expect("pip-uninstall", NONE, &[("a.sh", "pip uninstall a\n", &[])]);
}

#[test]
fn a_script_that_keeps_the_status_of_a_build_is_fine() {
    let build = "docker buildx build -t a . 2>&1 | tee build.log\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", build, &["1 warning"]),
        ("a.sh", &format!("set -euo pipefail\n{build}"), &[]),
        ("a.sh", &format!("{build}exit ${{PIPESTATUS[0]}}\n"), &[]),
        ("a.sh", "docker build -t a . > build.log\n", &[]),
        ("a.sh", "docker ps | tee build.log\n", &[]),
    ];
    expect("build-status-lost", NONE, cases);
}

#[test]
fn an_activation_that_is_used_is_fine() {
    let run = |command: &str| format!("FROM docker.io/a/b@sha256:1\nRUN {command}\n");
    for (command, expected) in [
        (". /venv/bin/activate", &["2 warning"][..]),
        ("source /venv/bin/activate && pip install a==1", &[]),
        ("echo '. /venv/bin/activate' >> ~/.bashrc", &[]),
    ] {
        expect("shell-state-lost", NONE, &[("Dockerfile", &run(command), expected)]);
    }
}

#[test]
fn a_download_into_a_folder_of_programs_is_a_program() {
    let download = "curl -L https://h.example/a-x86_64 -o";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", &format!("sudo {download} /usr/local/bin/a\n"), &["1 warning"]),
        ("a.sh", &format!("{download} ~/.local/bin/a\n"), &["1 warning"]),
        ("a.sh", &format!("{download} /tmp/a\n"), &[]),
        ("a.sh", &format!("{download} /usr/bin/a\necho '1 a' | sha256sum -c\n"), &[]),
    ];
    expect("download-unchecked", NONE, cases);
}

#[test]
fn a_list_beside_a_package_does_not_pin_it() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "pip install torch -r r.txt\n", &["1 information"]),
        ("a.sh", "pip install torch -c c.txt\n", &[]),
        ("a.sh", "pip install --pre torch -c c.txt\n", &["1 information"]),
        ("a.sh", "pip install -r r.txt\n", &[]),
    ];
    expect("index-unpinned", NONE, cases);
}

#[test]
fn drivers_that_docker_has_are_fine() {
    let service = |driver: &str| {
        format!(
            "services:\n  a:\n    image: localhost/a\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: {driver}\n              capabilities: [gpu]\n"
        )
    };
    for (driver, expected) in
        [("amdgpu", &["8 error"][..]), ("nvidia", &[]), ("cdi", &[]), ("amd", &[])]
    {
        expect("device-driver", NONE, &[("compose.yml", &service(driver), expected)]);
    }
}

#[test]
fn the_release_of_pytorch_decides_about_its_variable() {
    let service = |tag: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/rocm/pytorch:{tag}@sha256:1\n    environment:\n      PYTORCH_HIP_ALLOC_CONF: max_split_size_mb:512\n"
        )
    };
    for (tag, expected) in [
        ("rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.9.1", &["5 information"][..]),
        ("rocm7.1_ubuntu24.04_py3.12_pytorch_release_2.8.0", &[]),
        ("rocm6.0.2_ubuntu22.04_py3.10_pytorch_2.1.2", &[]),
    ] {
        expect("variable-renamed", NONE, &[("compose.yml", &service(tag), expected)]);
    }
}

#[test]
fn only_ollama_has_no_folder_of_rocm() {
    let run = |options: &str, image: &str| {
        format!("docker run -e LD_LIBRARY_PATH=/opt/rocm/lib {options} {image}@sha256:1\n")
    };
    let ollama = "docker.io/ollama/ollama:rocm";
    for (options, image, expected) in [
        ("", ollama, &["1 warning"][..]),
        ("-v /opt/rocm:/opt/rocm", ollama, &[]),
        ("", "docker.io/ollama/ollama:0.3.13-rocm", &[]),
        ("", "docker.io/rocm/pytorch:a", &[]),
    ] {
        expect("variable-without-effect", NONE, &[("a.sh", &run(options, image), expected)]);
    }
}

#[test]
fn releases_of_python_end_as_well() {
    for (tag, expected) in [
        ("3.10-slim", &["1 warning"][..]),
        ("3.9", &["1 warning"]),
        ("2.7", &["1 warning"]),
        ("3.13-slim", &[]),
        ("3", &[]),
        ("slim", &[]),
    ] {
        let text = format!("FROM docker.io/library/python:{tag}\n");
        expect("base-end-of-life", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn the_variable_of_a_build_is_no_option_of_cmake() {
    let name = "GGML_CUDA_ENABLE_UNIFIED_MEMORY";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", &format!("cmake -B b -D{name}=ON\n"), &["1 warning"]),
        ("a.sh", &format!("{name}=1 llama-server -m x\n"), &[]),
    ];
    expect("variable-without-effect", NONE, cases);
}

#[test]
fn packages_and_folders_that_are_gone_are_named() {
    let source =
        "echo 'deb https://repo.radeon.com/rocm/apt/4.3.1 ubuntu main' > /etc/apt/a.list\n";
    let install = "sudo apt install -y rocm-dkms\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", install, &["1 warning"]),
        ("a.sh", &format!("{source}{install}"), &[]),
        ("a.sh", "sudo apt remove rocm-dkms\n", &[]),
        ("a.sh", "echo 'deb https://repo.radeon.com/rocm/apt/debian ubuntu main' > /a.list\n", &[]),
    ];
    expect("rocm-package-gone", NONE, cases);
    let latest = "https://repo.radeon.com/amdgpu-install/latest/ubuntu/noble/amdgpu-install";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", &format!("wget {latest}_${{ROCM_VERSION}}_all.deb\n"), &["1 warning"]),
        ("a.sh", &format!("wget {latest}_7.2.70200-1_all.deb\n"), &["1 error"]),
        ("a.sh", &format!("wget \"{latest}$NEWEST\"\n"), &[]),
    ];
    expect("rocm-latest", NONE, cases);
}

#[test]
fn an_override_from_another_variable_may_be_empty() {
    let service = |value: &str| {
        format!("services:\n  a:\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION={value}\n")
    };
    for (value, expected) in [
        ("${GFX}", &["4 warning"][..]),
        ("$GFX", &["4 warning"]),
        ("${GFX} # the GPU", &["4 warning"]),
        ("${HSA_OVERRIDE_GFX_VERSION} # the GPU", &["4 warning"]),
        ("${GFX:-10.3.0}", &[]),
        ("${GFX:?set it}", &[]),
        ("${MAJOR}.3.0", &[]),
    ] {
        expect("hsa-override-empty", NONE, &[("compose.yml", &service(value), expected)]);
    }
    let defined = defined(".env", "GFX=10.3.0\n");
    let context = Context { defined: Some(&defined), ..Context::default() };
    let found = findings_in("compose.yml", &service("${GFX}"), context);
    assert!(found.iter().all(|one| one.rule.id != "hsa-override-empty"), "{found:?}");
}
